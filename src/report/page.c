#include "report/page.h"

#include "base/escape.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void page_put_tree(Page *page, cJSON *tree)
{
    char *line = json_line(tree), *safe = escape_json(line);
    page_put_bytes(page, safe, strlen(safe));
    free(safe);
    free(line);
    cJSON_Delete(tree);
}

/* Steps and tokens, the most of all numbers, many times as fast as printf does it. */
static void put_whole(Page *page, double number)
{
    char text[24], *at = text + sizeof text;
    uint64_t left = (uint64_t)fabs(number);
    do {
        *--at = (char)('0' + left % 10);
    } while ((left /= 10) > 0);
    page_put_bytes(page, "-", number < 0);
    page_put_bytes(page, at, (size_t)(text + sizeof text - at));
}

void page_put_number(Page *page, double number, int digits)
{
    if (number == floor(number) && fabs(number) < pow(10, digits)) {
        put_whole(page, number);
    } else if (isfinite(number)) {
        char text[40];
        page_put_bytes(page, text, (size_t)snprintf(text, sizeof text, "%.*g", digits, number));
    } else {
        page_put_bytes(page, "null", 4);
    }
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
