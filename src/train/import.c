#include "train/import.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "exchange/fresh_folder.h"
#include "exchange/hf_export.h"
#include "exchange/weight_write.h"
#include "model/model.h"
#include "train/checkpoint_state.h"
#include "train/model_source.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP_NAME "step-0"

static int write_checkpoint(const char *folder, const ModelSource *source, const ParamTable *table)
{
    WeightLayout layout = {.foreign = false, .dtype = DT_F32};
    CheckpointDigests digests = {0, 0};
    TrainState state = {.seed = (uint64_t)source->config.seed,
                        .seq = source->spec.context,
                        .first_loss = NAN,
                        .best_val_loss = NAN};
    int code = io_make_folders(folder);
    code = code != 0 ? code
                     : weight_write(folder, source->weights, &source->spec, table, layout,
                                    &digests.model);
    if (code == 0) {
        cJSON *config = config_to_json(&source->config);
        code = state_write(folder, &state, &source->spec, config, digests);
        cJSON_Delete(config);
    }
    return code != 0 ? code : io_sync_folder(folder);
}

static int fill(const char *run, const ModelSource *source, const ParamTable *table)
{
    char *ckpt = io_join(run, "ckpt"), *step = io_join(ckpt, STEP_NAME);
    char *latest = io_join(ckpt, "latest");
    bool found;
    int64_t begin, end;
    int code = hf_bring_tokenizer(source->path, run, &found, &begin, &end);
    code = code != 0 ? code : write_checkpoint(step, source, table);
    if (code == 0 && symlink(STEP_NAME, latest) != 0) {
        code = err_set(ERR_FAILED, "%s: cannot make the link: %s", latest, strerror(errno));
    }
    code = code != 0 ? code : io_sync_folder(ckpt);
    free(latest);
    free(step);
    free(ckpt);
    return code;
}

/* What the run would be trained with says where the weights came from. */
static int write_run(ModelSource *source, const char *out)
{
    FreshFolder folder;
    Model shapes;
    model_init(&shapes, &source->spec, DT_F32, 1);
    int code = weight_folder_check(source->weights, &source->spec, &shapes.params);
    code = code != 0 ? code : config_set(&source->config, "init", source->path);
    code = code != 0 ? code : config_check(&source->config);
    code = code != 0 ? code : fresh_folder_open(&folder, out);
    if (code == 0) {
        code = fill(folder.partial, source, &shapes.params);
        if (code == 0) {
            code = fresh_folder_commit(&folder);
        } else {
            fresh_folder_abandon(&folder);
        }
    }
    if (code == 0) {
        log_info("%s: %lld parameters, as --model %s", out, (long long)shapes.params.parameters,
                 source->spec.name);
    }
    model_free(&shapes);
    return code;
}

int import_model(const char *path, const char *out)
{
    ModelSource source;
    int code = model_source_open(&source, path);
    if (code != 0) {
        return code;
    }
    code = weight_folder_spec(source.weights) != NULL
               ? write_run(&source, out)
               : err_set(ERR_INPUT,
                         "%s: is a run of pacer's already; use it as it is, or with train --init",
                         path);
    model_source_close(&source);
    return code;
}
