#pragma once
/* What a request asks for, and whether it may be answered: everything that is decided by bytes
 * that anybody on the network can send. Knows no connection. */
#include <stdbool.h>
#include <stddef.h>

#define TOKEN_SIZE 33 /* of 128 random bits in hexadecimal, with its NUL */

/* Who may ask. */
typedef struct {
    char token[TOKEN_SIZE]; /* "": none is needed, for only this machine can ask */
    char cookie[32];        /* its name */
    const char *listen;     /* the address that was named; NULL: loopback alone */
    char host[256];         /* of this machine */
} Gate;

/* A header or parameter that is not there is NULL. */
typedef struct {
    const char *method, *path;                 /* decoded */
    const char *host, *origin, *site, *cookie; /* Host, Origin, Sec-Fetch-Site, Cookie */
    const char *token;                         /* parameter */
    bool repeated;                             /* there are two of Host, or of Origin */
} Request;

/* Where a request leads. */
typedef enum {
    ROUTE_NONE,
    ROUTE_ASSET, /* of web.h */
    ROUTE_LIST,
    ROUTE_RUN,
    ROUTE_CURVES,
    ROUTE_OPTIONS,
    ROUTE_EXPERIMENT,
    ROUTE_SAMPLES,
} Route;

/* The status with which the request is refused, and in *why the reason; 0: it may pass. *fresh:
 * it brought the token as a parameter, which is then set as a cookie. */
int gate_check(const Gate *gate, const Request *request, const char **why, bool *fresh);

/* *rest: behind the route's name, an id or the name of an asset; lives in the path or is static. */
Route route_find(const char *path, const char **rest);

/* The next id of a list "ID,ID,..."; moves *list behind it. What is no id is passed over. False at
 * the end. */
bool next_id(const char **list, char *id, size_t size);
