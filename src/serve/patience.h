#pragma once
/* How long a connection may keep its place. The library under the server ends one that is silent;
 * one that sends or takes a byte now and then it would keep for ever, and there are only so many
 * places. Here a connection has a limit for each request as a whole, which is short when places run
 * out. */
#include <pthread.h>
#include <stdbool.h>

#define PATIENCE_PLACES 128
#define PATIENCE_CROWD 96 /* connections from which on places run out */

typedef struct {
    bool used, answering; /* a request is being answered; otherwise it is waited for */
    int socket;
    double since; /* clock_seconds of the last change of the two */
} PatiencePlace;

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t end;
    pthread_t thread; /* looks at all of them once in a while */
    bool ending;
    int count;
    PatiencePlace places[PATIENCE_PLACES];
} Patience;

/* False: no thread can be started. */
bool patience_start(Patience *patience);
void patience_stop(Patience *patience);

/* A connection has begun; NULL when there is no place, and then nobody watches it. */
PatiencePlace *patience_begin(Patience *patience, int socket);
void patience_turn(Patience *patience, PatiencePlace *place, bool answering); /* NULL: a no-op */
void patience_end(Patience *patience, PatiencePlace *place); /* before its socket is closed */
