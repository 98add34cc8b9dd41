#include "train/resume.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/version.h"

#include <stdlib.h>
#include <string.h>

#define NAMED_SIZE 4096

/* "--lr 0.1", or "no --init" for an empty text. */
static const char *named(const Option *option, const char *value, char text[NAMED_SIZE])
{
    snprintf(text, NAMED_SIZE, value[0] != '\0' ? "--%s %s" : "no --%s", option->name, value);
    return text;
}

static int refuse(const Run *run, const char *checkpoint, const Option *option, const char *from,
                  const char *to)
{
    char then[NAMED_SIZE], now[NAMED_SIZE];
    named(option, from, then);
    named(option, to, now);
    return err_set(ERR_INPUT,
                   "%s: was trained with %s, this command has %s%s: going on would be another "
                   "training; give %s, or another --out to start anew",
                   checkpoint, then, now,
                   config_is_set(run->cfg, option->name) ? "" : " (not given)", then);
}

static int refuse_number(const Run *run, const char *checkpoint, const char *name, uint64_t then,
                         uint64_t now)
{
    char from[32], to[32];
    snprintf(from, sizeof from, "%llu", (unsigned long long)then);
    snprintf(to, sizeof to, "%llu", (unsigned long long)now);
    return refuse(run, checkpoint, config_find(name), from, to);
}

/* What decides which sequence comes next must not change, or the position means nothing. */
static int compare_order(const Run *run, const char *checkpoint, const StateFile *file)
{
    const TrainState *state = &file->state;
    uint64_t tokens = run->data.train.tokens, digest = dataset_digest(&run->data);
    bool known = state->data_digest != 0 && digest != 0;
    if (state->data_tokens != tokens || (known && state->data_digest != digest)) {
        const char *was = json_text_or(file->config, "data", "another");
        bool moved = strcmp(was, run->cfg->data) != 0;
        return err_set(ERR_INPUT,
                       "%s: --data %s does not hold the tokens that it was trained on (%llu for "
                       "training now, %llu then, --data %s): %s, or give another --out to start "
                       "anew",
                       checkpoint, run->cfg->data, (unsigned long long)tokens,
                       (unsigned long long)state->data_tokens, was,
                       moved ? "give that data"
                       : strcmp(was, "builtin:stories") == 0
                           ? "runs of pacer 0.1 on it go on with --data builtin:bytes"
                           : "bring back the files as they were");
    }
    if (state->seed != (uint64_t)run->cfg->seed) {
        return refuse_number(run, checkpoint, "seed", state->seed, (uint64_t)run->cfg->seed);
    }
    if (state->seq != run->setup.seq) {
        return refuse_number(run, checkpoint, "seq", (uint64_t)state->seq,
                             (uint64_t)run->setup.seq);
    }
    return 0;
}

/* Whether what the option stands for was compared already and is the same, whatever is written
 * there. */
static bool stands_for_same(const Option *option, const StateFile *file)
{
    static const char *const compared[] = {"data", "seed", "seq", "model"};
    for (size_t i = 0; i < sizeof compared / sizeof compared[0]; i++) {
        if (strcmp(option->name, compared[i]) == 0) {
            return true;
        }
    }
    const SpecField *field = spec_field_of(option->name);
    return field != NULL && json_get(file->model, field->stored) != NULL;
}

/* Leaves the changes that are recorded, or refuses. */
static int judge(const Run *run, const char *checkpoint, const StateFile *file, LegChanges *changes)
{
    size_t kept = 0;
    int code = 0;
    for (size_t i = 0; i < changes->count; i++) {
        ConfigChange change = changes->rows[i];
        bool refused =
            change.option->resume == RESUME_REFUSED && !stands_for_same(change.option, file);
        if (refused && code == 0) {
            code = refuse(run, checkpoint, change.option, change.from, change.to);
        }
        if (!refused && change.option->resume != RESUME_FREE) {
            changes->rows[kept++] = change;
        } else {
            free(change.from);
            free(change.to);
        }
    }
    changes->count = kept;
    return code;
}

int resume_check(const Run *run, const char *checkpoint, const StateFile *file, LegChanges *changes)
{
    *changes = (LegChanges){.data_unknown = file->state.data_digest == 0};
    if (file->state.data_tokens == 0) {
        return 0; /* it was not trained: checkpoint_load says why not */
    }
    int code = compare_order(run, checkpoint, file);
    code = code != 0 ? code : state_compare(checkpoint, file, &run->setup.spec);
    if (code == 0 && file->config != NULL) {
        code = config_changes(run->cfg, &run->settled, file->config, checkpoint, &changes->rows,
                              &changes->count);
        code = code != 0 ? code : judge(run, checkpoint, file, changes);
    }
    if (code != 0) {
        leg_changes_free(changes);
    }
    return code;
}

void leg_changes_free(LegChanges *changes)
{
    config_changes_free(changes->rows, changes->count);
    *changes = (LegChanges){0};
}

/* Of an option of which 0 is no value. */
static const char *given_as(const Option *option, const char *value)
{
    return config_is_unset(option, value) ? "not given" : value;
}

void leg_changes_say(const Run *run, const LegChanges *changes)
{
    for (size_t i = 0; i < changes->count; i++) {
        const ConfigChange *change = &changes->rows[i];
        if (spec_field_of(change->option->name) != NULL) {
            continue; /* the same dimension, written otherwise: another is refused */
        }
        char place[CONFIG_ORIGIN_SIZE], before[CONFIG_ORIGIN_SIZE];
        config_origin(&run->settled, change->option->name, place);
        config_origin(run->cfg, change->option->name, before);
        bool preset = (change->option->flags & OPTION_AUTO) && strcmp(before, "derived") == 0;
        /* One of steps, tokens and epochs that gave way to another was not forgotten. */
        bool unset = (change->option->flags & OPTION_UNSET) != 0;
        if ((strcmp(place, "default") == 0 || preset) && !unset) {
            char then[NAMED_SIZE], now[NAMED_SIZE];
            log_warn("Going on with %s, the default, where it was %s: give %s to keep it",
                     named(change->option, change->to, now), change->from,
                     named(change->option, change->from, then));
        } else {
            log_info("Going on with another --%s: %s -> %s (%s)", change->option->name,
                     given_as(change->option, change->from), given_as(change->option, change->to),
                     place);
        }
        if (changes->data_unknown && strcmp(change->option->name, "data") == 0) {
            log_warn("Whether --data %s holds the tokens of --data %s is not known but for their "
                     "number: the checkpoint was written before a digest was kept",
                     change->to, change->from);
        }
    }
}

void legs_add(struct cJSON *legs, int64_t step, int ranks, const char *host, const char *restarted,
              const LegChanges *changes)
{
    char now[CLOCK_STAMP_SIZE];
    clock_stamp(now);
    cJSON *object = json_object(), *changed = json_array();
    json_put_whole(object, "step", step);
    json_put_text(object, "started", now);
    json_put_whole(object, "ranks", ranks);
    json_put_text(object, "host", host);
    json_put_text(object, "version", version_string());
    json_put_text(object, "commit", version_commit());
    cJSON *losses = restarted != NULL ? json_parse(restarted, strlen(restarted), NULL) : NULL;
    if (cJSON_IsArray(losses)) {
        const cJSON *last = cJSON_GetArrayItem(losses, cJSON_GetArraySize(losses) - 1);
        json_put_text(object, "restarted", json_text_or(last, "why", "a rank was lost"));
        json_put_item(object, "lost", losses);
    } else {
        cJSON_Delete(losses);
    }
    for (size_t i = 0; i < changes->count; i++) {
        cJSON *row = json_object();
        json_put_text(row, "option", changes->rows[i].option->name);
        json_put_text(row, "from", changes->rows[i].from);
        json_put_text(row, "to", changes->rows[i].to);
        json_append(changed, row);
    }
    json_put_item(object, "changed", changed);
    json_append(legs, object);
}
