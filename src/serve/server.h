#pragma once
/* The pages of `pacer serve` over HTTP: read only, for this machine alone unless an address is
 * named, and then for those who have the token. */
#include <stdbool.h>

typedef struct {
    char *const *folders;
    int count;
    int port;           /* 0: any that is free */
    const char *listen; /* address or name; "": loopback alone */
} ServeOptions;

typedef struct Server Server;

/* Whether this build has a server; else server_start says what it lacks. */
bool server_is_built(void);

/* Starts answering. ERR_INPUT: a folder is none, or the address is taken or not this machine's. */
int server_start(const ServeOptions *options, Server **out);

/* "http://127.0.0.1:8077/", with the token where there is one; lives as long as the server. */
const char *server_address(const Server *server);

void server_stop(Server *server); /* finishes what is being answered; frees */
