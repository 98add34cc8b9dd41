#include "serve/request.h"

#include "serve/catalog.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* In a time that does not tell how much of them is equal. */
static bool equal_in_constant_time(const char *a, const char *b)
{
    size_t length = strlen(a), other = strlen(b);
    unsigned char different = length != other;
    for (size_t i = 0; i < length; i++) {
        different |= (unsigned char)(a[i] ^ b[other > 0 ? i % other : 0]);
    }
    return different == 0;
}

/* --- who asks --- */

/* The name in a Host header, without its port and brackets; false: it is none. */
static bool host_name(const char *header, char *name, size_t size)
{
    size_t length;
    const char *rest;
    if (header[0] == '[') {
        const char *close = strchr(header, ']');
        length = close != NULL ? (size_t)(close - header) - 1 : 0;
        rest = close != NULL ? close + 1 : "?";
        header++;
    } else {
        length = strcspn(header, ":");
        rest = header + length;
    }
    bool port =
        rest[0] == ':' && strlen(rest) <= 6 && strspn(rest + 1, "0123456789") == strlen(rest) - 1;
    if (length == 0 || length >= size || (rest[0] != '\0' && !port)) {
        return false;
    }
    memcpy(name, header, length);
    name[length] = '\0';
    return true;
}

/* A page of another site can have its own name lead to this address (DNS rebinding); the name in
 * the Host header is then still its own. */
static bool is_own_name(const Gate *gate, const char *name)
{
    unsigned char address[16];
    bool numeric =
        inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
    if (strcasecmp(name, "localhost") == 0 || strcmp(name, "127.0.0.1") == 0 ||
        strcmp(name, "::1") == 0) {
        return true;
    }
    size_t length = strlen(gate->host);
    return gate->listen != NULL && (numeric || strcasecmp(name, gate->listen) == 0 ||
                                    (length > 0 && strncasecmp(name, gate->host, length) == 0 &&
                                     (name[length] == '\0' || name[length] == '.')));
}

/* The cookie's value as it stands in the header. */
static bool cookie_is_right(const Gate *gate, const char *header)
{
    size_t name = strlen(gate->cookie);
    for (const char *at = header; at != NULL && *at != '\0';) {
        at += strspn(at, "; ");
        size_t length = strcspn(at, ";");
        if (length == name + TOKEN_SIZE && strncmp(at, gate->cookie, name) == 0 &&
            at[name] == '=') {
            char value[TOKEN_SIZE];
            memcpy(value, at + name + 1, TOKEN_SIZE - 1);
            value[TOKEN_SIZE - 1] = '\0';
            if (equal_in_constant_time(gate->token, value)) {
                return true;
            }
        }
        at += length;
    }
    return false;
}

int gate_check(const Gate *gate, const Request *request, const char **why, bool *fresh)
{
    char name[256];
    *fresh = false;
    if (request->repeated) { /* who reads which of them is anybody's guess */
        *why = "a request has one Host and one Origin at most";
        return 400;
    }
    if (request->host == NULL || !host_name(request->host, name, sizeof name) ||
        !is_own_name(gate, name)) {
        *why = "the Host header names another machine";
        return 403;
    }
    if (request->origin != NULL && (strncmp(request->origin, "http://", 7) != 0 ||
                                    strcasecmp(request->origin + 7, request->host) != 0)) {
        *why = "a page of another address may not ask";
        return 403;
    }
    if (request->site != NULL && strncmp(request->path, "/api/", 5) == 0 &&
        strcmp(request->site, "same-origin") != 0 && strcmp(request->site, "none") != 0) {
        *why = "a page of another address may not ask";
        return 403;
    }
    if (strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0) {
        *why = "only GET and HEAD: these pages change nothing";
        return 405;
    }
    if (gate->token[0] == '\0') {
        return 0;
    }
    *fresh = request->token != NULL && equal_in_constant_time(gate->token, request->token);
    if (!*fresh && !cookie_is_right(gate, request->cookie)) {
        *why = "the token is missing or wrong: open the whole address that pacer serve printed";
        return 401;
    }
    return 0;
}

/* --- where it leads --- */

Route route_find(const char *path, const char **rest)
{
    static const struct {
        const char *prefix;
        Route route;
        bool id; /* follows */
    } routes[] = {
        {"/api/list", ROUTE_LIST, false},       {"/api/run/", ROUTE_RUN, true},
        {"/api/curves", ROUTE_CURVES, false},   {"/api/options", ROUTE_OPTIONS, false},
        {"/api/samples/", ROUTE_SAMPLES, true}, {"/api/experiment/", ROUTE_EXPERIMENT, true},
    };
    *rest = "";
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        size_t length = strlen(routes[i].prefix);
        if (strncmp(path, routes[i].prefix, length) == 0) {
            const char *id = path + length;
            bool good = routes[i].id ? strspn(id, "0123456789abcdef") == ENTRY_ID_SIZE - 1 &&
                                           id[ENTRY_ID_SIZE - 1] == '\0'
                                     : id[0] == '\0';
            *rest = good ? id : "";
            return good ? routes[i].route : ROUTE_NONE;
        }
    }
    if (path[0] != '/' || strchr(path + 1, '/') != NULL) {
        return ROUTE_NONE;
    }
    *rest = path[1] != '\0' ? path + 1 : "serve.html";
    return ROUTE_ASSET;
}

bool next_id(const char **list, char *id, size_t size)
{
    while (*list != NULL && **list != '\0') {
        size_t length = strcspn(*list, ",");
        bool good = length == ENTRY_ID_SIZE - 1 && length < size &&
                    strspn(*list, "0123456789abcdef") >= length;
        if (good) {
            memcpy(id, *list, length);
            id[length] = '\0';
        }
        *list += length + ((*list)[length] == ',');
        if (good) {
            return true;
        }
    }
    return false;
}
