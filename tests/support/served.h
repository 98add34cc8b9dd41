#pragma once
/* A server over a folder of runs, and a client that sends it whatever it likes. */
#include "base/json.h"
#include "serve/server.h"

#include <stdbool.h>

extern Server *server; /* NULL: this build has none, and what asks skips its test */
extern char *runs;     /* its folder: "first", a run, and "link" to one outside */

int served_start(void **state);
int served_end(void **state);
int port_of(const Server *of);

/* Sends the bytes as they are; all that comes back until the server closes. What is not whole is
 * followed by the end of what is sent. Caller frees. */
char *exchange(const Server *with, const char *request, bool whole);

/* One request with more header lines, each ending in \r\n. Caller frees the reply. */
char *ask(const Server *with, const char *method, const char *path, const char *headers);
int status_of(const char *reply);
void assert_status(const char *method, const char *path, const char *headers, int status);

cJSON *get(const char *path);                     /* fails the test unless it is JSON */
cJSON *get_run(const char *id, const char *rest); /* rest: "?from=..." */
char *find_id(const char *name); /* of the only run of that name; NULL: not listed now */
char *id_of(const char *name);   /* of a run once it is listed; caller frees */
