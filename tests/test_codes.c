/* With zero3 no rank has whole weights. The codes that ranks make of their parts, send each other
 * and turn, or make of weights that arrive, are those that one rank makes of the same masters. The
 * ranks are trainers side by side without a channel; what it would bring is copied here. */
#include "base/mem.h"
#include "support/gold.h"
#include "support/small_run.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS 3

typedef struct {
    Backend *backend;
    Trainer one, ranks[RANKS];
} Job;

static void open_one(Job *job, Trainer *t, const TrainerSetup *setup, const char *scales)
{
    TrainPlan plan;
    trainer_plan(setup, job->backend, &plan);
    assert_int_equal(trainer_open(t, setup, job->backend, &plan), 0);
    trainer_init_params(t, 7);
    if (scales != NULL) {
        assert_int_equal(trainer_scales_take(t, scales), 0);
    }
    trainer_make_codes(t);
}

/* Scales are what ranks agree on before: all take those of the one rank. */
static void job_open(Job *job, TrainerSetup setup)
{
    char *scales;
    open_one(job, &job->one, &setup, NULL);
    assert_int_equal(trainer_scales_text(&job->one, &scales), 0);
    setup.ddp = (DdpSetup){.kind = DDP_ZERO3, .ranks = RANKS, .wire = DT_F32};
    for (int r = 0; r < RANKS; r++) {
        setup.ddp.rank = r;
        open_one(job, &job->ranks[r], &setup, scales);
    }
    free(scales);
}

static void job_close(Job *job)
{
    for (int r = 0; r < RANKS; r++) {
        trainer_close(&job->ranks[r]);
    }
    trainer_close(&job->one);
}

/* The all-gather of a bucket, on one rank. */
static void arrive(Job *job, Trainer *t, int index)
{
    const Bucket *bucket = &t->ddp.buckets[index];
    Tensor room = ddp_weights(&t->ddp, bucket);
    size_t size = dtype_size(room.dtype), part = (size_t)bucket->part * size;
    char *to = room.data;
    for (int r = 0; r < RANKS; r++, to += part) {
        const Ddp *from = &job->ranks[r].ddp;
        const Bucket *same = &from->buckets[index];
        memcpy(to, (char *)from->own_weights[same->kind].data + (size_t)same->kind_own * size,
               part);
    }
    size_t own = (size_t)(bucket->kind_own + bucket->part) * size;
    memcpy(to, (char *)t->ddp.own_weights[bucket->kind].data + own,
           (size_t)(bucket->count - RANKS * bucket->part) * size);
}

static int64_t assert_same_codes(const Linear *found, const Linear *expected)
{
    int64_t count = tensor_count(expected->codes.rows);
    assert_int_equal(tensor_count(found->codes.rows), count);
    assert_memory_equal(found->codes.rows.data, expected->codes.rows.data, (size_t)count);
    assert_memory_equal(found->codes.columns.data, expected->codes.columns.data, (size_t)count);
    assert_memory_equal(found->codes.scale.data, expected->codes.scale.data,
                        SCALE_COUNT * sizeof(float));
    return count;
}

/* The maps of a layer, or the head, once their bucket is there. Returns how many codes were
 * compared. */
static int64_t compare_layer(Job *job, Trainer *t, int layer)
{
    int64_t i = model_coded_first(&t->model, layer), compared = 0;
    for (Linear *l; (l = model_coded(&t->model, &i)) != NULL;) {
        const Param *param = &t->model.params.rows[l->weight.first];
        if (param->layer != layer) {
            break;
        }
        arrive(job, t, ddp_bucket_of(&t->ddp, param->offset));
        t->ctx.layer = layer;
        trainer_unpack(t, param->offset);
        int64_t same = i - 1;
        compared += assert_same_codes(l, model_coded(&job->one.model, &same));
    }
    return compared;
}

static float largest_of(const Trainer *t, int64_t scale)
{
    const float *largest = t->quant.largest.data;
    return largest[scale * t->quant.largest.dim[1] + t->quant.part];
}

static void compare(TrainerSetup setup, bool turns)
{
    Job job = {.backend = ref_backend_open()};
    if (!turns) {
        job.backend->ops.quant_turn = NULL;
    }
    job_open(&job, setup);
    int64_t codes = model_quant_codes(&job.one.model) / 2;
    for (int64_t i = 0; i < model_quant_weights(&job.one.model); i++) {
        float most = 0;
        for (int r = 0; r < RANKS; r++) {
            float largest = largest_of(&job.ranks[r], i);
            most = largest > most ? largest : most;
        }
        assert_true(most == largest_of(&job.one, i)); /* 0 where products are plain */
    }
    for (int r = 0; r < RANKS; r++) {
        Trainer *t = &job.ranks[r];
        bool whole = setup.plain_products == 0 && turns;
        assert_true((t->ddp.kept[SENT_CODES] > 0) == turns);
        for (int i = 0; i < t->ddp.count && whole; i++) {
            bool outside = t->ddp.buckets[i].room >= ROOM_OUTSIDE;
            assert_true(outside || t->ddp.buckets[i].kind == SENT_CODES);
        }
        int64_t compared = 0;
        trainer_clear_desk(t);
        t->back = true;
        for (int layer = (int)setup.spec.layers - 1; layer >= -1; layer--) {
            compared += compare_layer(&job, t, layer);
        }
        assert_int_equal(compared, codes);
    }
    job_close(&job);
    job.backend->close(job.backend);
}

static void test_codes__of_parts_are_those_of_whole_weights(void **state)
{
    (void)state;
    for (int tied = 0; tied < 2; tied++) {
        TrainerSetup setup = small_setup(tied ? "gpt2-124m" : "llama-22m", 2, 1, 16);
        setup.dtype = DT_E4M3;
        setup.spec.ffn = 80;
        setup.spec.width = 64; /* so that something of every bucket is left that all keep */
        setup.spec.head_dim = 16;
        setup.spec.layers = 3;
        setup.spec.tied = tied != 0;
        compare(setup, true);
        compare(setup, false);
        /* A layer's bucket then has both kinds, and comes in bf16; the head alone, if there is one,
         * is sent as codes. */
        setup.plain_products = 1u << PRODUCT_DOWN;
        compare(setup, tied == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes__of_parts_are_those_of_whole_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
