#include "base/escape.h"

#include "base/mem.h"
#include "base/page.h"
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
    va_list args;
    va_start(args, format);
    char *text = mem_vformat(format, args);
    va_end(args);
    size_t size = strlen(text), first = strspn(format, "\n"), last = 0;
    for (size_t end = strlen(format); end > first && format[end - 1] == '\n'; end--) {
        last++;
    }
    fwrite(text, 1, first, file);
    escape_write(file, text + first, size - first - last, false);
    fwrite(text + size - last, 1, last, file);
    free(text);
}

/* --- other readers --- */

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
    Page out = {0};
    for (const char *at = text; *at != '\0';) {
        int plain = visible(at);
        if (*at == '<' || *at == '&') {
            page_put(&out, "%s", *at == '<' ? "&lt;" : "&amp;");
        } else if (*at == '\n' || *at == '\t' || *at == '\r') {
            page_put(&out, " ");
        } else if (plain == 0) {
            page_put(&out, "\\%s", escape_byte((unsigned char)*at, byte));
        } else {
            page_put_bytes(&out, "\\", is_markdown(at, at == text));
            page_put_bytes(&out, at, (size_t)plain);
        }
        at += plain > 0 ? plain : 1;
    }
    return page_end(&out);
}

char *escape_json(const char *json)
{
    Page out = {0};
    while (*json != '\0') {
        int length;
        uint32_t character = utf8_decode((const uint8_t *)json, strnlen(json, 4), &length);
        if (visible(json) > 0 || *json == '\n' || *json == '\t') {
            page_put_bytes(&out, json, (size_t)length);
        } else {
            page_put(&out, "\\u%04x", character <= 0xffff ? character : UTF8_REPLACEMENT);
        }
        json += length;
    }
    return page_end(&out);
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
    Page out = {0};
    bool seen = is_all_visible(word);
    page_put(&out, "%s", seen ? "'" : "$'");
    while (*word != '\0') {
        int plain = visible(word);
        if (*word == '\'') {
            page_put(&out, "%s", seen ? "'\\''" : "\\'");
        } else if (*word == '\\') {
            page_put(&out, "%s", seen ? "\\" : "\\\\");
        } else if (plain > 0) {
            page_put_bytes(&out, word, (size_t)plain);
        } else if (*word == '\n') {
            page_put(&out, "\\n");
        } else {
            page_put(&out, "\\%03o", (unsigned char)*word);
        }
        word += plain > 0 ? plain : 1;
    }
    page_put(&out, "'");
    return page_end(&out);
}

char *escape_shell_path(const char *path)
{
    char *named = mem_format("%s%s", path[0] == '-' ? "./" : "", path);
    char *word = escape_shell(named);
    free(named);
    return word;
}
