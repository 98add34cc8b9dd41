#include "record/reader.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "record/line_scan.h"
#include "record/summary.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int record_load(const char *dir, const char *name, cJSON **tree)
{
    bool experiment = strcmp(name, RECORD_EXPERIMENT) == 0;
    char *path = io_join(dir, name);
    int code = json_load(path, tree);
    code = code != 0 ? code
                     : json_read_format(path, *tree, experiment ? "format" : "schema",
                                        experiment ? EXPERIMENT_FORMAT : RECORD_SCHEMA);
    if (code != 0) {
        cJSON_Delete(*tree);
        *tree = NULL;
    }
    free(path);
    return code;
}

bool record_is(const cJSON *run, RunState state)
{
    RunState found;
    return run_state_find(json_text(run, "status"), &found) && found == state;
}

int record_checks(const cJSON *run, const char *verdict)
{
    int count = 0;
    const cJSON *check;
    cJSON_ArrayForEach(check, json_find(run, "summary.checks"))
    {
        count += strcmp(json_text_or(check, "verdict", ""), verdict) == 0;
    }
    return count;
}

double record_planned_bytes(const cJSON *run)
{
    double sum = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, json_get(run, "memory_plan"))
    {
        sum += fmax(json_number(row, "bytes"), 0); /* which passes over NAN */
    }
    return sum > 0 ? sum : NAN;
}

/* K of "K.json", as pacer writes it; -1 for any other name. */
static int64_t rank_of_name(const char *name)
{
    size_t digits = strspn(name, "0123456789");
    bool good = digits > 0 && digits < 10 && strcmp(name + digits, ".json") == 0 &&
                (digits == 1 || name[0] != '0');
    return good ? strtoll(name, NULL, 10) : -1;
}

static int by_number(const void *a, const void *b)
{
    int64_t one = *(const int64_t *)a, other = *(const int64_t *)b;
    return (one > other) - (one < other);
}

int record_rank_files(const char *dir, int64_t **ranks, size_t *count)
{
    *ranks = NULL;
    *count = 0;
    char *folder = io_join(dir, "ranks");
    DIR *entries = opendir(folder);
    int code = entries == NULL && errno != ENOENT ? io_error(folder, "read") : 0;
    free(folder);
    for (const struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;) {
        int64_t rank = rank_of_name(entry->d_name);
        if (rank >= 0) {
            *ranks = mem_double(*ranks, *count, sizeof **ranks);
            (*ranks)[(*count)++] = rank;
        }
    }
    if (entries != NULL) {
        closedir(entries);
    }
    if (*count > 0) {
        qsort(*ranks, *count, sizeof **ranks, by_number);
    }
    return code;
}

#define LINE_LIMIT ((size_t)1 << 20)

/* Of the bytes of a line; *good: whether it is one. */
typedef int ByteTake(void *context, const char *text, size_t size, const char *path, long number,
                     bool *good);

/* Line by line: a record can be longer than the memory that is left. */
static int walk(const char *dir, ByteTake *take, void *context, bool *torn)
{
    char *path = io_join(dir, RECORD_LINES), *line = NULL;
    size_t capacity = 0;
    int file = -1;
    struct stat info;
    int code = io_open_regular(path, &file, &info);
    FILE *stream = code == 0 ? mem_checked(fdopen(file, "r"), sizeof(FILE)) : NULL;
    long number = 0;
    bool left_over = false;
    for (ssize_t got; code == 0 && (got = getline(&line, &capacity, stream)) > 0;) {
        bool whole = line[got - 1] == '\n', good = false;
        size_t size = (size_t)got - whole;
        number++;
        code = size <= LINE_LIMIT ? take(context, line, size, path, number, &good) : 0;
        if (code == 0 && !good && whole) {
            code = err_set(ERR_INPUT, "%s:%ld: not a line of a run's record", path, number);
        }
        left_over = !good && !whole;
    }
    if (stream != NULL) {
        code = code == 0 && ferror(stream) ? io_error(path, "cannot read") : code;
        fclose(stream);
    }
    free(line);
    free(path);
    if (torn != NULL) {
        *torn = left_over;
    }
    return code;
}

typedef struct {
    LineTake *take;
    void *context;
} TreeTake;

static int take_tree(void *context, const char *text, size_t size, const char *path, long number,
                     bool *good)
{
    const TreeTake *tree = context;
    cJSON *line = json_parse(text, size, NULL);
    int code = 0;
    *good = cJSON_IsObject(line);
    if (*good) {
        char *where = mem_format("%s:%ld", path, number);
        code = tree->take(tree->context, line, where, number);
        free(where);
    }
    cJSON_Delete(line);
    return code;
}

int lines_read(const char *dir, LineTake *take, void *context, bool *torn)
{
    return walk(dir, take_tree, &(TreeTake){take, context}, torn);
}

typedef struct {
    NumbersTake *take;
    void *context;
} ScanTake;

static double number_in(const cJSON *line, const char *name)
{
    const cJSON *item = json_get(line, name);
    return cJSON_IsNumber(item) && isfinite(item->valuedouble) ? item->valuedouble : NAN;
}

static int take_scan(void *context, const char *text, size_t size, const char *path, long number,
                     bool *good)
{
    const ScanTake *scan = context;
    LineNumbers numbers;
    *good = line_scan(text, size, &numbers);
    if (!*good) {
        cJSON *line = json_parse(text, size, NULL);
        *good = cJSON_IsObject(line);
        numbers = (LineNumbers){number_in(line, "step"),
                                number_in(line, "tokens"),
                                number_in(line, "loss"),
                                number_in(line, "val_loss"),
                                number_in(line, "ms"),
                                number_in(line, "noise_scale"),
                                json_get(line, "val_loss") != NULL};
        cJSON_Delete(line);
    }
    if (*good && !(numbers.step >= 0 && numbers.step <= JSON_WHOLE_MAX)) {
        return err_set(ERR_INPUT, "%s:%ld: not a line of a run's record", path, number);
    }
    if (*good) {
        scan->take(scan->context, &numbers);
    }
    return 0;
}

int lines_scan(const char *dir, NumbersTake *take, void *context)
{
    return walk(dir, take_scan, &(ScanTake){take, context}, NULL);
}

/* --- the summary --- */

void summary_read(JsonReader *reader, const cJSON *object, Summary *summary)
{
#define X(name) summary->name = json_read_number(reader, object, #name);
    PACER_SUMMARY(X)
#undef X
}

/* A time that is missing is NaN: the checks find it where there should be one. */
static PhaseReport read_phase(JsonReader *reader, const cJSON *object)
{
    PhaseReport phase = {0};
    const struct {
        const char *name;
        double *seconds;
    } fields[] = {{"total_s", &phase.total_s}, {"exclusive_s", &phase.exclusive_s},
                  {"mean_s", &phase.mean_s},   {"p50_s", &phase.p50_s},
                  {"p95_s", &phase.p95_s},     {"p99_s", &phase.p99_s},
                  {"max_s", &phase.max_s}};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        Value value = json_read_number(reader, object, fields[i].name);
        *fields[i].seconds = value.known ? value.number : NAN;
    }
    Value count = json_read_count(reader, object, "count");
    phase.count = count.known ? (int64_t)count.number : 0;
    return phase;
}

double summary_read_phases(JsonReader *reader, const char *name, const cJSON *object,
                           TimerReport *report)
{
    const cJSON *item, *phases = json_read_object(reader, object, name);
    const char *dot = reader->inside[0] != '\0' ? "." : "";
    double other = 0;
    memset(report, 0, sizeof *report);
    cJSON_ArrayForEach(item, phases)
    {
        char *inside = mem_format("%s%s%s", reader->inside, dot, name);
        char *within = mem_format("%s.%s", inside, item->string);
        JsonReader in_all = {reader->path, inside, reader->code};
        if (!cJSON_IsObject(item)) {
            json_wrong(&in_all, item->string, "an object");
        }
        JsonReader in_one = {reader->path, within, in_all.code};
        PhaseReport phase = read_phase(&in_one, item);
        reader->code = in_one.code;
        free(within);
        free(inside);
        int known = 0;
        while (known < PHASE_COUNT && strcmp(phase_name((Phase)known), item->string) != 0) {
            known++;
        }
        if (known < PHASE_COUNT) {
            report->phases[known] = phase;
        } else if (strcmp(item->string, "unattributed") == 0) {
            report->unattributed_s = phase.exclusive_s;
        } else {
            other += phase.exclusive_s;
        }
    }
    return other;
}

/* --- names --- */

static const struct {
    const char *name, *words;
    bool over;
} states[] = {
#define X(name, record, words, over) {record, words, over},
    PACER_RUN_STATES(X)
#undef X
};

const char *run_state_name(RunState state)
{
    return states[state].name;
}

const char *run_state_words(RunState state)
{
    return states[state].words;
}

bool run_state_is_over(RunState state)
{
    return states[state].over;
}

bool run_state_find(const char *name, RunState *state)
{
    for (int i = 0; name != NULL && i < RUN_STATE_COUNT; i++) {
        if (strcmp(states[i].name, name) == 0) {
            *state = (RunState)i;
            return true;
        }
    }
    return false;
}

static const struct {
    const char *name, *title;
} peers[] = {
    {"torch", "PyTorch"},
    {"torch-compile", "torch.compile"},
};
#define PEER_COUNT ((int)(sizeof peers / sizeof peers[0]))

const char *peer_name(int index)
{
    return index >= 0 && index < PEER_COUNT ? peers[index].name : NULL;
}

const char *peer_title(const char *name)
{
    for (int i = 0; i < PEER_COUNT; i++) {
        if (strcmp(peers[i].name, name) == 0) {
            return peers[i].title;
        }
    }
    return name[0] != '\0' ? name : "pacer";
}
