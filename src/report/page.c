#include "report/page.h"

#include "base/escape.h"
#include "base/io.h"
#include "base/mem.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SVG_BYTES ((size_t)16 << 20)

/* Colours follow the reader's preference; charts, drawn black, are inverted on a dark page. Tables
 * scroll within their own box on narrow screens. At most two charts stand side by side, so that
 * those of all rows are of one size. Printed, everything is dark on white and no table or chart is
 * cut in two if it can be helped. */
static const char style[] =
    ":root{color-scheme:light dark;--text:#1d2329;--soft:#5b6670;--line:#d5dade;--back:#fff;"
    "--panel:#f5f7f8;--warn:#9a5b00;--warn-back:#fff5e0;--bad:#b3261e;--good:#1c7a43;--link:#"
    "1a5fb4}\n"
    "@media(prefers-color-scheme:dark){:root{--text:#e3e7ea;--soft:#9aa5ae;--line:#3a434b;"
    "--back:#14181b;--panel:#1d2327;--warn:#f0b45a;--warn-back:#33270f;--bad:#ff8a80;"
    "--good:#6fd398;--link:#8ab8ff}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--back);color:var(--text);font:16px/1.5 system-ui,sans-serif}\n"
    "main{max-width:84rem;margin:0 auto;padding:1.5rem 1rem 4rem}\n"
    "h1{font-size:1.7rem;line-height:1.25;margin:.5rem 0}\n"
    "h2{font-size:1.25rem;margin:2.5rem 0 .75rem;padding-top:.75rem;border-top:1px solid "
    "var(--line)}\n"
    "h1,h2,li,td,p{overflow-wrap:anywhere}\n"
    "p{max-width:48rem}\n"
    "a{color:var(--link)}\n"
    ".soft,.evidence,.note{color:var(--soft);font-size:.875rem}\n"
    ".evidence{display:block}\n"
    ".banner{border-left:.3rem solid var(--warn);background:var(--warn-back);padding:.5rem .8rem;"
    "border-radius:.25rem;max-width:none}\n"
    "nav ul{list-style:none;margin:1rem 0;padding:.6rem .9rem;background:var(--panel);"
    "border-radius:.4rem;display:flex;flex-wrap:wrap;gap:.2rem 1.2rem}\n"
    ".findings{list-style:none;margin:0;padding:0;max-width:60rem}\n"
    ".findings li{border-left:.3rem solid var(--link);background:var(--panel);padding:.5rem .8rem;"
    "margin:0 0 .5rem;border-radius:.25rem}\n"
    ".findings .caution{border-color:var(--warn);background:var(--warn-back)}\n"
    ".caution b{color:var(--warn)}\n"
    ".part{display:flex;flex-wrap:wrap;gap:1rem 2rem;align-items:flex-start}\n"
    ".scroll{overflow-x:auto;min-width:0;max-width:100%;flex:0 1 auto}\n"
    "table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.3rem .8rem .3rem 0;border-bottom:1px solid var(--line);text-align:left;"
    "vertical-align:top}\n"
    "th{font-weight:600;color:var(--soft);vertical-align:bottom}\n"
    "td.number,th.number{text-align:right;padding:.3rem .8rem}\n"
    "td.number{white-space:nowrap}\n"
    "td.text,td.label{overflow-wrap:normal;min-width:6rem}\n"
    "td.reason{min-width:14rem}\n"
    "code{font-size:.9em;overflow-wrap:anywhere}\n"
    ".bad{color:var(--bad);font-weight:600}.good{color:var(--good)}\n"
    "figure{margin:0;flex:1 1 27rem;min-width:0;max-width:36rem}\n"
    "figure img{display:block;width:100%;height:auto}\n"
    "@media screen and (prefers-color-scheme:dark){figure img{filter:invert(.93) "
    "hue-rotate(180deg)}}\n"
    "@media print{:root{color-scheme:light;--text:#000;--soft:#444;--line:#bbb;--back:#fff;"
    "--panel:#fff;--warn:#7a4700;--warn-back:#fff;--link:#000}\n"
    "body{font-size:10pt}main{padding:0;max-width:none}nav{display:none}\n"
    "figure,li,tr{break-inside:avoid}h2{break-after:avoid}\n"
    "figure{flex-basis:45%}.scroll{overflow:visible}table{font-size:8pt}\n"
    "th,td,td.number,th.number{padding:.15rem .4rem .15rem 0}}\n";

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

void page_put_html(Page *page, const char *text)
{
    for (size_t size = strlen(text); size > 0;) {
        char byte[ESCAPE_BYTE_SIZE];
        int plain = escape_visible(text, size);
        bool space = *text == '\n' || *text == '\t';
        if (entity(*text) != NULL) {
            page_put(page, "%s", entity(*text));
        } else if (plain > 0 || space) {
            page_put_bytes(page, text, plain > 0 ? (size_t)plain : 1);
        } else {
            page_put(page, "%s", escape_byte((unsigned char)*text, byte));
        }
        text += plain > 0 ? plain : 1;
        size -= plain > 0 ? (size_t)plain : 1;
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

void page_free(Page *page)
{
    free(page->text);
    *page = (Page){0};
}

/* --- reports --- */

void pages_mark(Pages *pages, const char *markdown, const char *html)
{
    page_put(&pages->markdown, "%s", markdown);
    page_put(&pages->html, "%s", html);
}

void pages_put(Pages *pages, const char *text, const char *before, const char *behind,
               const char *html_before, const char *html_behind)
{
    pages_mark(pages, before, html_before);
    page_put_markdown(&pages->markdown, text);
    page_put_html(&pages->html, text);
    pages_mark(pages, behind, html_behind);
}

void pages_open(Pages *pages, const char *title)
{
    Page *html = &pages->html;
    page_put(html, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                   "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                   "<title>");
    page_put_html(html, title);
    page_put(html, "</title>\n<style>\n%s</style>\n</head><body><main>\n", style);
    pages_put(pages, title, "# ", "\n\n", "<h1>", "</h1>\n");
}

int pages_put_figure(Pages *pages, const char *folder, const char *shown, const char *name,
                     const char *alt)
{
    char *path = mem_format("%s/%s.svg", folder, name), *svg;
    size_t size;
    int code = io_read_all(path, MAX_SVG_BYTES, &svg, &size);
    free(path);
    if (code != 0) {
        return code;
    }
    pages_put(pages, alt, "![", "](", "<figure><img alt=\"", "\" src=\"data:image/svg+xml,");
    page_put(&pages->markdown, "%s%s.png)\n\n", shown, name);
    for (size_t i = 0; i < size; i++) { /* what RFC 3986 lets stand, and what browsers do besides */
        bool plain = svg[i] > ' ' && svg[i] < 127 && strchr("\"#%<>&?[]^`{|}\\", svg[i]) == NULL;
        page_put(&pages->html, plain || svg[i] == ' ' ? "%c" : "%%%02X", (unsigned char)svg[i]);
    }
    page_put(&pages->html, "\"></figure>\n");
    free(svg);
    return 0;
}

int pages_save(Pages *pages, const char *folder)
{
    page_put(&pages->html, "</main></body></html>\n");
    char *markdown = io_join(folder, "report.md"), *html = io_join(folder, "report.html");
    int code = io_write_atomic(markdown, pages->markdown.text, pages->markdown.size);
    code = code != 0 ? code : io_write_atomic(html, pages->html.text, pages->html.size);
    free(markdown);
    free(html);
    pages_free(pages);
    return code;
}

void pages_free(Pages *pages)
{
    page_free(&pages->markdown);
    page_free(&pages->html);
}
