#include "serve/answers.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/mem.h"
#include "record/reader.h"
#include "report/document.h"

#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DOCUMENT_AGE 60.0               /* seconds for which a document serves at most */
#define SAMPLES_BYTES ((size_t)4 << 20) /* of samples.jsonl, from its end */
#define OVERLAY_POINTS 40000            /* of all runs of an overlay together */

static int put_error(Page *page, int status, const char *message)
{
    cJSON *error = json_object();
    json_put_text(error, "error", message);
    page_put_tree(page, error);
    return status;
}

/* --- one run --- */

/* {phase: seconds} of what took any, of the summary. */
static void put_phases(cJSON *object, const cJSON *run)
{
    cJSON *phases = NULL;
    const cJSON *phase;
    cJSON_ArrayForEach(phase, json_find(run, "summary.phases"))
    {
        double seconds = json_number(phase, "exclusive_s");
        if (seconds > 0) {
            phases = phases != NULL ? phases : json_put_object(object, "phases");
            json_put_number(phases, phase->string, seconds);
        }
    }
}

/* A number of the lines, or of the summary where there are none. */
static double or_summary(double number, const cJSON *run, const char *path)
{
    return isfinite(number) ? number : json_number(run, path);
}

static void put_figures(cJSON *object, const Followed *followed)
{
    const WatchRun *watch = &followed->watch;
    const cJSON *run = watch->run;
    bool going = watch->state == RUN_RUNNING;
    json_put_text(object, "state", watch_state_name(watch->state));
    json_put_bool(object, "live", going || watch->state == WATCH_SILENT || run == NULL);
    json_put_text(object, "model", json_text(run, "model.name"));
    json_put_text(object, "device", json_text(run, "config.device"));
    json_put_text(object, "dtype", json_text(run, "config.dtype"));
    json_put_text(object, "data", json_text(run, "config.data"));
    json_put_text(object, "host", json_text(run, "machine.host"));
    json_put_text(object, "reason",
                  watch->state != WATCH_UNREADABLE ? json_text(run, "message")
                  : watch->problem != NULL         ? watch->problem
                                                   : FOLLOW_NOT_PLAIN);
    double last = (double)watch->last.step;
    bool lines = watch->last.step > 0;
    int failed = record_checks(run, "fail");
    double best = or_summary(watch->best_val_loss, run, "summary.best_val_loss");
    const struct {
        const char *name;
        double number;
    } numbers[] = {
        {"parameters", json_number(run, "model.parameters")},
        {"step", lines ? last : json_number(run, "summary.steps")},
        {"total", watch->total_steps > 0 ? (double)watch->total_steps : NAN},
        {"tokens", lines ? watch->last.tokens : json_number(run, "summary.tokens")},
        {"loss", lines ? watch->last.loss : json_number(run, "summary.train_loss")},
        {"val_loss", or_summary(watch->val_loss, run, "summary.val_loss")},
        {"best_val_loss", best},
        {"best_val_step", isfinite(watch->best_val_loss) ? (double)watch->best_val_step : NAN},
        {"lr", lines ? watch->last.lr : NAN},
        {"grad_norm", lines ? watch->last.grad_norm : NAN},
        {"tok_s", or_summary(watch_median(watch, watch->recent_tok_s), run, "summary.tok_s")},
        {"ms", or_summary(watch_median(watch, watch->recent_ms), run, "summary.step_p50_ms")},
        {"seconds_left", going ? watch_seconds_left(watch) : NAN},
        {"begun", watch->begun},
        {"wrote", watch->wrote},
        {"now", watch->now},
        {"silent", watch->silent},
        {"saved_step", watch->saved_step >= 0 ? (double)watch->saved_step : NAN},
        {"resident", watch->resident_now > 0 ? (double)watch->resident_now : NAN},
        {"peak_bytes", json_number(run, "summary.peak_bytes")},
        {"planned_bytes", record_planned_bytes(run)},
        {"wall_s", json_number(run, "summary.wall_s")},
        {"mfu", or_summary(json_number(run, "summary.mfu_peak"), run, "summary.mfu_measured")},
        {"flop_per_step", follow_flop_per_step(followed)},
        {"not_finite", watch->not_finite > 0 ? (double)watch->not_finite : NAN},
        {"odd_lines", watch->odd_lines > 0 ? (double)watch->odd_lines : NAN},
        {"failed_checks", failed > 0 ? failed : NAN},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_put(object, numbers[i].name, value_finite(numbers[i].number));
    }
    put_phases(object, run);
    if (watch->state == WATCH_DEAD || watch->state == RUN_STOPPED) {
        char *command = watch_resume_command(watch);
        json_put_text(object, "resume", command);
        free(command);
    }
}

/* All but the lines, as JSON whose closing brace is missing. */
static char *make_head(const Followed *run, const Place *place, const char *id)
{
    cJSON *object = json_object();
    char cursor[TRACK_CURSOR_SIZE];
    json_put_text(object, "id", id);
    json_put_text(object, "name", place->name);
    json_put_text(object, "title", place->title);
    put_figures(object, run);
    json_put_bool(object, "behind", run->watch.behind);
    json_put_bool(object, "samples", io_has(run->path, "samples.jsonl"));
    track_cursor(&run->train, cursor);
    json_put_text(object, "from", cursor);
    track_cursor(&run->validation, cursor);
    json_put_text(object, "val", cursor);
    char *line = json_line(object), *head = escape_json(line);
    head[strlen(head) - 1] = '\0';
    free(line);
    cJSON_Delete(object);
    return head;
}

static int answer_run(Answers *answers, const Place *place, const char *id,
                      const Parameters *parameters, Page *page)
{
    Followed *run = follow_take(&answers->runs, place->path);
    if (run == NULL) {
        return put_error(page, 503, "too many runs are being read at this moment; try again");
    }
    run->head = run->head != NULL ? run->head : make_head(run, place, id);
    page_put_bytes(page, run->head, strlen(run->head));
    page_put_bytes(page, ",\"lines\":", 9);
    track_put(page, &run->train, track_from(&run->train, parameters->from), COLUMN_COUNT, 0);
    page_put_bytes(page, ",\"validation\":", 14);
    track_put(page, &run->validation, track_from(&run->validation, parameters->validation),
              COLUMN_MEAN + 1, 0);
    page_put_bytes(page, "}", 1);
    follow_give(&answers->runs, run);
    return 200;
}

/* --- several --- */

static int count_ids(const char *list)
{
    char id[ENTRY_ID_SIZE];
    int count = 0;
    while (next_id(&list, id, sizeof id)) {
        count++;
    }
    return count;
}

/* {"runs": [...]} as a block of curves has them, with "behind" where there is more to read. */
static int answer_curves(Answers *answers, const char *list, Page *page)
{
    char id[ENTRY_ID_SIZE];
    int count = count_ids(list), done = 0;
    if (count == 0 || count > CURVES_MOST) {
        return put_error(page, 400, "name 1 to 200 runs");
    }
    size_t most = OVERLAY_POINTS / (size_t)count;
    bool behind = false, live = false;
    page_put(page, "{\"runs\":[");
    while (next_id(&list, id, sizeof id)) {
        Place place;
        if (!catalog_find(&answers->catalog, id, &place)) {
            continue;
        }
        Followed *run = place.is_experiment ? NULL : follow_take(&answers->runs, place.path);
        if (run != NULL) {
            cJSON *object = json_object();
            json_put_text(object, "id", id);
            json_put_text(object, "label", place.name);
            json_put_text(object, "title", place.title);
            json_put_text(object, "group", json_text(run->watch.run, "model.name"));
            json_put_text(object, "state", watch_state_name(run->watch.state));
            json_put(object, "flop_per_step", value_finite(follow_flop_per_step(run)));
            json_put(object, "final",
                     value_finite(json_number(run->watch.run, "summary.train_loss")));
            behind |= run->watch.behind;
            live |= run->watch.state == RUN_RUNNING;
            char *line = json_line(object), *safe = escape_json(line);
            page_put_bytes(page, ",", done++ > 0);
            page_put_bytes(page, safe, strlen(safe) - 1);
            page_put_bytes(page, ",\"points\":", 10);
            track_put(page, &run->train, 0, COLUMN_MEAN + 1, most);
            page_put_bytes(page, ",\"validation\":", 14);
            track_put(page, &run->validation, 0, COLUMN_MEAN + 1, most);
            page_put_bytes(page, "}", 1);
            free(safe);
            free(line);
            cJSON_Delete(object);
            follow_give(&answers->runs, run);
        }
        place_free(&place);
    }
    page_put(page, "],\"behind\":%s,\"live\":%s}", behind ? "true" : "false",
             live ? "true" : "false");
    return 200;
}

static char *value_text(const cJSON *item)
{
    if (cJSON_IsString(item)) {
        return mem_strdup(item->valuestring);
    }
    return json_is_nothing(item) ? mem_strdup("") : json_line(item);
}

/* A block of options: those of the first run, in its order. Of a single run those that were given
 * stand out, of several those that differ. */
static int answer_options(Answers *answers, const char *list, Page *page)
{
    char id[ENTRY_ID_SIZE];
    cJSON *block = json_object(), *configs = json_array(), *given = NULL;
    json_put_text(block, "type", "options");
    cJSON *columns = json_put_array(block, "columns"), *rows = json_put_array(block, "rows");
    cJSON *titles = json_put_array(block, "titles");
    for (int i = 0; i < CURVES_MOST && next_id(&list, id, sizeof id); i++) {
        Place place;
        if (catalog_find(&answers->catalog, id, &place)) {
            Followed *run = place.is_experiment ? NULL : follow_take(&answers->runs, place.path);
            if (run != NULL) {
                cJSON *config = json_copy(json_get(run->watch.run, "config"));
                json_append(configs, config != NULL ? config : json_object());
                given = given != NULL ? given : json_copy(json_get(run->watch.run, "given"));
                json_append_text(columns, place.name);
                json_append_text(titles, place.title);
                follow_give(&answers->runs, run);
            }
            place_free(&place);
        }
    }
    const cJSON *option, *config;
    cJSON_ArrayForEach(option, cJSON_GetArrayItem(configs, 0))
    {
        cJSON *row = json_object(), *values = json_array();
        bool differs = cJSON_GetArraySize(configs) == 1 && json_lists(given, option->string);
        char *first = value_text(option);
        cJSON_ArrayForEach(config, configs)
        {
            char *value = value_text(json_get(config, option->string));
            differs |= strcmp(value, first) != 0;
            json_append_text(values, value);
            free(value);
        }
        free(first);
        json_put_text(row, "name", option->string);
        json_put_item(row, "values", values);
        json_put_bool(row, "differs", differs && strcmp(option->string, "out") != 0);
        json_append(rows, row);
    }
    cJSON_Delete(configs);
    cJSON_Delete(given);
    page_put_tree(page, block);
    return 200;
}

/* --- samples and experiments --- */

/* A block of samples from the whole lines at the end of samples.jsonl. */
static int answer_samples(const char *dir, Page *page)
{
    cJSON *block = json_object();
    json_put_text(block, "type", "samples");
    cJSON *samples = json_put_array(block, "samples");
    char *path = io_join(dir, "samples.jsonl");
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    free(path);
    struct stat now;
    if (file >= 0 && fstat(file, &now) == 0 && S_ISREG(now.st_mode)) {
        char *text = mem_alloc(SAMPLES_BYTES);
        off_t from = now.st_size > (off_t)SAMPLES_BYTES ? now.st_size - (off_t)SAMPLES_BYTES : 0;
        ssize_t got = pread(file, text, SAMPLES_BYTES, from);
        size_t size = got > 0 ? (size_t)got : 0;
        for (const char *at = text, *end; (end = memchr(at, '\n', size - (size_t)(at - text)));
             at = end + 1) {
            cJSON *line = json_parse(at, (size_t)(end - at), NULL);
            if (json_text(line, "text") != NULL) {
                cJSON *sample = json_object();
                json_put_number(sample, "step", json_number(line, "step"));
                json_put_text(sample, "text", json_text(line, "text"));
                json_append(samples, sample);
            }
            cJSON_Delete(line);
        }
        free(text);
    }
    if (file >= 0) {
        close(file);
    }
    while (cJSON_GetArraySize(samples) > SAMPLES_MOST) {
        cJSON_DeleteItemFromArray(samples, 0);
    }
    page_put_tree(page, block);
    return 200;
}

static bool is_fresh(const Document *document, const char *path, const struct stat *now)
{
    return document->path != NULL && strcmp(document->path, path) == 0 &&
           document->key.inode == now->st_ino && document->key.size == now->st_size &&
           document->key.changed.tv_sec == now->st_mtim.tv_sec &&
           document->key.changed.tv_nsec == now->st_mtim.tv_nsec &&
           clock_seconds() - document->made < DOCUMENT_AGE;
}

/* The document of an experiment, made anew when its record has changed or a minute has gone. */
static int answer_experiment(Answers *answers, const char *path, Page *page)
{
    char *record = io_join(path, RECORD_EXPERIMENT);
    struct stat now = {0};
    bool there = lstat(record, &now) == 0 && S_ISREG(now.st_mode);
    free(record);
    if (!there) {
        return put_error(page, 404, "its experiment.json is gone");
    }
    pthread_mutex_lock(&answers->lock);
    Document *document = NULL, *oldest = answers->documents;
    for (int i = 0; i < DOCUMENTS; i++) {
        Document *one = &answers->documents[i];
        document = is_fresh(one, path, &now) ? one : document;
        oldest = one->made < oldest->made ? one : oldest;
    }
    char *link = document == NULL ? catalog_link_out(&answers->catalog, path) : NULL;
    if (link != NULL) {
        err_set(ERR_INPUT, "%s: a link out of the folders served; serve the folder it leads to",
                link);
    } else if (document == NULL) {
        Page json = {0};
        int code = report_document(path, &json);
        malloc_trim(0); /* the records of a thousand runs are 100 MB, the document is 2 */
        if (code == 0) {
            page_free(&oldest->json);
            free(oldest->path);
            *oldest = (Document){
                mem_strdup(path), {now.st_ino, now.st_size, now.st_mtim}, clock_seconds(), json};
            document = oldest;
        } else {
            page_free(&json);
        }
    }
    if (document != NULL) {
        page_put_bytes(page, document->json.text, document->json.size);
    }
    pthread_mutex_unlock(&answers->lock);
    free(link);
    return document != NULL ? 200 : put_error(page, 500, err_message());
}

/* --- all --- */

int answers_open(Answers *answers, char *const *folders, int count)
{
    *answers = (Answers){0};
    int code = catalog_open(&answers->catalog, folders, count);
    if (code == 0) {
        follow_open(&answers->runs);
        pthread_mutex_init(&answers->lock, NULL);
    }
    return code;
}

void answers_close(Answers *answers)
{
    for (int i = 0; i < DOCUMENTS; i++) {
        page_free(&answers->documents[i].json);
        free(answers->documents[i].path);
    }
    follow_close(&answers->runs);
    catalog_close(&answers->catalog);
    pthread_mutex_destroy(&answers->lock);
}

int answers_make(Answers *answers, Route route, const char *id, const Parameters *parameters,
                 Page *page)
{
    switch (route) {
    case ROUTE_LIST:
        catalog_put(&answers->catalog, parameters->seen, page);
        return 200;
    case ROUTE_CURVES:
        return answer_curves(answers, parameters->runs, page);
    case ROUTE_OPTIONS:
        return answer_options(answers, parameters->runs, page);
    default:
        break;
    }
    Place place;
    if (!catalog_find(&answers->catalog, id, &place)) {
        return put_error(page, 404, "there is no such run or experiment in the folders served");
    }
    int status = place.is_experiment != (route == ROUTE_EXPERIMENT)
                     ? put_error(page, 404, "that is not of this kind")
                 : route == ROUTE_RUN     ? answer_run(answers, &place, id, parameters, page)
                 : route == ROUTE_SAMPLES ? answer_samples(place.path, page)
                                          : answer_experiment(answers, place.path, page);
    place_free(&place);
    return status;
}
