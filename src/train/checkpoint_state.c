/* state.json of a checkpoint: {"state": {...}, "digest": "..."}, where digest is the hash of the
 * state as text without spaces, so that a damaged byte is found here too. */
#include "train/checkpoint.h"

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/version.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STATE_VERSION 1
#define STATE_LIMIT ((size_t)16 << 20)

static void add_hex(cJSON *object, const char *name, uint64_t value)
{
    char *text = mem_format("%016" PRIx64, value);
    json_put_text(object, name, text);
    free(text);
}

/* Whole numbers beyond 2^53 do not survive a JSON number: written as text. */
static void add_whole(cJSON *object, const char *name, uint64_t value)
{
    char *text = mem_format("%" PRIu64, value);
    json_put_text(object, name, text);
    free(text);
}

static cJSON *state_object(const TrainState *state, const ModelSpec *spec, const cJSON *config,
                           CheckpointDigests digests)
{
    cJSON *object = json_object();
    json_put_whole(object, "version", STATE_VERSION);
    json_put_text(object, "pacer", version_string());
    json_put_text(object, "commit", version_commit());
    add_whole(object, "step", (uint64_t)state->step);
    add_whole(object, "sequences", state->sequences);
    add_whole(object, "tokens", (uint64_t)state->tokens);
    add_whole(object, "counted", (uint64_t)state->counted);
    add_whole(object, "data_tokens", state->data_tokens);
    add_hex(object, "data_digest", state->data_digest);
    add_whole(object, "seed", state->seed);
    add_whole(object, "seq", (uint64_t)state->seq);
    json_put_or_null(object, "train_s",
                     (Value){isfinite(state->train_seconds), state->train_seconds});
    if (state->clock_seconds > 0) {
        json_put_number(object, "clock_s", state->clock_seconds);
        json_put_number(object, "warm_share", state->warm_share);
    }
    json_put_or_null(object, "first_loss", (Value){isfinite(state->first_loss), state->first_loss});
    json_put_or_null(object, "best_val_loss",
                     (Value){isfinite(state->best_val_loss), state->best_val_loss});
    if (state->noise.weight > 0) {
        char *noise = noise_text(&state->noise);
        json_put_text(object, "noise", noise);
        json_put_bool(object, "noise_gains", state->noise_gains);
        free(noise);
    }
    cJSON *model = json_put_object(object, "model");
    json_put_text(model, "name", spec->name);
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        json_put_number(model, field->stored, spec_value(spec, field));
    }
    cJSON *files = json_put_object(object, "files");
    add_hex(files, "model.safetensors", digests.model);
    add_hex(files, "optimizer.safetensors", digests.optimizer);
    if (state->scales != NULL) {
        json_put_text(object, "fp8_scales", state->scales);
    }
    json_put_item(object, "config", json_copy(config));
    json_put_item(object, "legs", json_copy(state->legs));
    return object;
}

static uint64_t digest_of(const cJSON *state)
{
    char *text = json_line(state);
    uint64_t digest = io_hash(text, strlen(text));
    free(text);
    return digest;
}

/* A number without the sign or spaces that strtoull would take, at most `most`. */
static bool read_text(const cJSON *object, const char *name, int base, uint64_t most, uint64_t *out)
{
    const cJSON *item = json_get(object, name);
    char *end;
    if (!cJSON_IsString(item) || !isxdigit((unsigned char)item->valuestring[0])) {
        return false;
    }
    errno = 0;
    *out = strtoull(item->valuestring, &end, base);
    return end != item->valuestring && *end == '\0' && errno == 0 && *out <= most;
}

static bool read_whole(const cJSON *object, const char *name, int64_t *out)
{
    uint64_t value = 0;
    bool good = read_text(object, name, 10, INT64_MAX, &value);
    *out = (int64_t)value;
    return good;
}

/* An object or a list; what is neither is none. */
static const cJSON *find_tree(const cJSON *object, const char *name)
{
    const cJSON *item = json_get(object, name);
    return cJSON_IsObject(item) || cJSON_IsArray(item) ? item : NULL;
}

static int parse_state(const char *path, const cJSON *object, StateFile *out)
{
    const cJSON *files = json_get(object, "files");
    TrainState *state = &out->state;
    CheckpointDigests *digests = &out->digests;
    if (json_number(object, "version") != STATE_VERSION) {
        return err_set(ERR_INPUT,
                       "%s: written by another version of pacer (format %g, this one reads %d)",
                       path, json_number(object, "version"), STATE_VERSION);
    }
    if (!read_whole(object, "step", &state->step) ||
        !read_text(object, "sequences", 10, UINT64_MAX, &state->sequences) ||
        !read_whole(object, "tokens", &state->tokens) ||
        !read_text(object, "data_tokens", 10, UINT64_MAX, &state->data_tokens) ||
        !read_text(object, "seed", 10, UINT64_MAX, &state->seed) ||
        !read_whole(object, "seq", &state->seq) ||
        !read_text(files, "model.safetensors", 16, UINT64_MAX, &digests->model) ||
        !read_text(files, "optimizer.safetensors", 16, UINT64_MAX, &digests->optimizer)) {
        return err_set(ERR_INPUT,
                       "%s: a field is missing or damaged; resume from another checkpoint", path);
    }
    if (!read_whole(object, "counted", &state->counted)) {
        state->counted = state->tokens; /* from before some did not */
    }
    if (!read_text(object, "data_digest", 16, UINT64_MAX, &state->data_digest)) {
        state->data_digest = 0; /* from before it was kept */
    }
    state->train_seconds = json_number(object, "train_s");
    state->clock_seconds = fmax(json_number(object, "clock_s"), 0); /* missing: nothing is used */
    state->warm_share = fmin(fmax(json_number(object, "warm_share"), 0), 1);
    state->first_loss = json_number(object, "first_loss");
    state->best_val_loss = json_number(object, "best_val_loss");
    const char *noise = json_text(object, "noise");
    if (noise != NULL && !noise_take(&state->noise, noise)) {
        return err_set(ERR_INPUT, "%s: the sums of the noise scale are damaged", path);
    }
    state->noise_gains = json_is_true(object, "noise_gains");
    const cJSON *scales = json_get(object, "fp8_scales");
    state->scales = cJSON_IsString(scales) ? scales->valuestring : NULL;
    out->config = find_tree(object, "config");
    out->legs = find_tree(object, "legs");
    out->model = find_tree(object, "model");
    return 0;
}

int state_write(const char *folder, const TrainState *state, const ModelSpec *spec,
                const cJSON *config, CheckpointDigests digests)
{
    cJSON *whole = json_object();
    cJSON *object = state_object(state, spec, config, digests);
    json_put_item(whole, "state", object);
    add_hex(whole, "digest", digest_of(object));
    char *text = mem_checked(cJSON_Print(whole), sizeof *whole);
    char *path = io_join(folder, "state.json");
    int code = io_write_atomic(path, text, strlen(text));
    free(path);
    cJSON_free(text);
    cJSON_Delete(whole);
    return code;
}

int state_read(const char *folder, StateFile *out)
{
    char *path = io_join(folder, "state.json"), *text = NULL;
    size_t size = 0;
    uint64_t digest;
    *out = (StateFile){0};
    int code = io_read_all(path, STATE_LIMIT, &text, &size);
    out->tree = code == 0 ? json_parse(text, size, NULL) : NULL;
    const cJSON *object = json_get(out->tree, "state");
    if (code == 0 && (object == NULL || !read_text(out->tree, "digest", 16, UINT64_MAX, &digest) ||
                      digest != digest_of(object))) {
        code =
            err_set(ERR_INPUT,
                    "%s: was changed or damaged; take another checkpoint (RUN/ckpt/step-N)", path);
    }
    code = code != 0 ? code : parse_state(path, object, out);
    if (code != 0) {
        state_free(out);
    }
    free(text);
    free(path);
    return code;
}

int state_compare(const char *folder, const StateFile *file, const ModelSpec *spec)
{
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        double stored = json_number(file->model, field->stored), own = spec_value(spec, field);
        if (json_get(file->model, field->stored) != NULL && spec_has(spec, field) &&
            !(stored == own)) {
            char then[SPEC_TEXT_SIZE], now[SPEC_TEXT_SIZE], advice[64] = "the same --model";
            spec_text(field, stored, then);
            if (field->option) {
                snprintf(advice, sizeof advice, "--%s %s", field->name, then);
            }
            return err_set(
                ERR_INPUT,
                "%s/state.json: the checkpoint is of another model: its %s is %s, this run's is "
                "%s; give %s, or start anew with another --out",
                folder, field->stored, then, spec_text(field, own, now), advice);
        }
    }
    return 0;
}

void state_free(StateFile *file)
{
    cJSON_Delete(file->tree);
    *file = (StateFile){0};
}
