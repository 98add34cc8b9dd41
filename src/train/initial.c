#include "train/initial.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/model_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether two models have the same parameters and compute the same with them. The context counts
 * only where positions are parameters. */
static int compare(const char *path, const ModelSpec *theirs, const ModelSpec *own)
{
    if (theirs->names != own->names) {
        return err_set(ERR_INPUT,
                       "--init %s: has a model of the kind of %s, this run of %s: give --model %s",
                       path, theirs->name, own->name, theirs->name);
    }
    for (const SpecField *field = spec_fields; field->name != NULL; field++) {
        double there = spec_value(theirs, field), here = spec_value(own, field);
        bool counts =
            field->option && (strcmp(field->name, "context") != 0 || own->learned_positions);
        if (counts && there != here) {
            char then[SPEC_TEXT_SIZE], now[SPEC_TEXT_SIZE];
            spec_text(field, there, then);
            return err_set(ERR_INPUT, "--init %s: its %s is %s, this run's is %s: give --%s %s",
                           path, field->name, then, spec_text(field, here, now), field->name, then);
        }
    }
    return 0;
}

/* One row of the table after the other; what lies between and behind them stays zero. */
static int copy(Trainer *t, const WeightFolder *weights)
{
    const ParamTable *table = &t->model.params;
    int64_t longest = 0;
    PACER_ASSERT(t->adamw.param.dtype == DT_F32, "master weights are %s",
                 dtype_name(t->adamw.param.dtype));
    for (int r = 0; r < table->count; r++) {
        longest = table->rows[r].count > longest ? table->rows[r].count : longest;
    }
    float *values = mem_try_aligned((size_t)longest * sizeof *values);
    int code =
        values != NULL ? 0 : err_set(ERR_MEMORY, "--init: no memory to read weights through");
    for (int r = 0; code == 0 && r < table->count; r++) {
        code = weight_folder_read(weights, table, r, values);
        if (code == 0) {
            trainer_write_state(t, STATE_PARAMS, table->rows[r].offset, table->rows[r].count,
                                values);
        }
    }
    free(values);
    return code;
}

int initial_weights(Trainer *t, const char *path)
{
    ModelSource source;
    int code = model_source_open(&source, path);
    if (code != 0) {
        return err_wrap(code, "--init");
    }
    code = compare(path, &source.spec, &t->setup.spec);
    if (code == 0) {
        code = weight_folder_check(source.weights, &t->setup.spec, &t->model.params);
        code = code != 0 ? err_wrap(code, "--init") : copy(t, source.weights);
    }
    if (code == 0) {
        log_info("Starting from the weights of %s", source.path);
    }
    model_source_close(&source);
    return code;
}
