#include "report/chart_svg.h"

#include "base/err.h"

#include <stdbool.h>
#include <string.h>

/* Within tags, where no label can be: what gnuplot writes, and what stands there instead. "NAME"
 * is the chart's. */
static const char *const rules[][2] = {
    {"xlink:href='#", "href='#NAME-"},
    {"id='", "id='NAME-"},
    {"id=\"", "id=\"NAME-"},
    {" color=\"black\"", ""},
    {"font-size=\"15.00\"", "font-size=\"15.00\" font-weight=\"bold\""}, /* the title */
    {"rgb( 18,  52,  86)", "currentColor"},
    {"rgb(18,52,86)", "currentColor"},
    {"'rgb( 35,  69, 103)'", "'currentColor' stroke-opacity='.16'"},
    {"stroke=\"rgb(35,69,103)\"", "stroke=\"currentColor\" stroke-opacity=\".16\""},
};

/* Elements that are left out, from the first text to the second. */
static const char *const dropped[][2] = {
    {"<title>", "</title>"},
    {"<desc>", "</desc>"},
    {"<filter ", "</filter>"},
};

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Behind an element that is left out and begins at `at`; NULL when there is none. */
static const char *behind_dropped(const char *at)
{
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++) {
        if (starts(at, dropped[i][0])) {
            const char *end = strstr(at, dropped[i][1]);
            return end != NULL ? end + strlen(dropped[i][1]) : NULL;
        }
    }
    if (starts(at, "<g ")) { /* gnuplot begins many groups that stay empty */
        const char *end = strchr(at, '>');
        return end != NULL && starts(end, ">\n</g>\n") ? end + 7 : NULL;
    }
    return NULL;
}

static void put_replacement(Page *page, const char *text, const char *name)
{
    const char *place = strstr(text, "NAME");
    if (place == NULL) {
        page_put(page, "%s", text);
    } else {
        page_put(page, "%.*s%s%s", (int)(place - text), text, name, place + 4);
    }
}

/* The tag at `at`, with the rules; returns what follows it. */
static const char *put_tag(Page *page, const char *at, const char *name)
{
    while (*at != '\0' && *at != '>') {
        size_t i = 0;
        while (i < sizeof rules / sizeof *rules && !starts(at, rules[i][0])) {
            i++;
        }
        if (i < sizeof rules / sizeof *rules) {
            put_replacement(page, rules[i][1], name);
            at += strlen(rules[i][0]);
        } else {
            page_put_bytes(page, at++, 1);
        }
    }
    return at;
}

static bool adapt(Page *page, const char *svg, const char *name, const char *title)
{
    const char *at = strstr(svg, "<svg"), *box = at != NULL ? strstr(at, "viewBox=\"") : NULL;
    const char *body = at != NULL ? strchr(at, '>') : NULL;
    if (body == NULL || box == NULL || box > body) {
        return false;
    }
    box += strlen("viewBox=\"");
    page_put(page,
             "<svg viewBox=\"%.*s\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
             "aria-label=\"",
             (int)strcspn(box, "\""), box);
    page_put_html(page, title);
    page_put(page, "\">");
    for (at = body + 1; *at != '\0';) {
        const char *behind = *at == '<' ? behind_dropped(at) : NULL;
        if (behind != NULL) {
            at = behind;
        } else if (*at == '<') {
            at = put_tag(page, at, name);
        } else {
            size_t text = 1 + strcspn(at + 1, "<");
            page_put_bytes(page, at, text);
            at += text;
        }
    }
    return true;
}

int chart_svg_adapt(Page *page, const char *svg, const char *name, const char *title)
{
    return adapt(page, svg, name, title) ? 0 : err_set(ERR_FAILED, "gnuplot drew no SVG");
}
