#include "support/gold.h"

#include "base/err.h"
#include "base/mem.h"
#include "support/safe_values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(int code)
{
    if (code != 0) {
        fprintf(stderr, "%s\n", err_message());
        abort();
    }
}

static double number(const Gold *gold, const char *key)
{
    const char *text = safetensors_metadata(&gold->file, key);
    if (text == NULL) {
        fprintf(stderr, "%s: no %s in the metadata\n", gold->file.path, key);
        abort();
    }
    return atof(text);
}

static int32_t *integers(const Gold *gold, const char *name, int64_t count)
{
    const SafeTensor *found;
    require(safetensors_require(&gold->file, name, tensor_1d(NULL, DT_I32, count), &found));
    return safe_values(found);
}

void gold_sort_order(const int32_t *ids, int64_t n, int32_t *order)
{
    int64_t used = 0;
    for (int32_t id = 0; used < n; id++) {
        for (int64_t i = 0; i < n; i++) {
            if (ids[i] == id) {
                order[used++] = (int32_t)i;
            }
        }
    }
}

void gold_open(Gold *gold, const char *name)
{
    memset(gold, 0, sizeof *gold);
    char *path = mem_format("%s/%s.safetensors", PACER_GOLD_DIR, name);
    require(safetensors_open(path, &gold->file));
    free(path);
    const char *kind = safetensors_metadata(&gold->file, "kind");
    bool ttt = strcmp(kind, "ttt") == 0;
    const char *preset = ttt ? "ttt-125m" : strcmp(kind, "gpt2") == 0 ? "gpt2-124m" : "llama-22m";
    SpecOverrides o = {.layers = (int64_t)number(gold, "layers"),
                       .width = (int64_t)number(gold, "width"),
                       .heads = (int64_t)number(gold, "heads"),
                       .kv_heads = (int64_t)number(gold, "kv_heads"),
                       .ffn = (int64_t)number(gold, "ffn"),
                       .vocab = (int64_t)number(gold, "vocab"),
                       .context = (int64_t)number(gold, "context"),
                       .tied = 1 + (int)number(gold, "tied")};
    if (ttt) {
        o.ttt = (int)number(gold, "ttt");
        o.mini = (int64_t)number(gold, "mini");
        o.ttt_rate = number(gold, "rate");
    }
    TrainerSetup *s = &gold->setup;
    require(spec_resolve(preset, &o, 0, &s->spec));
    s->attention = ATTENTION_FLASH;
    s->batch = (int64_t)number(gold, "batch");
    s->seq = (int64_t)number(gold, "seq");
    s->accum = 1;
    s->optimizer = (OptimizerSettings){.beta1 = number(gold, "beta1"),
                                       .beta2 = number(gold, "beta2"),
                                       .eps = number(gold, "eps"),
                                       .weight_decay = number(gold, "weight_decay"),
                                       .clip = number(gold, "clip")};
    gold->rate = number(gold, "lr");
    int64_t rows = s->batch * s->seq;
    gold->ids = integers(gold, "ids", rows);
    gold->targets = integers(gold, "targets", rows);
    gold->order = mem_alloc((size_t)rows * 4);
    gold_sort_order(gold->ids, rows, gold->order);
}

void gold_close(Gold *gold)
{
    safetensors_close(&gold->file);
    free(gold->ids);
    free(gold->targets);
    free(gold->order);
}

double *gold_values(const Gold *gold, const char *name, int64_t *count)
{
    const SafeTensor *t = safetensors_find(&gold->file, name);
    if (t == NULL) {
        fprintf(stderr, "%s: no tensor %s\n", gold->file.path, name);
        abort();
    }
    *count = (int64_t)(t->bytes / dtype_size(t->dtype));
    double *values = safe_values(t);
    if (t->dtype == DT_F64) {
        return values;
    }
    float *narrow = (float *)(void *)values;
    values = mem_alloc((size_t)*count * sizeof *values);
    for (int64_t i = 0; i < *count; i++) {
        values[i] = narrow[i];
    }
    free(narrow);
    return values;
}

void gold_trainer(const Gold *gold, const TrainerSetup *setup, Backend *backend, Trainer *trainer)
{
    TrainPlan plan;
    trainer_plan(setup, backend, &plan);
    require(trainer_open(trainer, setup, backend, &plan));
    const ParamTable *table = &trainer->model.params;
    bool wide = dtype_accumulate(setup->dtype) == DT_F64;
    void *flat = mem_zalloc((size_t)table->flat, wide ? 8 : 4);
    for (int r = 0; r < table->count; r++) {
        int64_t count;
        double *values = gold_values(gold, table->rows[r].name, &count);
        if (count != table->rows[r].count) {
            fprintf(stderr, "%s: %lld values stored, %lld in the model\n", table->rows[r].name,
                    (long long)count, (long long)table->rows[r].count);
            abort();
        }
        for (int64_t i = 0; i < count; i++) {
            if (wide) {
                ((double *)flat)[table->rows[r].offset + i] = values[i];
            } else {
                ((float *)flat)[table->rows[r].offset + i] = (float)values[i];
            }
        }
        free(values);
    }
    trainer_write_state(trainer, STATE_PARAMS, 0, table->flat, flat);
    free(flat);
}

HostBatch gold_batch(const Gold *gold, int64_t first_sequence)
{
    int64_t at = first_sequence * gold->setup.seq;
    return (HostBatch){gold->ids + at, gold->targets + at, gold->order, NULL};
}

double *gold_download(Backend *backend, Tensor t)
{
    int64_t n = tensor_count(t);
    void *raw = mem_alloc(tensor_bytes(t));
    backend->download(backend, raw, t.data, tensor_bytes(t));
    double *values = mem_alloc((size_t)n * sizeof *values);
    for (int64_t i = 0; i < n; i++) {
        values[i] = t.dtype == DT_F64    ? ((double *)raw)[i]
                    : t.dtype == DT_BF16 ? f32_from_bf16(((uint16_t *)raw)[i])
                                         : ((float *)raw)[i];
    }
    free(raw);
    return values;
}

double gold_relative_error(const double *a, const double *b, int64_t n)
{
    double worst = 0, squares = 0;
    for (int64_t i = 0; i < n; i++) {
        double error = fabs(a[i] - b[i]);
        squares += b[i] * b[i];
        if (!(error <= worst)) {
            worst = isfinite(error) ? error : INFINITY;
        }
    }
    return worst / (sqrt(squares / (double)n) + 1e-300);
}
