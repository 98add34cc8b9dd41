#pragma once
/* A headless Chromium, driven through its DevTools protocol over a pipe. What goes wrong on a page
 * (exceptions, errors on the console) and what it requests is collected. */
#include <cjson/cJSON.h>
#include <stdbool.h>

typedef struct Browser Browser;

/* NULL: there is none on PATH that starts; *why says so. folder: for its profile. */
Browser *browser_start(const char *folder, const char **why);
void browser_stop(Browser *browser);

void browser_open(Browser *browser, const char *address); /* as if typed; waits until loaded */
void browser_reload(Browser *browser);                    /* does not wait */
void browser_resize(Browser *browser, int width, int height);
void browser_prefer(Browser *browser, const char *scheme); /* "light" or "dark" */

/* The value of a JavaScript expression, a promise's once it is there; fails the test when it
 * throws. Caller deletes it. */
cJSON *browser_value(Browser *browser, const char *expression);
void browser_do(Browser *browser, const char *expression); /* whatever its value */
bool browser_is(Browser *browser, const char *expression); /* whether it is true */

/* Fails the test when the expression has not become true within a minute. */
void browser_await(Browser *browser, const char *expression);

/* In CSS pixels of the window; a drag goes from one point to another. */
void browser_click(Browser *browser, double x, double y);
void browser_drag(Browser *browser, double x, double y, double to_x, double to_y);
void browser_move(Browser *browser, double x, double y);
void browser_key(Browser *browser, const char *key); /* "Tab", "o", "+" */

void browser_picture(Browser *browser, const char *path); /* PNG of the window */

/* What went wrong since the last call, a line each; "" when nothing did. Caller frees. */
char *browser_complaints(Browser *browser);

/* The first address requested since the start that does not begin with `prefix`, data: and
 * about: aside; NULL: none. Lives in the browser. */
const char *browser_foreign_request(const Browser *browser, const char *prefix);
int browser_requests(const Browser *browser); /* how many there were in all */
