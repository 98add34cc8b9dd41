#include "train/model_source.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "exchange/weight_files.h"
#include "train/checkpoint_state.h"
#include "train/setup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* RUN of RUN/ckpt/step-N, also behind the link RUN/ckpt/latest; NULL: the checkpoint lies
 * elsewhere. */
static char *run_of(const char *checkpoint)
{
    char *whole = realpath(checkpoint, NULL), *run = NULL;
    if (whole == NULL && errno == ENOMEM) {
        mem_checked(NULL, strlen(checkpoint));
    }
    char *name = whole != NULL ? strrchr(whole, '/') : NULL;
    if (name != NULL && name - whole > 5 && memcmp(name - 5, "/ckpt", 5) == 0) {
        run = mem_strdup(whole);
        run[name - 5 - whole] = '\0';
    }
    free(whole);
    return run;
}

/* Options, dimensions and step of a checkpoint of pacer's own. */
static int describe_checkpoint(ModelSource *source, const char *state_path)
{
    StateRecord record;
    TrainState state;
    CheckpointDigests digests;
    int code = state_read_record(source->path, &record);
    code = code != 0 ? code : config_from_json(&source->config, record.config, state_path);
    state_record_free(&record);
    if (code == 0) {
        code = setup_spec(&source->config, weight_folder_vocab(source->weights), &source->spec);
        code = code != 0 ? err_wrap(code, "%s", state_path) : 0;
    }
    code = code != 0 ? code : state_read(source->path, &source->spec, &state, &digests);
    if (code == 0) {
        char *weights = io_join(source->path, WEIGHT_FILE);
        code = checkpoint_check_file(weights, digests.model);
        free(weights);
        source->step = state.step;
    }
    return code;
}

static int open_checkpoint(ModelSource *source)
{
    char *state_path = io_join(source->path, "state.json");
    config_init(&source->config, COMMAND_TRAIN);
    int code = weight_folder_open(source->path, &source->weights);
    code = code != 0 ? code : describe_checkpoint(source, state_path);
    free(state_path);
    return code;
}

static int open_foreign(ModelSource *source)
{
    int code = weight_folder_open(source->path, &source->weights);
    if (code == 0) {
        source->spec = *weight_folder_spec(source->weights);
        config_init(&source->config, COMMAND_TRAIN);
        code = setup_options(&source->spec, &source->config);
    }
    return code;
}

/* A Hugging Face folder has config.json, which neither a run nor a checkpoint has. */
static bool is_foreign(const char *path)
{
    static const char *const own[] = {"state.json", "ckpt/latest", "run.json"};
    char *config = io_join(path, "config.json");
    bool foreign = io_exists(config);
    free(config);
    for (int i = 0; foreign && i < 3; i++) {
        char *file = io_join(path, own[i]);
        foreign = !io_exists(file);
        free(file);
    }
    return foreign;
}

int model_source_open(ModelSource *source, const char *path)
{
    *source = (ModelSource){.step = -1};
    int code = 0;
    if (!io_is_folder(path)) {
        code = err_set(ERR_INPUT,
                       "%s: is no folder; give a run directory, a checkpoint in it, or a Hugging "
                       "Face folder",
                       path);
    } else if (is_foreign(path)) {
        source->path = mem_strdup(path);
        code = open_foreign(source);
    } else {
        code = checkpoint_find(path, &source->path);
        if (code != 0) {
            code = err_set(ERR_INPUT,
                           "%s: is neither a run directory, nor a checkpoint, nor a Hugging Face "
                           "folder (config.json)",
                           path);
        } else if (source->path == NULL) {
            code = err_set(ERR_INPUT,
                           "%s: the run has no checkpoint yet: wait for its end, where one is "
                           "written, or train with --save-every N",
                           path);
        } else {
            source->run = run_of(source->path);
            code = open_checkpoint(source);
        }
    }
    if (code != 0) {
        model_source_close(source);
    }
    return code;
}

void model_source_close(ModelSource *source)
{
    weight_folder_close(source->weights);
    config_free(&source->config);
    free(source->path);
    free(source->run);
    *source = (ModelSource){0};
}

const char *model_source_tokenizer(const ModelSource *source)
{
    return source->run != NULL ? source->run : source->path;
}
