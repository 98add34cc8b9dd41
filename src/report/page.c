#include "report/page.h"

#include "base/escape.h"
#include "base/mem.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void page_put_bytes(Page *page, const char *bytes, size_t count)
{
    if (page->size + count + 1 > page->capacity) {
        page->capacity = 2 * (page->size + count + 1);
        page->text = mem_realloc(page->text, page->capacity, 1);
    }
    memcpy(page->text + page->size, bytes, count);
    page->size += count;
    page->text[page->size] = '\0';
}

void page_put(Page *page, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    text = mem_checked(length >= 0 ? text : NULL, strlen(format));
    page_put_bytes(page, text, (size_t)length);
    free(text);
}

static const char *entity(char sign)
{
    return sign == '<'    ? "&lt;"
           : sign == '>'  ? "&gt;"
           : sign == '&'  ? "&amp;"
           : sign == '"'  ? "&quot;"
           : sign == '\'' ? "&#39;"
                          : NULL;
}

/* Text of which some signs are written otherwise. */
static void put_text(Page *page, const char *text, const char *(*instead)(char sign))
{
    for (size_t size = strlen(text); size > 0;) {
        char byte[ESCAPE_BYTE_SIZE];
        int plain = escape_visible(text, size);
        const char *other = instead(*text);
        if (other != NULL) {
            page_put_bytes(page, other, strlen(other));
        } else if (plain > 0 || *text == '\n' || *text == '\t') {
            page_put_bytes(page, text, plain > 0 ? (size_t)plain : 1);
        } else {
            const char *shown = escape_byte((unsigned char)*text, byte);
            page_put(page, "%s%s", instead('\\') != NULL ? "\\" : "", shown);
        }
        text += plain > 0 ? plain : 1;
        size -= plain > 0 ? (size_t)plain : 1;
    }
}

void page_put_html(Page *page, const char *text)
{
    put_text(page, text, entity);
}

static const char *json_sign(char sign)
{
    return sign == '"'    ? "\\\""
           : sign == '\\' ? "\\\\"
           : sign == '\n' ? "\\n"
           : sign == '\t' ? "\\t"
           : sign == '<'  ? "\\u003c"
           : sign == '>'  ? "\\u003e"
           : sign == '&'  ? "\\u0026"
                          : NULL;
}

void page_put_json(Page *page, const char *text)
{
    page_put_bytes(page, "\"", 1);
    put_text(page, text, json_sign);
    page_put_bytes(page, "\"", 1);
}

/* Steps and tokens, the most of all numbers, many times as fast as printf does it. */
static void put_whole(Page *page, int64_t number)
{
    char text[24], *at = text + sizeof text;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    page_put_bytes(page, at, (size_t)(text + sizeof text - at));
}

void page_put_number(Page *page, double number, int digits)
{
    char text[40];
    if (number >= 0 && number < 1e6 && digits >= 6 && floor(number) == number && !signbit(number)) {
        put_whole(page, (int64_t)number);
        return;
    }
    int length = isfinite(number) ? snprintf(text, sizeof text, "%.*g", digits, number)
                                  : snprintf(text, sizeof text, "null");
    page_put_bytes(page, text, (size_t)length);
}

void page_put_markdown(Page *page, const char *text)
{
    char *safe = escape_markdown(text);
    page_put(page, "%s", safe);
    free(safe);
}

/* Bytes of the first `count` letters. */
static size_t bytes_of(const char *text, size_t count)
{
    size_t at = 0;
    while (text[at] != '\0' && (count > 0 || ((unsigned char)text[at] & 0xc0) == 0x80)) {
        count -= ((unsigned char)text[at] & 0xc0) != 0x80;
        at++;
    }
    return at;
}

int page_put_wrapped(Page *page, const char *text, size_t fit, int most)
{
    int count = 0;
    page_put_bytes(page, "", 0);
    for (text += strspn(text, " "); *text != '\0' && count < most; text += strspn(text, " ")) {
        size_t length = bytes_of(text, fit);
        bool all = text[length] == '\0', cut = !all && count == most - 1;
        size_t space = length;
        while (!all && space > 0 && text[space] != ' ') {
            space--;
        }
        length = cut ? bytes_of(text, fit - 3) : space > 0 && !all ? space : length;
        page_put(page, "%s%.*s%s", count > 0 ? "\n" : "", (int)length, text, cut ? "..." : "");
        count++;
        text += length;
    }
    return count;
}

void page_free(Page *page)
{
    free(page->text);
    *page = (Page){0};
}
