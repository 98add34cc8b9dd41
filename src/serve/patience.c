#include "serve/patience.h"

#include "base/clock.h"

#include <stddef.h>
#include <sys/socket.h>
#include <time.h>

/* Seconds. A browser that keeps an idle connection opens another when it is gone. */
#define ASKING 20.0
#define ASKING_IN_A_CROWD 2.0
#define ANSWERING 120.0 /* a slow network takes its time for a large report */
#define ANSWERING_IN_A_CROWD 20.0

static void look(Patience *patience)
{
    double now = clock_seconds();
    bool crowd = patience->count >= PATIENCE_CROWD;
    for (int i = 0; i < PATIENCE_PLACES; i++) {
        PatiencePlace *place = &patience->places[i];
        double most = place->answering ? (crowd ? ANSWERING_IN_A_CROWD : ANSWERING)
                      : crowd          ? ASKING_IN_A_CROWD
                                       : ASKING;
        if (place->used && now - place->since > most) {
            shutdown(place->socket, SHUT_RDWR); /* its thread finds it ended, and closes it */
        }
    }
}

static void *watch(void *context)
{
    Patience *patience = context;
    pthread_mutex_lock(&patience->lock);
    while (!patience->ending) {
        struct timespec next;
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_sec++;
        pthread_cond_timedwait(&patience->end, &patience->lock, &next);
        look(patience);
    }
    pthread_mutex_unlock(&patience->lock);
    return NULL;
}

bool patience_start(Patience *patience)
{
    *patience = (Patience){0};
    pthread_condattr_t steady; /* a clock that is set back must not stop the thread */
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_mutex_init(&patience->lock, NULL);
    pthread_cond_init(&patience->end, &steady);
    pthread_condattr_destroy(&steady);
    if (pthread_create(&patience->thread, NULL, watch, patience) == 0) {
        return true;
    }
    pthread_cond_destroy(&patience->end);
    pthread_mutex_destroy(&patience->lock);
    return false;
}

void patience_stop(Patience *patience)
{
    pthread_mutex_lock(&patience->lock);
    patience->ending = true;
    pthread_cond_signal(&patience->end);
    pthread_mutex_unlock(&patience->lock);
    pthread_join(patience->thread, NULL);
    pthread_cond_destroy(&patience->end);
    pthread_mutex_destroy(&patience->lock);
}

PatiencePlace *patience_begin(Patience *patience, int socket)
{
    PatiencePlace *place = NULL;
    pthread_mutex_lock(&patience->lock);
    for (int i = 0; i < PATIENCE_PLACES && place == NULL; i++) {
        place = patience->places[i].used ? NULL : &patience->places[i];
    }
    if (place != NULL) {
        *place = (PatiencePlace){.used = true, .socket = socket, .since = clock_seconds()};
        patience->count++;
    }
    pthread_mutex_unlock(&patience->lock);
    return place;
}

void patience_turn(Patience *patience, PatiencePlace *place, bool answering)
{
    if (place == NULL) {
        return;
    }
    pthread_mutex_lock(&patience->lock);
    place->answering = answering;
    place->since = clock_seconds();
    pthread_mutex_unlock(&patience->lock);
}

void patience_end(Patience *patience, PatiencePlace *place)
{
    if (place == NULL) {
        return;
    }
    pthread_mutex_lock(&patience->lock);
    *place = (PatiencePlace){0};
    patience->count--;
    pthread_mutex_unlock(&patience->lock);
}
