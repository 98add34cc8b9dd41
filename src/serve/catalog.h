#pragma once
/* All runs and experiments below some folders, as a list of what a reader wants to know of each.
 * Files are read again only when they have changed, and of a long record only its end. Links are
 * not followed, so that nothing outside the folders is found; the folders that were named may be
 * links themselves. */
#include "base/json.h"
#include "report/page.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#define ENTRY_ID_SIZE 17

/* A file as it was when it was read; size -1: it was not there. */
typedef struct {
    ino_t inode;
    off_t size;
    struct timespec changed;
} FileKey;

typedef struct {
    char id[ENTRY_ID_SIZE];     /* by its path: the same in every session */
    char *path;                 /* without links in it */
    char *name;                 /* as a reader knows it: from the folder that was named on */
    char parent[ENTRY_ID_SIZE]; /* the experiment that it lies in; "": none */
    bool is_experiment, seen;
    FileKey record, lines;

    char *model, *host; /* never NULL once read */
    char *title;        /* Place */
    char *reason;       /* of a run that failed, or why its record cannot be read; "": none */
    cJSON *process;     /* run.json's, while it runs by its record */
    int state;          /* of the record */
    int shown;          /* the same with what `process` said at the last look (watch.h) */
    double loss, val_loss, tok_s, parameters, step, total, begun, wrote, gap;
    int runs, done, bad; /* of an experiment */
    cJSON *labels;       /* of its runs, by the names of their folders; NULL of a run */
    int going;           /* runs that the record of an experiment calls running */
    bool gone;           /* none of them is: its process was killed */
} Entry;

/* entry.c: of one of them. */
bool entry_refresh(Entry *entry); /* reads what has changed; true when anything has */
int entry_state(const Entry *entry, double now); /* with what its process says now */
cJSON *entry_json(const Entry *entry);           /* caller deletes it */
void entry_text(char **field, const char *text); /* replaces it; NULL is "" */
void entry_free(Entry *entry);

typedef struct {
    pthread_mutex_t lock;
    char **roots; /* real paths */
    int root_count;
    Entry **entries; /* ascending ids */
    size_t count, capacity;
    bool full;        /* there are more than are listed */
    uint64_t version; /* another when anything changed */
    double due;       /* clock_seconds of the next look */
} Catalog;

/* ERR_INPUT when one of the folders is none. */
int catalog_open(Catalog *catalog, char *const *folders, int count);
void catalog_close(Catalog *catalog);

/* {"version", "now", "folders", "full", "entries": [...]}, looked up now or a moment ago. Without
 * entries when nothing has changed since the version in `seen` (NULL: none). */
void catalog_put(Catalog *catalog, const char *seen, Page *page);

/* An entry that was found, as it is used without the catalog's lock. */
typedef struct {
    char *path, *name;
    char *title; /* of an experiment, or what its experiment calls a run; "": none */
    bool is_experiment;
} Place;

/* False: there is none of that id, or something else has taken its place. */
bool catalog_find(Catalog *catalog, const char *id, Place *place);

/* A link below `path` that leads out of the folders served; NULL: none. Caller frees. */
char *catalog_link_out(const Catalog *catalog, const char *path);
void place_free(Place *place);
