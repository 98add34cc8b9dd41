#include "support/saved_run.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "support/small_run.h"
#include "train/checkpoint.h"
#include "train/setup.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>

static void fill(Trainer *t)
{
    const ParamTable *table = &t->model.params;
    for (int r = 0; r < table->count; r++) {
        const Param *row = &table->rows[r];
        float *values = mem_alloc((size_t)row->count * sizeof *values);
        for (int64_t i = 0; i < row->count; i++) {
            uint64_t draw = rng_below(3, (uint64_t)r, (uint64_t)i, 2001);
            values[i] = (float)((double)draw - 1000.0) * (row->rank == 1 ? 1e-3f : 2e-4f);
        }
        trainer_write_state(t, STATE_PARAMS, row->offset, row->count, values);
        free(values);
    }
}

void saved_run_make(SavedRun *saved, const char *dir, const char *preset, int64_t vocab)
{
    TrainerSetup setup = small_setup(preset, 1, 1, 40);
    setup.spec.vocab = vocab;
    saved->backend = cpu_backend_open(1);
    TrainPlan plan;
    trainer_plan(&setup, saved->backend, &plan);
    int code = trainer_open(&saved->trainer, &setup, saved->backend, &plan);
    fill(&saved->trainer);
    Config cfg;
    config_init(&cfg, COMMAND_TRAIN);
    code = code != 0 ? code : setup_options(&setup.spec, &cfg);
    code = code != 0 ? code : config_check(&cfg);
    cJSON *options = config_to_json(&cfg);
    TrainState state = {.step = SAVED_STEP, .first_loss = NAN, .best_val_loss = NAN};
    code = code != 0 ? code : io_make_folders(dir);
    code = code != 0 ? code : checkpoint_save(dir, &saved->trainer, &state, options, 0);
    PACER_ASSERT(code == 0, "%s", err_message());
    cJSON_Delete(options);
    config_free(&cfg);
}

void saved_run_free(SavedRun *saved)
{
    trainer_close(&saved->trainer);
    saved->backend->close(saved->backend);
}
