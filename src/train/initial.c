#include "train/initial.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/model_source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether two models have the same parameters and compute the same with them. The context counts only where positions
 * are parameters. */
static int compare(const char *path, const ModelSpec *theirs, const ModelSpec *own)
{
    if (theirs->names != own->names) {
        return err_set(ERR_INPUT,
                       "--init %s: has a model of the kind of %s, this run of %s: give --model %s",
                       path, theirs->name, own->name, theirs->name);
    }
    if (theirs->tied != own->tied) {
        return err_set(ERR_INPUT, "--init %s: its head %s the embedding's weights: give --tied %s",
                       path, theirs->tied ? "uses" : "does not use", theirs->tied ? "on" : "off");
    }
    if (theirs->mixer == MIXER_TTT && theirs->ttt != own->ttt) {
        return err_set(ERR_INPUT,
                       "--init %s: its TTT layers have the other inner model: give --ttt %s", path,
                       theirs->ttt == TTT_MLP ? "mlp" : "linear");
    }
    bool ttt = own->mixer == MIXER_TTT;
    const struct {
        const char *option;
        double theirs, own;
    } fields[] = {
        {"layers", (double)theirs->layers, (double)own->layers},
        {"d-model", (double)theirs->width, (double)own->width},
        {"heads", (double)theirs->heads, (double)own->heads},
        {"kv-heads", (double)theirs->kv_heads, (double)own->kv_heads},
        {"ffn", (double)theirs->ffn, (double)own->ffn},
        {"vocab", (double)theirs->vocab, (double)own->vocab},
        {"context", own->learned_positions ? (double)theirs->context : 0,
         own->learned_positions ? (double)own->context : 0},
        {"norm-eps", theirs->norm_eps, own->norm_eps},
        {"rope-base", theirs->rope_base, own->rope_base},
        {"mini-batch", ttt ? (double)theirs->mini : 0, ttt ? (double)own->mini : 0},
        {"ttt-lr", ttt ? theirs->ttt_rate : 0, ttt ? own->ttt_rate : 0},
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (fields[i].theirs != fields[i].own) {
            return err_set(ERR_INPUT,
                           "--init %s: its %s is %.15g, this run's is %.15g: give --%s %.15g", path,
                           fields[i].option, fields[i].theirs, fields[i].own, fields[i].option,
                           fields[i].theirs);
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
