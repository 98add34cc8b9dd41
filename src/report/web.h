#pragma once
/* What pages in a browser are made of: the files of the folder web/, which the build embeds
 * (cmake/Embed.cmake), and dygraphs where the build found it. */
#include <stddef.h>

typedef struct {
    const char *name, *text;
} WebText;

/* Written by the build; ends with a row without a name. */
extern const WebText web_texts[];

/* "view.js", "view.css", "app.js", "serve.html", "dygraph.js", "dygraph.css": its text, which is
 * NUL-terminated, and its bytes (size may be NULL). NULL: not built in. */
const char *web_asset(const char *name, size_t *size);
