/* What zero1 relies on beside the forward pass: the model tells of every weight before it reads
 * it, and a weight is waited for with the bucket that holds it. */
#include "train/ddp.h"

#include "base/mem.h"
#include "support/gold.h"
#include "support/small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Weights that are no numbers until they are asked for. */
typedef struct {
    Trainer *trainer;
    float *values; /* (flat) */
    int64_t asked; /* elements */
    int layer;     /* of the parameters asked for last */
} Veil;

static void unveil(void *user, int64_t offset, int64_t count)
{
    Veil *veil = user;
    const ParamTable *table = &veil->trainer->model.params;
    int row = 0;
    while (row < table->count && table->rows[row].offset != offset) {
        row++;
    }
    assert_true(row < table->count && table->rows[row].count == count);
    /* No layer is asked for before its turn. */
    int layer = table->rows[row].layer;
    assert_true(layer == CTX_NO_LAYER || layer == veil->layer || layer == veil->layer + 1);
    veil->layer = layer == CTX_NO_LAYER ? veil->layer : layer;
    int64_t length = count + table->rows[row].spare_rows * (count / table->rows[row].dim[0]);
    memcpy((float *)veil->trainer->optimizer.param.data + offset, veil->values + offset,
           (size_t)length * sizeof *veil->values);
    veil->asked += count;
}

static void check_needs(const char *preset)
{
    TrainerSetup setup = small_setup(preset, 2, 1, 32);
    Backend *backend = cpu_backend_open(1);
    TrainPlan plan;
    Trainer t;
    trainer_plan(&setup, backend, &plan);
    assert_int_equal(trainer_open(&t, &setup, backend, &plan), 0);
    trainer_init_params(&t, 5);
    Tokens tokens = make_tokens(2, setup.seq, 2, setup.spec.vocab);
    HostBatch batch = {tokens.ids, tokens.targets, tokens.order, NULL};
    double expected = trainer_evaluate(&t, batch);

    float *flat = t.optimizer.param.data;
    size_t bytes = tensor_bytes(t.optimizer.param);
    Veil veil = {.trainer = &t, .values = mem_alloc(bytes), .layer = CTX_NO_LAYER};
    memcpy(veil.values, flat, bytes);
    for (int64_t i = 0; i < t.model.params.flat; i++) {
        flat[i] = NAN;
    }
    assert_true(isnan(trainer_evaluate(&t, batch)));
    t.ctx.need = unveil;
    t.ctx.need_user = &veil;
    double found = trainer_evaluate(&t, batch);
    assert_true(found == expected);
    assert_int_equal(veil.asked, t.model.params.parameters);
    assert_int_equal(veil.layer, setup.spec.layers - 1);

    free(veil.values);
    free_tokens(tokens);
    trainer_close(&t);
    backend->close(backend);
}

static void test_ddp__forward_asks_for_every_weight_before_it_reads_it(void **state)
{
    (void)state;
    check_needs("llama-22m");
    check_needs("gpt2-124m");
    check_needs("ttt-125m");
}

/* Tickets are given as ddp_gather does: the buckets that the forward pass needs first come
 * first. */
static void check_tickets(const char *preset, int ranks, int64_t bucket_bytes)
{
    TrainerSetup setup = small_setup(preset, 1, 1, 16);
    Model model;
    model_init(&model, &setup.spec, DT_F32, 1);
    const ParamTable *table = &model.params;
    DdpSetup how = {
        .kind = DDP_ZERO1, .ranks = ranks, .bucket_bytes = bucket_bytes, .wire = DT_F32};
    Ddp ddp;
    ddp_init(&ddp, &how, table);
    for (int row = 0; row < table->count; row++) {
        assert_int_equal(ddp_awaited(&ddp, table->rows[row].offset, table->rows[row].count), 0);
    }
    for (int i = 0; i < ddp.count; i++) {
        ddp.buckets[i].ticket = ddp.count - i;
    }
    int64_t before = 0;
    for (int row = 0; row < table->count; row++) {
        const Param *param = &table->rows[row];
        int64_t expected = 0;
        for (int i = 0; i < ddp.count; i++) { /* a parameter is in one bucket as a whole */
            const Bucket *bucket = &ddp.buckets[i];
            if (param->offset >= bucket->first && param->offset < bucket->first + bucket->count) {
                assert_true(param->offset + param->count <= bucket->first + bucket->count);
                expected = ddp.count - i;
            }
        }
        assert_true(expected > 0);
        assert_int_equal(ddp_awaited(&ddp, param->offset, param->count), expected);
        if (param->decay) { /* the way is that of the forward pass */
            assert_true(expected >= before);
            before = expected;
        }
    }
    assert_int_equal(ddp_awaited(&ddp, 0, table->flat), ddp.count);
    ddp.arrived = ddp.count;
    assert_int_equal(ddp_awaited(&ddp, 0, table->flat), 0);
    ddp_free(&ddp);
    model_free(&model);
}

static void test_ddp__weights_are_awaited_with_their_bucket(void **state)
{
    (void)state;
    static const char *const presets[] = {"llama-22m", "gpt2-124m", "ttt-125m"};
    for (int i = 0; i < 3; i++) {
        check_tickets(presets[i], 2, 0);
        check_tickets(presets[i], 3, 50000);
        check_tickets(presets[i], 5, 1 << 24);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ddp__forward_asks_for_every_weight_before_it_reads_it),
        cmocka_unit_test(test_ddp__weights_are_awaited_with_their_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
