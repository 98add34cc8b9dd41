/* Following the files. metrics.jsonl is read from where the last whole line ended; a file that
 * was replaced, cut or written anew is noticed by its inode, its size, or the bytes before that
 * place, and is then read from its beginning. run.json is read again when it was replaced. */
#include "report/watch.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "config/config.h"
#include "record/process.h"
#include "record/reader.h"
#include "report/results.h"
#include "train/checkpoint.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 18)
#define MAX_LINE (CHUNK / 2) /* of a record's line, which has some 200 bytes */
#define MAX_RANKS 1024       /* whose files are read */
#define SILENCE_LEAST 60.0   /* seconds */
#define SILENCE_GAPS 10.0    /* usual times from line to line */
#define OVERHEAD_AFTER \
    30.0 /* seconds of steps, from which on the share of the rest tells something */
#define OVERHEAD_MOST 3.0

/* --- lines of metrics.jsonl ---
 *
 * A run that was resumed writes steps again: the curve is cut back to them first, as a resume cuts
 * the file. */

static void cut_train(WatchRun *run, int64_t step)
{
    curve_cut(&run->curve.train, step);
    curve_cut_marks(&run->curve, step);
}

static void cut_validation(WatchRun *run, int64_t step)
{
    Curve *curve = &run->curve;
    size_t before = curve->validation.count;
    curve_cut(&curve->validation, step);
    if (curve->validation.count == before) {
        return;
    }
    run->val_loss = run->best_val_loss = NAN;
    run->val_step = run->best_val_step = 0;
    for (size_t i = 0; i < curve->validation.count; i++) {
        run->val_loss = curve->validation.points[i].loss;
        run->val_step = curve->validation.points[i].step;
        if (!(run->best_val_loss <= run->val_loss)) {
            run->best_val_loss = run->val_loss;
            run->best_val_step = run->val_step;
        }
    }
}

static void add_step(WatchRun *run, const cJSON *object, int64_t step)
{
    WatchLine line = {.step = step,
                      .tokens = json_number(object, "tokens"),
                      .loss = json_number(object, "loss"),
                      .counted = json_get(object, "loss") != NULL,
                      .lr = json_number(object, "lr"),
                      .grad_norm = json_number(object, "grad_norm"),
                      .tok_s = json_number(object, "tok_s"),
                      .ms = json_number(object, "ms")};
    Curve *curve = &run->curve;
    if (step <= run->last.step) {
        cut_train(run, step);
        cut_validation(run, step);
    }
    int64_t before = curve->mark_count > 0 ? curve->marks[curve->mark_count - 1].step : 0;
    size_t at = run->recent++ % WATCH_RECENT;
    run->recent_tok_s[at] = line.tok_s;
    run->recent_ms[at] = line.ms;
    run->recent_gap_s[at] = 1e-3 * line.ms * (double)(step - before);
    curve_add_mark(curve, step, line.tokens, line.ms);
    if (isfinite(line.loss)) {
        curve_add(curve, &curve->train, step, line.loss);
    } else {
        run->not_finite += json_get(object, "loss") != NULL;
    }
    run->last = line;
    if (run->listener.step != NULL) {
        run->listener.step(run->listener.context, &line);
    }
}

static void add_evaluation(WatchRun *run, double loss, int64_t step)
{
    cut_train(run, step + 1);
    cut_validation(run, step);
    run->val_loss = loss;
    run->val_step = step;
    if (run->listener.evaluation != NULL) {
        run->listener.evaluation(run->listener.context, step, loss);
    }
    if (!isfinite(loss)) {
        return;
    }
    curve_add(&run->curve, &run->curve.validation, step, loss);
    if (!(run->best_val_loss <= loss)) {
        run->best_val_loss = loss;
        run->best_val_step = step;
    }
}

bool watch_add_line(WatchRun *run, const char *line, size_t size)
{
    cJSON *object = cJSON_ParseWithLength(line, size);
    double step = json_number(object, "step");
    bool good = cJSON_IsObject(object) && step >= 0 && step <= JSON_WHOLE_MAX;
    if (good && json_get(object, "val_loss") != NULL) {
        add_evaluation(run, json_number(object, "val_loss"), (int64_t)step);
    } else if (good) {
        add_step(run, object, (int64_t)step);
    }
    cJSON_Delete(object);
    return good;
}

/* --- what follows --- */

double watch_median(const WatchRun *run, const double recent[WATCH_RECENT])
{
    double known[WATCH_RECENT];
    size_t count = 0, held = run->recent < WATCH_RECENT ? run->recent : WATCH_RECENT;
    for (size_t i = 0; i < held; i++) {
        if (isfinite(recent[i])) {
            known[count++] = recent[i];
        }
    }
    return clock_quantile(known, count, 0.5);
}

/* Mean of a step over the last WATCH_PACE lines. */
static double pace_ms(const WatchRun *run)
{
    double sum = 0;
    size_t held = run->recent < WATCH_RECENT ? run->recent : WATCH_RECENT, count = 0;
    for (size_t i = 1; i <= held && i <= WATCH_PACE; i++) {
        double ms = run->recent_ms[(run->recent - i) % WATCH_RECENT];
        sum += isfinite(ms) ? ms : 0;
        count += isfinite(ms);
    }
    return count > 0 ? sum / (double)count : NAN;
}

/* --- opening and closing --- */

const char *watch_state_name(int state)
{
    return state == WATCH_SILENT       ? "silent"
           : state == WATCH_DEAD       ? "dead"
           : state == WATCH_UNREADABLE ? "unreadable"
                                       : run_state_words((RunState)state);
}

void watch_open(WatchRun *run, const char *dir)
{
    *run = (WatchRun){.dir = mem_strdup(dir), .file = -1, .saved_step = -1};
    run->curve.most = WATCH_POINTS;
    run->begun = run->wrote = run->grown = NAN;
    run->val_loss = run->best_val_loss = NAN;
}

static void free_ranks(WatchRun *run)
{
    for (int i = 0; i < run->rank_count; i++) {
        cJSON_Delete(run->ranks[i]);
    }
    free(run->ranks);
    run->ranks = NULL;
    run->rank_count = 0;
}

/* As if no line had been read. */
static void forget_lines(WatchRun *run)
{
    if (run->file >= 0) {
        close(run->file);
    }
    size_t most = run->curve.most;
    curve_free(&run->curve);
    run->curve.most = most;
    if (run->listener.forget != NULL) {
        run->listener.forget(run->listener.context);
    }
    run->behind = false;
    run->file = -1;
    run->offset = 0;
    run->skipping = false;
    run->tail_size = 0;
    run->last = (WatchLine){0};
    run->val_loss = run->best_val_loss = NAN;
    run->val_step = run->best_val_step = 0;
    run->recent = 0;
    run->odd_lines = run->not_finite = 0;
}

void watch_close(WatchRun *run)
{
    forget_lines(run);
    free_ranks(run);
    cJSON_Delete(run->run);
    free(run->problem);
    free(run->dir);
    *run = (WatchRun){.file = -1};
}

/* --- metrics.jsonl --- */

static bool is_same_file(WatchRun *run, const struct stat *now)
{
    struct stat held;
    char tail[sizeof run->tail];
    return run->file >= 0 && fstat(run->file, &held) == 0 && held.st_ino == now->st_ino &&
           held.st_dev == now->st_dev && held.st_size >= run->offset &&
           pread(run->file, tail, run->tail_size, run->offset - (off_t)run->tail_size) ==
               (ssize_t)run->tail_size &&
           memcmp(tail, run->tail, run->tail_size) == 0;
}

/* Lines of a piece of the file; returns how many bytes of it are done with. */
static size_t take_lines(WatchRun *run, const char *text, size_t size)
{
    size_t at = 0;
    for (const char *newline; (newline = memchr(text + at, '\n', size - at)) != NULL;) {
        size_t length = (size_t)(newline - text) - at;
        if (run->skipping || !watch_add_line(run, text + at, length)) {
            run->odd_lines++;
        }
        run->skipping = false;
        at += length + 1;
    }
    if (at == 0 && size > MAX_LINE) {
        run->skipping = true;
        at = size;
    }
    return at;
}

static void read_lines(WatchRun *run)
{
    char *text = mem_alloc(CHUNK);
    off_t begin = run->offset;
    for (run->behind = false; !run->behind;) {
        ssize_t got = pread(run->file, text, CHUNK, run->offset);
        size_t done = got > 0 ? take_lines(run, text, (size_t)got) : 0;
        if (done == 0) {
            break;
        }
        run->offset += (off_t)done;
        run->tail_size = done < sizeof run->tail ? done : sizeof run->tail;
        memcpy(run->tail, text + done - run->tail_size, run->tail_size);
        run->grown = clock_seconds();
        run->behind = run->piece > 0 && (size_t)(run->offset - begin) >= run->piece;
    }
    free(text);
}

static void poll_lines(WatchRun *run)
{
    char *path = io_join(run->dir, RECORD_LINES);
    struct stat now;
    bool there = stat(path, &now) == 0 && S_ISREG(now.st_mode);
    bool same = there && is_same_file(run, &now);
    if (!same && run->file >= 0) {
        forget_lines(run);
    }
    if (there && !same) {
        run->file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    }
    if (run->file >= 0) {
        bool first = (!same || run->behind) && isnan(run->grown);
        read_lines(run);
        run->grown = first ? NAN : run->grown; /* who knows when that was */
        run->wrote = clock_of(now.st_mtim);
    }
    free(path);
}

/* --- run.json and the other files --- */

bool watch_reload(WatchedFile *file, const char *dir, const char *name, cJSON **tree)
{
    char *path = io_join(dir, name);
    struct stat now = {0};
    WatchedFile before = *file;
    file->there = stat(path, &now) == 0;
    file->inode = now.st_ino;
    file->changed = now.st_mtim;
    bool same = file->there && *tree != NULL && file->inode == before.inode &&
                file->changed.tv_sec == before.changed.tv_sec &&
                file->changed.tv_nsec == before.changed.tv_nsec;
    if (!same) {
        cJSON_Delete(*tree);
        *tree = NULL;
    }
    if (file->there && !same) {
        json_load(path, tree);
    }
    free(path);
    return !same;
}

/* Of records that do not say: steps as asked, or tokens over those of an update. */
static int64_t steps_of_config(const cJSON *json)
{
    double steps = json_number(json, "config.steps");
    double tokens = json_number(json, "config.tokens"), seq = json_number(json, "config.seq");
    double ranks = json_number(json, "config.ranks");
    double update = json_number(json, "config.batch") * json_number(json, "config.accum") *
                    (seq > 0 ? seq : json_number(json, "model.context")) * (ranks > 0 ? ranks : 1);
    steps = steps > 0 ? steps : ceil(tokens / update);
    return steps > 0 && steps < 1e15 ? (int64_t)steps : 0;
}

static void load_ranks(WatchRun *run)
{
    int count = (int)fmin(fmax(json_number(run->run, "config.ranks"), 1), MAX_RANKS);
    run->ranks = mem_zalloc((size_t)count, sizeof *run->ranks);
    for (int rank = 0; rank < count; rank++) {
        char *path = mem_format("%s/ranks/%d.json", run->dir, rank);
        json_load_optional(path, &run->ranks[run->rank_count]);
        run->rank_count += run->ranks[run->rank_count] != NULL;
        free(path);
    }
}

static void poll_run(WatchRun *run)
{
    if (watch_reload(&run->run_file, run->dir, RECORD_RUN, &run->run)) {
        free_ranks(run);
        free(run->problem);
        bool broken = run->run == NULL && run->run_file.there;
        run->problem = broken ? mem_strdup(err_message()) : NULL;
        double total = json_number(run->run, "total_steps");
        run->total_steps = total >= 1 && total < 1e15 ? (int64_t)total : steps_of_config(run->run);
        const cJSON *resumed = json_get(run->run, "resumed");
        int count = cJSON_GetArraySize(resumed);
        run->begun = count > 0 ? results_stamp(cJSON_GetArrayItem(resumed, count - 1), "at")
                               : results_stamp(run->run, "started");
        if (json_text(run->run, "status") != NULL && !record_is(run->run, RUN_RUNNING)) {
            load_ranks(run);
        }
    }
    if (run->run_file.there && run->file < 0) {
        run->wrote = clock_of(run->run_file.changed);
    }
}

static void poll_checkpoint(WatchRun *run)
{
    char *path = io_join(run->dir, "ckpt/latest"), target[64];
    ssize_t length = readlink(path, target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    run->saved_step = checkpoint_step(target);
    free(path);
}

/* --- state --- */

bool watch_is_silent(double seconds, double gap)
{
    return seconds > fmax(SILENCE_GAPS * gap, SILENCE_LEAST);
}

static void judge(WatchRun *run)
{
    /* What was seen to grow while it was watched counts, not the clock of the file's host. */
    double since = isnan(run->grown) ? run->now - run->wrote : clock_seconds() - run->grown;
    run->silent = since > 0 ? since : 0;
    run->resident_now = run->resident_most = 0;
    RunState recorded = RUN_FAILED;
    run_state_find(json_text(run->run, "status"), &recorded);
    run->state = run->problem != NULL ? WATCH_UNREADABLE
                 : run->run == NULL   ? RUN_WAITING
                                      : (int)recorded;
    if (run->state != RUN_RUNNING) {
        return;
    }
    const cJSON *process = json_get(run->run, "process");
    const char *host = json_text(run->run, "machine.host");
    switch (process_life(process, host)) {
    case PROCESS_ALIVE:
        process_memory(process, &run->resident_now, &run->resident_most);
        break;
    case PROCESS_GONE:
        run->state = WATCH_DEAD;
        break;
    case PROCESS_ELSEWHERE:
        run->state = watch_is_silent(run->silent, watch_median(run, run->recent_gap_s))
                         ? WATCH_SILENT
                         : RUN_RUNNING;
        break;
    }
}

void watch_poll(WatchRun *run)
{
    run->now = clock_now();
    poll_run(run);
    poll_lines(run);
    poll_checkpoint(run);
    judge(run);
    if (run->state == WATCH_DEAD) { /* it may have said why in the last moment */
        poll_run(run);
        poll_lines(run);
        judge(run);
    }
}

double watch_session_seconds(const WatchRun *run)
{
    const cJSON *resumed = json_get(run->run, "resumed");
    int count = cJSON_GetArraySize(resumed);
    double from = count > 0 ? json_number(cJSON_GetArrayItem(resumed, count - 1), "step") : 0;
    double before = from > 0 ? curve_seconds(&run->curve, (int64_t)from) : 0;
    return curve_seconds(&run->curve, run->last.step) - before;
}

double watch_seconds_left(const WatchRun *run)
{
    double left = (double)(run->total_steps - run->last.step);
    if (run->total_steps <= 0 || run->last.step <= 0 || left < 0) {
        return NAN;
    }
    double steps = watch_session_seconds(run), share = (run->wrote - run->begun) / steps;
    bool known = steps >= OVERHEAD_AFTER && share >= 1 && share <= OVERHEAD_MOST;
    return 1e-3 * pace_ms(run) * left * (known ? share : 1);
}

/* --- going on --- */

/* Whether the command has to say it: the others follow from those that were given, but for how
 * this machine computed. Records of 0.1 do not tell. */
static bool was_given(const cJSON *given, const Option *option)
{
    return given == NULL || (option->flags & OPTION_ROUNDING) != 0 ||
           json_lists(given, option->name);
}

char *watch_resume_command(const WatchRun *run)
{
    Config cfg, defaults;
    config_init(&cfg, COMMAND_TRAIN);
    config_init(&defaults, COMMAND_TRAIN);
    Page page = {0};
    if (config_from_json(&cfg, json_get(run->run, "config"), run->dir) == 0) {
        const ModelStart *start = config_start(cfg.model);
        defaults.lr = start->lr;
        defaults.batch = start->batch;
        page_put(&page, "pacer train");
        const Option *options = config_options();
        for (size_t i = 0; options[i].name != NULL; i++) {
            const char *name = options[i].name;
            bool other = !was_given(json_get(run->run, "given"), &options[i]) ||
                         (options[i].commands & 1u << COMMAND_TRAIN) == 0 ||
                         (options[i].flags & OPTION_NO_RECORD) != 0 || strcmp(name, "out") == 0 ||
                         strcmp(name, "resume") == 0 ||
                         (strcmp(name, "accum") == 0 && cfg.global_batch > 0);
            char *value = config_value_text(&cfg, &options[i]);
            char *initial = config_value_text(&defaults, &options[i]);
            if (!other && strcmp(value, initial) != 0) {
                char *word = escape_shell(value);
                page_put(&page, options[i].type == OPTION_BOOL ? " --%s=%s" : " --%s %s", name,
                         word);
                free(word);
            }
            free(value);
            free(initial);
        }
        char *out = escape_shell(run->dir);
        page_put(&page, " --out %s", out);
        free(out);
    }
    config_free(&cfg);
    config_free(&defaults);
    return page.text;
}
