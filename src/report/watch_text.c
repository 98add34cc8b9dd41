#include "report/watch.h"

#include "base/escape.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define ITEM_GAP 2

void watch_text_init(WatchText *text, const WatchFlags *flags)
{
    *text = (WatchText){.flags = *flags};
    text->lines = mem_zalloc((size_t)flags->height + 1, sizeof *text->lines);
}

void watch_text_free(WatchText *text)
{
    for (int i = 0; i < text->count; i++) {
        page_free(&text->lines[i]);
    }
    free(text->lines);
    *text = (WatchText){0};
}

bool watch_text_line(WatchText *text)
{
    if (text->count >= text->flags.height) {
        text->column = text->flags.width; /* what follows is clipped */
        return false;
    }
    page_put(&text->lines[text->count++], "%s", "");
    text->column = 0;
    return true;
}

/* --- characters --- */

/* Columns of a code point; -1: not to be printed. Ours (lines, blocks, dots) take one column in
 * every locale. */
static int columns_of(uint32_t point)
{
    if (point < 0x80) {
        return point >= 0x20 && point < 0x7f ? 1 : -1;
    }
    bool drawn =
        (point >= 0x2500 && point < 0x2600) || (point >= 0x2800 && point < 0x2900) || point == 0xb7;
    return drawn ? 1 : wcwidth((wchar_t)point);
}

/* One character of `string` as it is shown: its bytes in *shown and *size, its columns returned,
 * and the bytes that it takes of the string in *taken. */
static int next_character(const char *string, bool utf8, const char **shown, int *size, int *taken)
{
    size_t left = strnlen(string, 4);
    uint32_t point = utf8_decode((const uint8_t *)string, left, taken);
    int columns = escape_visible(string, left) > 0 ? columns_of(point) : -1;
    *shown = string;
    *size = *taken;
    if (columns < 0 || (!utf8 && point >= 0x80)) {
        *shown = "?";
        *size = columns = 1;
    }
    return columns;
}

int watch_text_columns(const char *line, bool utf8)
{
    int columns = 0;
    while (*line != '\0') {
        if (line[0] == '\033' && line[1] == '[') {
            line += strcspn(line, "m");
            line += *line != '\0';
            continue;
        }
        const char *shown;
        int size, taken;
        columns += next_character(line, utf8, &shown, &size, &taken);
        line += taken;
    }
    return columns;
}

/* --- lines --- */

static const char *const inks[INK_COUNT] = {
    [INK_DIM] = "\033[2m",      [INK_BOLD] = "\033[1m",    [INK_RED] = "\033[31m",
    [INK_GREEN] = "\033[32m",   [INK_YELLOW] = "\033[33m", [INK_BLUE] = "\033[34m",
    [INK_MAGENTA] = "\033[35m", [INK_CYAN] = "\033[36m"};

/* What begins an ink or ends it, in the last line. */
static void put_code(WatchText *text, Ink ink, const char *code)
{
    if (text->flags.colour && ink != INK_PLAIN) {
        page_put(&text->lines[text->count - 1], "%s", code);
    }
}

static void put(WatchText *text, Ink ink, const char *string)
{
    if (text->count == 0 || text->column >= text->flags.width || *string == '\0') {
        return;
    }
    Page *line = &text->lines[text->count - 1];
    put_code(text, ink, inks[ink]);
    while (*string != '\0') {
        const char *shown;
        int size, taken, columns = next_character(string, text->flags.utf8, &shown, &size, &taken);
        if (text->column + columns > text->flags.width) {
            text->column = text->flags.width;
            break;
        }
        page_put_bytes(line, shown, (size_t)size);
        text->column += columns;
        string += taken;
    }
    put_code(text, ink, "\033[0m");
}

void watch_text_put(WatchText *text, Ink ink, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *string = mem_vformat(format, args);
    va_end(args);
    put(text, ink, string);
    free(string);
}

void watch_text_item(WatchText *text, Ink ink, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *string = mem_vformat(format, args);
    va_end(args);
    int columns = watch_text_columns(string, text->flags.utf8);
    if (text->count == 0 ||
        (text->column > 0 && text->column + ITEM_GAP + columns > text->flags.width)) {
        watch_text_line(text);
    } else if (text->column > 0) {
        put(text, INK_PLAIN, "  ");
    }
    put(text, ink, string);
    free(string);
}

void watch_text_wrap(WatchText *text, Ink ink, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *sentence = mem_vformat(format, args), *rest = sentence;
    va_end(args);
    bool first = true;
    for (char *word; (word = strsep(&rest, " \n")) != NULL;) {
        int columns = watch_text_columns(word, text->flags.utf8);
        if (first || (text->column > 0 && text->column + 1 + columns > text->flags.width)) {
            if (!watch_text_line(text)) {
                break;
            }
        } else {
            put(text, ink, " ");
        }
        put(text, ink, word);
        first = false;
    }
    free(sentence);
}

void watch_text_glyph(WatchText *text, Ink ink, const char *utf8, char ascii, int count)
{
    if (text->count == 0 || count <= 0) {
        return;
    }
    int room = text->flags.width - text->column;
    count = count < room ? count : room;
    put_code(text, ink, inks[ink]);
    for (int i = 0; i < count; i++) {
        Page *line = &text->lines[text->count - 1];
        text->flags.utf8 ? page_put(line, "%s", utf8) : page_put(line, "%c", ascii);
    }
    put_code(text, ink, "\033[0m");
    text->column += count > 0 ? count : 0;
}

void watch_text_append(WatchText *text, const WatchText *from, int count)
{
    for (int i = 0; i < count && watch_text_line(text); i++) {
        page_put_bytes(&text->lines[text->count - 1], from->lines[i].text, from->lines[i].size);
    }
}
