#pragma once
/* What is sent for each route: JSON of runs, curves, options, samples and experiments. */
#include "serve/catalog.h"
#include "serve/follow.h"
#include "serve/request.h"

#define DOCUMENTS 8      /* of experiments that are kept */
#define CURVES_MOST 200  /* runs of an overlay */
#define SAMPLES_MOST 500 /* of a run, the last ones */

typedef struct {
    char *path;
    FileKey key;
    double made;
    Page json;
} Document;

typedef struct {
    Catalog catalog;
    FollowTable runs;
    pthread_mutex_t lock; /* of the documents */
    Document documents[DOCUMENTS];
} Answers;

/* Parameters of a request; NULL: not given. */
typedef struct {
    const char *from, *validation; /* cursors */
    const char *seen;              /* version of the list */
    const char *runs;              /* ids */
} Parameters;

int answers_open(Answers *answers, char *const *folders, int count);
void answers_close(Answers *answers);

/* Appends the answer to the page; the status of HTTP. What is wrong is {"error": "..."}. */
int answers_make(Answers *answers, Route route, const char *id, const Parameters *parameters,
                 Page *page);
