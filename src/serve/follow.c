#include "serve/follow.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "record/reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PIECE ((size_t)4 << 20) /* of lines per request: some 50 ms */
#define FRESH 0.4               /* seconds for which a look serves all who ask */
#define POINTS 1024             /* of the curve by which the time left is told */
#define RECORD_MOST (8 << 20)   /* bytes of a run.json */

/* --- lines into track --- */

static void take_step(void *context, const WatchLine *line)
{
    Followed *run = context;
    double step = (double)line->step;
    TrackRow row = {.value = {[COLUMN_STEP] = step,
                              [COLUMN_TOKENS] = line->tokens,
                              [COLUMN_SECONDS] = curve_seconds(&run->watch.curve, line->step),
                              [COLUMN_LOSS] = line->loss,
                              [COLUMN_MEAN] = line->loss,
                              [COLUMN_TOK_S] = line->tok_s,
                              [COLUMN_LR] = line->lr,
                              [COLUMN_GRAD_NORM] = line->grad_norm}};
    track_add(&run->train, &row);
    track_cut(&run->validation, step); /* of a run that was resumed: they come again */
}

static void take_evaluation(void *context, int64_t step, double loss)
{
    Followed *run = context;
    TrackRow row;
    for (int i = 0; i < COLUMN_COUNT; i++) {
        row.value[i] = NAN;
    }
    row.value[COLUMN_STEP] = (double)step;
    row.value[COLUMN_TOKENS] = curve_tokens(&run->watch.curve, step);
    row.value[COLUMN_SECONDS] = curve_seconds(&run->watch.curve, step);
    row.value[COLUMN_LOSS] = row.value[COLUMN_MEAN] = loss;
    track_add(&run->validation, &row);
}

static void forget(void *context)
{
    Followed *run = context;
    track_clear(&run->train);
    track_clear(&run->validation);
}

/* --- the table --- */

static Followed *open_run(const char *path)
{
    Followed *run = mem_zalloc(1, sizeof *run);
    pthread_mutex_init(&run->lock, NULL);
    run->path = mem_strdup(path);
    watch_open(&run->watch, path);
    run->watch.curve.most = POINTS;
    run->watch.piece = PIECE;
    run->watch.listener = (WatchListener){take_step, take_evaluation, forget, run};
    return run;
}

static void close_run(Followed *run)
{
    watch_close(&run->watch);
    track_free(&run->train);
    track_free(&run->validation);
    pthread_mutex_destroy(&run->lock);
    free(run->head);
    free(run->path);
    free(run);
}

void follow_open(FollowTable *table)
{
    *table = (FollowTable){0};
    pthread_mutex_init(&table->lock, NULL);
}

void follow_close(FollowTable *table)
{
    for (int i = 0; i < table->count; i++) {
        close_run(table->runs[i]);
    }
    pthread_mutex_destroy(&table->lock);
    table->count = 0;
}

/* Room for one more, if need be that of the run that was asked for longest ago. */
static bool make_room(FollowTable *table)
{
    const int room = (int)(sizeof table->runs / sizeof table->runs[0]);
    int oldest = -1;
    for (int i = 0; i < table->count && table->count >= FOLLOW_MOST; i++) {
        if (table->runs[i]->users == 0 &&
            (oldest < 0 || table->runs[i]->asked < table->runs[oldest]->asked)) {
            oldest = i;
        }
    }
    if (oldest >= 0) {
        close_run(table->runs[oldest]);
        table->runs[oldest] = table->runs[--table->count];
    }
    return table->count < room;
}

/* Whether the folder's file is one that may be read: a link may lead anywhere. */
static bool is_plain(const char *dir, const char *name, off_t most)
{
    char *path = io_join(dir, name);
    struct stat file;
    bool there = lstat(path, &file) == 0;
    free(path);
    return !there || (S_ISREG(file.st_mode) && (most == 0 || file.st_size <= most));
}

Followed *follow_take(FollowTable *table, const char *path)
{
    pthread_mutex_lock(&table->lock);
    Followed *run = NULL;
    for (int i = 0; i < table->count && run == NULL; i++) {
        run = strcmp(table->runs[i]->path, path) == 0 ? table->runs[i] : NULL;
    }
    if (run == NULL && make_room(table)) {
        run = table->runs[table->count++] = open_run(path);
    }
    if (run != NULL) {
        run->users++;
        run->asked = clock_seconds();
    }
    pthread_mutex_unlock(&table->lock);
    if (run == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&run->lock);
    double now = clock_seconds();
    if (run->watch.behind || run->looked == 0 || now - run->looked > FRESH) {
        if (is_plain(path, RECORD_RUN, RECORD_MOST) && is_plain(path, RECORD_LINES, 0)) {
            watch_poll(&run->watch);
        } else {
            run->watch.state = WATCH_UNREADABLE;
        }
        run->looked = now;
        free(run->head);
        run->head = NULL;
    }
    return run;
}

void follow_give(FollowTable *table, Followed *run)
{
    pthread_mutex_unlock(&run->lock);
    pthread_mutex_lock(&table->lock);
    run->users--;
    pthread_mutex_unlock(&table->lock);
}

double follow_flop_per_step(const Followed *run)
{
    return json_number(run->watch.run, "model.flops_update");
}
