#pragma once
/* Runs that somebody looks at: their records as far as they have been read, shared by all who ask.
 * Each request reads a bounded piece of what is new, so that a long record is never held in memory
 * and keeps nobody else waiting. */
#include "report/watch.h"
#include "serve/track.h"

#include <pthread.h>

#define FOLLOW_NOT_PLAIN "its run.json or metrics.jsonl is a link, no file, or too large to be one"
#define FOLLOW_MOST 64 /* runs that are kept; then the one asked for longest ago goes */

typedef struct {
    pthread_mutex_t lock; /* of all below */
    char *path;
    WatchRun watch;
    Track train, validation;
    double looked; /* clock_seconds; 0: never */
    char *head;    /* what is said of the run but for its lines, until the next look; NULL */
    /* of the table, under its lock */
    int users;
    double asked;
} Followed;

typedef struct {
    pthread_mutex_t lock;
    Followed *runs[FOLLOW_MOST + 64];
    int count;
} FollowTable;

void follow_open(FollowTable *table);
void follow_close(FollowTable *table);

/* The run in that folder, locked, with what is new read up to a piece (watch.behind: there is
 * more). NULL: more are being asked for at this moment than are kept. */
Followed *follow_take(FollowTable *table, const char *path);
void follow_give(FollowTable *table, Followed *run);

/* FLOP of the run after a step; NAN: the record does not say. */
double follow_flop_per_step(const Followed *run);
