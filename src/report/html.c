/* report.html: a document with all that shows it, in one file. What the page may do is written into
 * it: run the scripts that are there, and load nothing. */
#include "report/document.h"

#include "base/io.h"
#include "base/mem.h"
#include "report/web.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

static void put_asset(Page *html, const char *name, const char *open, const char *close)
{
    size_t size;
    const char *text = web_asset(name, &size);
    if (text != NULL) {
        page_put(html, "%s", open);
        page_put_bytes(html, text, size);
        page_put(html, "%s", close);
    }
}

int document_save_html(const Page *json, const char *title, const char *folder)
{
    static const char *const styles[] = {"dygraph.css", "view.css"};
    static const char *const scripts[] = {"dygraph.js", "view.js"};
    Page html = {0};
    /* Scripts of this page alone have the number; the same document gives the same page. */
    char nonce[17], open[64];
    snprintf(nonce, sizeof nonce, "%016" PRIx64, (uint64_t)XXH3_64bits(json->text, json->size));
    snprintf(open, sizeof open, "<script nonce=\"%s\">\n", nonce);
    page_put(&html,
             "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
             "script-src 'nonce-%s'; style-src 'unsafe-inline'; img-src data:; "
             "form-action 'none'; base-uri 'none'\">\n"
             "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>",
             nonce);
    page_put_html(&html, title);
    page_put(&html, "</title>\n");
    for (int i = 0; i < 2; i++) {
        put_asset(&html, styles[i], "<style>\n", "</style>\n");
    }
    page_put(&html, "</head><body>\n<main id=\"page\"></main>\n<noscript><p>This page needs "
                    "JavaScript; report.md beside it has the same as text.</p></noscript>\n"
                    "<script type=\"application/json\" id=\"document\">");
    page_put_bytes(&html, json->text, json->size);
    page_put(&html, "</script>\n");
    for (int i = 0; i < 2; i++) {
        put_asset(&html, scripts[i], open, "</script>\n");
    }
    if (web_asset("view.js", NULL) != NULL) {
        page_put(&html,
                 "%spacerView.show(document.getElementById(\"page\"),"
                 "JSON.parse(document.getElementById(\"document\").textContent))\n</script>\n",
                 open);
    } else {
        page_put(&html, "<p>This pacer was built without the parts of its pages; report.md has "
                        "the same as text.</p>\n");
    }
    page_put(&html, "</body></html>\n");
    char *path = io_join(folder, "report.html");
    int code = io_write_atomic(path, html.text, html.size);
    free(path);
    page_free(&html);
    return code;
}
