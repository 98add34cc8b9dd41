#include "base/escape.h"

#include "base/assert.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* --- what is shown --- */

static bool is_visible(uint32_t character)
{
    bool control = character < 0x20 || (character >= 0x7f && character < 0xa0);
    bool separator = character == 0x2028 || character == 0x2029;
    bool direction = character == 0x61c || character == 0x200e || character == 0x200f ||
                     (character >= 0x202a && character <= 0x202e) ||
                     (character >= 0x2066 && character <= 0x2069);
    bool none = (character & 0xfffe) == 0xfffe; /* no character, by definition, and none in XML */
    return !control && !separator && !direction && !none;
}

int escape_visible(const void *text, size_t size)
{
    int length;
    uint32_t character = utf8_decode(text, size, &length);
    bool broken = character == UTF8_REPLACEMENT && length == 1;
    return !broken && is_visible(character) ? length : 0;
}

/* Of a text that ends with NUL, which is part of no character. */
static int visible(const char *text)
{
    return escape_visible(text, 4);
}

const char *escape_byte(unsigned char byte, char out[ESCAPE_BYTE_SIZE])
{
    if (byte == '\n' || byte == '\t') {
        snprintf(out, ESCAPE_BYTE_SIZE, "\\%c", byte == '\n' ? 'n' : 't');
    } else {
        snprintf(out, ESCAPE_BYTE_SIZE, "\\x%02x", byte);
    }
    return out;
}

void escape_line(char *out, size_t room, const char *text)
{
    size_t used = 0;
    while (*text != '\0') {
        char byte[ESCAPE_BYTE_SIZE];
        int plain = visible(text);
        const char *shown = plain > 0 ? text : escape_byte((unsigned char)*text, byte);
        size_t length = plain > 0 ? (size_t)plain : strlen(shown);
        if (used + length >= room) {
            break;
        }
        memcpy(out + used, shown, length);
        used += length;
        text += plain > 0 ? plain : 1;
    }
    out[used] = '\0';
}

void escape_write(FILE *file, const void *bytes, size_t size, bool breaks)
{
    const char *text = bytes;
    while (size > 0) {
        char byte[ESCAPE_BYTE_SIZE];
        int plain = escape_visible(text, size);
        plain = breaks && (*text == '\n' || *text == '\t') ? 1 : plain;
        if (plain > 0) {
            fwrite(text, 1, (size_t)plain, file);
        } else {
            fputs(escape_byte((unsigned char)*text, byte), file);
        }
        text += plain > 0 ? plain : 1;
        size -= plain > 0 ? (size_t)plain : 1;
    }
}

void escape_printf(FILE *file, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    PACER_ASSERT(length >= 0, "a line cannot be formatted: %s", format);
    size_t size = (size_t)length, first = strspn(format, "\n"), last = 0;
    char *text = mem_alloc(size + 1);
    vsnprintf(text, size + 1, format, again);
    va_end(again);
    for (size_t end = strlen(format); end > first && format[end - 1] == '\n'; end--) {
        last++;
    }
    fwrite(text, 1, first, file);
    escape_write(file, text + first, size - first - last, false);
    fwrite(text + size - last, 1, last, file);
    free(text);
}

/* --- other readers --- */

/* The text that was written to `out`, a stream into *text. */
static char *finished(FILE *out, char *const *text)
{
    bool complete = ferror(out) == 0;
    complete = fclose(out) == 0 && complete;
    return mem_checked(complete ? *text : NULL, 0);
}

/* Whether the sign means something in Markdown; at the start of a line some begin a list or a
 * quotation. */
static bool is_markdown(const char *at, bool starts)
{
    bool list = (*at == '-' || *at == '+') && (at[1] == ' ' || at[1] == *at);
    return strchr("\\`*_[]|#~$", *at) != NULL || (starts && (list || *at == '>'));
}

char *escape_markdown(const char *text)
{
    char byte[ESCAPE_BYTE_SIZE];
    char *made = NULL;
    size_t size;
    FILE *out = mem_checked(open_memstream(&made, &size), 0);
    for (const char *at = text; *at != '\0';) {
        int plain = visible(at);
        if (*at == '<' || *at == '&') {
            fputs(*at == '<' ? "&lt;" : "&amp;", out);
        } else if (*at == '\n' || *at == '\t' || *at == '\r') {
            fputc(' ', out);
        } else if (plain == 0) {
            fputc('\\', out);
            fputs(escape_byte((unsigned char)*at, byte), out);
        } else {
            fputs(is_markdown(at, at == text) ? "\\" : "", out);
            fwrite(at, 1, (size_t)plain, out);
        }
        at += plain > 0 ? plain : 1;
    }
    return finished(out, &made);
}

char *escape_json(const char *json)
{
    char *made = NULL;
    size_t size;
    FILE *out = mem_checked(open_memstream(&made, &size), 0);
    while (*json != '\0') {
        int length;
        uint32_t character = utf8_decode((const uint8_t *)json, strnlen(json, 4), &length);
        if (visible(json) > 0 || *json == '\n' || *json == '\t') {
            fwrite(json, 1, (size_t)length, out);
        } else {
            fprintf(out, "\\u%04x", character <= 0xffff ? character : UTF8_REPLACEMENT);
        }
        json += length;
    }
    return finished(out, &made);
}

static bool needs_no_quotes(const char *word)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "_@%+:,./-=";
    return word[0] != '\0' && word[0] != '=' && word[strspn(word, safe)] == '\0';
}

static bool is_all_visible(const char *word)
{
    int plain = 1;
    for (; *word != '\0' && plain > 0; word += plain) {
        plain = visible(word);
    }
    return plain > 0;
}

/* 'it'\''s' where every character can be seen, else $'it\'s\033': octal, for a digit behind \xNN
 * may count to it. */
char *escape_shell(const char *word)
{
    if (needs_no_quotes(word)) {
        return mem_strdup(word);
    }
    char *made = NULL;
    size_t size;
    FILE *out = mem_checked(open_memstream(&made, &size), 0);
    bool seen = is_all_visible(word);
    fputs(seen ? "'" : "$'", out);
    while (*word != '\0') {
        int plain = visible(word);
        if (*word == '\'') {
            fputs(seen ? "'\\''" : "\\'", out);
        } else if (*word == '\\') {
            fputs(seen ? "\\" : "\\\\", out);
        } else if (plain > 0) {
            fwrite(word, 1, (size_t)plain, out);
        } else if (*word == '\n') {
            fputs("\\n", out);
        } else {
            fprintf(out, "\\%03o", (unsigned char)*word);
        }
        word += plain > 0 ? plain : 1;
    }
    fputs("'", out);
    return finished(out, &made);
}

char *escape_shell_path(const char *path)
{
    char *named = mem_format("%s%s", path[0] == '-' ? "./" : "", path);
    char *word = escape_shell(named);
    free(named);
    return word;
}
