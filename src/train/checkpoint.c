#include "train/checkpoint.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "tensor/safetensors.h"
#include "train/checkpoint_parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY "tmp-"
#define STEP_NAME_SIZE 32

/* Replaces the link ckpt/latest in one step. */
static int point_latest(const char *ckpt, const char *name)
{
    char *link = io_join(ckpt, "latest"), *fresh = io_join(ckpt, TEMPORARY "latest");
    unlink(fresh);
    int code = 0;
    if (symlink(name, fresh) != 0 || rename(fresh, link) != 0) {
        code = err_set(ERR_FAILED, "%s: cannot point it at %s: %s", link, name, strerror(errno));
    } else {
        code = io_sync_folder(ckpt);
    }
    free(link);
    free(fresh);
    return code;
}

static void name_step(int64_t step, char name[STEP_NAME_SIZE])
{
    snprintf(name, STEP_NAME_SIZE, "step-%lld", (long long)step);
}

int64_t checkpoint_step(const char *name)
{
    char again[STEP_NAME_SIZE];
    long long step;
    if (sscanf(name, "step-%lld", &step) != 1 || step < 0) {
        return -1;
    }
    name_step(step, again);
    return strcmp(name, again) == 0 ? step : -1;
}

/* Names that only a save or a removal gives, to be swept away when it did not end. */
static bool is_temporary(const char *name)
{
    static const char *const starts[] = {TEMPORARY, TEMPORARY "old-"};
    bool found = strcmp(name, TEMPORARY "latest") == 0;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        size_t size = strlen(starts[i]);
        found = found || (strncmp(name, starts[i], size) == 0 && checkpoint_step(name + size) >= 0);
    }
    return found;
}

/* Whether ckpt/name is a checkpoint of this run: a folder, no link to one, with a state. */
static bool is_checkpoint(const char *ckpt, const char *name)
{
    char *path = io_join(ckpt, name);
    struct stat info;
    bool found = checkpoint_step(name) >= 0 && lstat(path, &info) == 0 && S_ISDIR(info.st_mode) &&
                 io_has(path, "state.json");
    free(path);
    return found;
}

/* Takes a checkpoint away: renamed first, so that a half-removed folder is never taken for one. */
static int discard(const char *ckpt, const char *name)
{
    char *old = io_join(ckpt, name), *doomed = mem_format("%s/" TEMPORARY "old-%s", ckpt, name);
    int code = io_remove_tree(doomed);
    if (code == 0 && rename(old, doomed) != 0 && errno != ENOENT) {
        code = io_error(old, "remove");
    }
    code = code != 0 ? code : io_remove_tree(doomed);
    free(old);
    free(doomed);
    return code;
}

/* The checkpoints that are there. */
typedef struct {
    int64_t count, oldest, newest; /* the last two are steps */
} Kept;

static int look_at(const char *ckpt, Kept *kept)
{
    *kept = (Kept){0};
    DIR *folder = opendir(ckpt);
    if (folder == NULL) {
        return errno == ENOENT ? 0 : io_error(ckpt, "read");
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (is_checkpoint(ckpt, entry->d_name)) {
            int64_t step = checkpoint_step(entry->d_name);
            kept->oldest = kept->count == 0 || step < kept->oldest ? step : kept->oldest;
            kept->newest = step > kept->newest ? step : kept->newest;
            kept->count++;
        }
    }
    closedir(folder);
    return 0;
}

int checkpoint_prune(const char *run, int64_t newest, int64_t keep)
{
    char *ckpt = io_join(run, "ckpt");
    int code = 0;
    for (bool more = keep > 0; code == 0 && more;) {
        Kept kept;
        code = look_at(ckpt, &kept);
        more = code == 0 && kept.count > keep && kept.oldest < newest;
        if (more) {
            char name[STEP_NAME_SIZE];
            name_step(kept.oldest, name);
            code = discard(ckpt, name);
        }
    }
    free(ckpt);
    return code;
}

/* Gives the finished folder its name. One of that name (a run that was resumed from further
 * back) is exchanged with it in one step, so that latest never points at nothing; a file system
 * that cannot do that gets two. */
static int put_in_place(const char *ckpt, const char *name, const char *temporary)
{
    char *final = io_join(ckpt, name);
    int code = 0;
    struct stat info;
    if (lstat(final, &info) == 0) {
        if (!is_checkpoint(ckpt, name)) {
            code = err_set(ERR_FAILED, "%s: is in the way, and no checkpoint; move it", final);
            free(final);
            return code;
        }
        if (renameat2(AT_FDCWD, temporary, AT_FDCWD, final, RENAME_EXCHANGE) == 0) {
            code = io_remove_tree(temporary);
            free(final);
            return code;
        }
        code = discard(ckpt, name);
    }
    if (code == 0 && rename(temporary, final) != 0) {
        code =
            err_set(ERR_FAILED, "%s: cannot rename to %s: %s", temporary, final, strerror(errno));
    }
    free(final);
    return code;
}

char *checkpoint_temporary(const char *run, int64_t step)
{
    char name[STEP_NAME_SIZE];
    name_step(step, name);
    return mem_format("%s/ckpt/" TEMPORARY "%s", run, name);
}

int checkpoint_complete(const char *run, const char *temporary, const TrainState *state,
                        const ModelSpec *spec, const struct cJSON *config,
                        CheckpointDigests digests)
{
    char name[STEP_NAME_SIZE];
    name_step(state->step, name);
    char *ckpt = io_join(run, "ckpt");
    int code = state_write(temporary, state, spec, config, digests);
    code = code != 0 ? code : io_sync_folder(temporary);
    code = code != 0 ? code : put_in_place(ckpt, name, temporary);
    code = code != 0 ? code : io_sync_folder(ckpt);
    code = code != 0 ? code : point_latest(ckpt, name);
    free(ckpt);
    return code;
}

int checkpoint_newest(const char *run, char **out)
{
    char *ckpt = io_join(run, "ckpt"), *latest = io_join(ckpt, "latest");
    Kept kept = {0};
    *out = io_exists(latest) ? mem_strdup(latest) : NULL;
    int code = *out == NULL ? look_at(ckpt, &kept) : 0;
    if (kept.count > 0) {
        *out = mem_format("%s/step-%lld", ckpt, (long long)kept.newest);
        log_warn("%s leads to no checkpoint; taking %s, the newest there", latest, *out);
    }
    free(latest);
    free(ckpt);
    return code;
}

int checkpoint_find(const char *path, char **out)
{
    *out = io_has(path, "state.json") ? mem_strdup(path) : NULL;
    int code = *out == NULL ? checkpoint_newest(path, out) : 0;
    return code != 0 || *out != NULL || io_has(path, "run.json")
               ? code
               : err_set(ERR_INPUT, "%s: neither a run directory nor a checkpoint", path);
}

int checkpoint_check_file(const char *path, uint64_t expected)
{
    uint64_t digest;
    int code = safetensors_digest(path, &digest);
    if (code == 0 && digest != expected) {
        code = err_set(
            ERR_INPUT,
            "%s: does not match the digest in state.json: it was changed or damaged; take another "
            "checkpoint (RUN/ckpt/step-N)",
            path);
    }
    return code;
}

/* State of a run with another --state-dtype is taken: to bf16 it is rounded to nearest. */
static bool is_convertible(int which, DType dtype)
{
    return which != STATE_PARAMS && (dtype == DT_F32 || dtype == DT_BF16);
}

/* From one of f32 and bf16 to the other. */
static void convert(DType from, const void *values, int64_t count, void *to)
{
    for (int64_t i = 0; i < count; i++) {
        if (from == DT_BF16) {
            ((float *)to)[i] = f32_from_bf16(((const uint16_t *)values)[i]);
        } else {
            ((uint16_t *)to)[i] = bf16_from_f32(((const float *)values)[i]);
        }
    }
}

/* Copies a tensor into its place, in pieces through `room` of SAFETENSORS_PIECE, three times. */
static int read_row(Trainer *t, int which, const Param *row, const SafeTensor *stored, void *room)
{
    int64_t width = (int64_t)dtype_size(stored->dtype);
    int64_t piece = (int64_t)SAFETENSORS_PIECE / width;
    void *other = (char *)room + SAFETENSORS_PIECE;
    bool same = stored->dtype == trainer_state_dtype(t, which);
    int code = 0;
    for (int64_t at = 0; code == 0 && at < row->count; at += piece) {
        int64_t n = row->count - at < piece ? row->count - at : piece;
        code = safetensors_read(stored, (size_t)(at * width), room, (size_t)(n * width));
        if (code == 0 && !same) {
            convert(stored->dtype, room, n, other);
        }
        if (code == 0) {
            trainer_write_state(t, which, row->offset + at, n, same ? room : other);
        }
    }
    return code;
}

/* Copies each of the file's tensors into its place. */
static int read_tensors(const char *folder, const char *file, uint64_t digest, Trainer *t,
                        int which)
{
    const ParamTable *table = &t->model.params;
    char *path = io_join(folder, file);
    SafeFile safe = {0};
    void *room = mem_alloc(3 * (size_t)SAFETENSORS_PIECE);
    int code = digest != 0 ? checkpoint_check_file(path, digest) : 0;
    code = code != 0 ? code : safetensors_open(path, &safe);
    for (int r = 0; code == 0 && r < table->count; r++) {
        const Param *row = &table->rows[r];
        char name[TENSOR_NAME_SIZE];
        const SafeTensor *stored;
        if (!parts_name(t, which, row, name)) {
            continue;
        }
        DType dtype = trainer_state_dtype(t, which);
        const SafeTensor *found = safetensors_find(&safe, name);
        if (found != NULL && is_convertible(which, dtype) && is_convertible(which, found->dtype)) {
            dtype = found->dtype;
        }
        Tensor shape = parts_shape(t, which, row);
        shape.dtype = dtype;
        code = safetensors_require(&safe, name, shape, &stored);
        code = code != 0 ? code : read_row(t, which, row, stored, room);
    }
    safetensors_close(&safe);
    free(room);
    free(path);
    return code;
}

int checkpoint_load(const char *checkpoint, Trainer *t, TrainState *state)
{
    if (!io_has(checkpoint, "optimizer.safetensors")) {
        return err_set(ERR_INPUT,
                       "%s: has no optimizer state to go on from (an imported model has none): "
                       "start a new run with these weights by --init %s and another --out",
                       checkpoint, checkpoint);
    }
    StateFile file;
    int code = state_read(checkpoint, &file);
    code = code != 0 ? code : state_compare(checkpoint, &file, &t->setup.spec);
    *state = file.state;
    state->scales = NULL;
    if (code == 0) {
        code = read_tensors(checkpoint, "model.safetensors", file.digests.model, t, STATE_PARAMS);
    }
    if (code == 0 && t->model.quantised && file.state.scales != NULL) {
        code = trainer_scales_take(t, file.state.scales);
        code = code != 0 ? err_wrap(code, "%s/state.json", checkpoint) : 0;
    }
    for (int i = 0; code == 0 && i < optimizer_states(t->optimizer.kind); i++) {
        code = read_tensors(checkpoint, "optimizer.safetensors",
                            i == 0 ? file.digests.optimizer : 0, t, i);
    }
    state_free(&file);
    return code;
}

void checkpoint_clean(const char *run)
{
    char *ckpt = io_join(run, "ckpt");
    DIR *folder = opendir(ckpt);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (is_temporary(entry->d_name)) {
            char *path = io_join(ckpt, entry->d_name);
            if (io_remove_tree(path) != 0) {
                log_warn("%s", err_message());
            }
            free(path);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    free(ckpt);
}
