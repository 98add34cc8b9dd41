#pragma once
/* Text from outside (paths, names in files, words of records) on its way to a person. A terminal
 * obeys control characters, and a line break can forge a line of pacer's own. So what is no
 * visible character of UTF-8 is shown by its bytes as \xNN: C0 and C1 controls, DEL, line
 * separators, controls of the writing direction, bytes that are no UTF-8. Line breaks and tabs
 * are shown as \n and \t. All other text, backslashes included, stays as it is: to escape twice
 * is to escape once. */
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Bytes of the character at text that is shown as it is; 0: its first byte is to be escaped.
 * size >= 1. */
int escape_visible(const void *text, size_t size);

/* One byte as \n, \t or \xNN; returns out. */
#define ESCAPE_BYTE_SIZE 5
const char *escape_byte(unsigned char byte, char out[ESCAPE_BYTE_SIZE]);

/* A NUL-terminated text as one line, cut behind a whole character when it is longer than `room`
 * with its NUL. */
void escape_line(char *out, size_t room, const char *text);

/* Any bytes; `breaks`: line breaks and tabs stay as they are. */
void escape_write(FILE *file, const void *text, size_t size, bool breaks);

/* fprintf of a line: the line breaks that the format begins and ends with stay, what lies
 * between is escaped. */
void escape_printf(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As text of Markdown, on one line, also in a cell of a table. Caller frees. */
char *escape_markdown(const char *text);

/* Printed JSON with all that is not visible as \uNNNN, and U+FFFD for what is no UTF-8. Caller
 * frees. */
char *escape_json(const char *json);

/* As one word of a shell's command line (bash, zsh), quoted only where it has to be. Caller
 * frees. */
char *escape_shell(const char *word);

/* The same of a path, which a program shall not take for an option. Caller frees. */
char *escape_shell_path(const char *path);
