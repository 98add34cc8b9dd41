/* Requests to the server: headers, paths, lists of ids and cursors as anybody may send them. */
#include "fuzz/fuzz.h"

#include "base/assert.h"
#include "serve/catalog.h"
#include "serve/request.h"
#include "serve/track.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TOKEN "0123456789abcdef0123456789abcdef"

/* The next line of the text, NULL when it is "-" or there is none. */
static const char *next_line(char **text)
{
    char *line = *text;
    char *end = strchr(line, '\n');
    *text = end != NULL ? end + 1 : line + strlen(line);
    if (end != NULL) {
        *end = '\0';
    }
    return strcmp(line, "-") == 0 || line[0] == '\0' ? NULL : line;
}

/* Lines: method, path, Host, Origin, Sec-Fetch-Site, Cookie, token, ids, cursor. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *at = text;
    const char *method = next_line(&at), *path = next_line(&at), *why = NULL, *rest = NULL;
    Request request = {.method = method != NULL ? method : "", .path = path != NULL ? path : ""};
    request.host = next_line(&at);
    request.origin = next_line(&at);
    request.site = next_line(&at);
    request.cookie = next_line(&at);
    request.token = next_line(&at);
    const char *ids = next_line(&at), *cursor = next_line(&at);

    Gate open = {.host = "box"},
         closed = {.token = TOKEN, .cookie = "pacer-1", .listen = "0.0.0.0"};
    bool fresh;
    int refused = gate_check(&open, &request, &why, &fresh);
    PACER_ASSERT(!fresh && (refused == 0 || why != NULL), "refused with %d without a reason",
                 refused);
    PACER_ASSERT(refused == 0 || refused == 403 || refused == 405, "status %d", refused);
    if (refused == 0) {
        PACER_ASSERT(strncasecmp(request.host, "localhost", 9) == 0 ||
                         strncmp(request.host, "127.0.0.1", 9) == 0 ||
                         strncmp(request.host, "[::1]", 5) == 0 ||
                         strncmp(request.host, "::1", 3) == 0,
                     "host %s", request.host);
    }
    bool shown = (request.token != NULL && strcmp(request.token, TOKEN) == 0) ||
                 (request.cookie != NULL && strstr(request.cookie, "pacer-1=" TOKEN) != NULL);
    refused = gate_check(&closed, &request, &why, &fresh);
    PACER_ASSERT(refused != 0 || shown, "passed without the token");

    Route route = route_find(request.path, &rest);
    PACER_ASSERT(route == ROUTE_ASSET || rest[0] == '\0' || strlen(rest) == ENTRY_ID_SIZE - 1, "%s",
                 rest);
    PACER_ASSERT(strchr(rest, '/') == NULL, "a path within %s", rest);
    char id[ENTRY_ID_SIZE];
    for (size_t before = SIZE_MAX; next_id(&ids, id, sizeof id);) {
        PACER_ASSERT(strspn(id, "0123456789abcdef") == ENTRY_ID_SIZE - 1, "no id: %s", id);
        PACER_ASSERT(strlen(ids) < before, "the list does not end");
        before = strlen(ids);
    }

    Track track = {0};
    for (int i = 0; i < 5; i++) {
        TrackRow row = {.value = {i}};
        track_add(&track, &row);
    }
    PACER_ASSERT(track_from(&track, cursor) <= track.count, "cursor %s", cursor);
    track_free(&track);
    free(text);
    return 0;
}
