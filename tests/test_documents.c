/* Documents that are kept apart: where they begin, and that a batch in which several of them stand
 * gives the loss and the gradients of each by itself. */
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/dataset.h"
#include "support/data_files.h"
#include "support/gold.h"
#include "support/says.h"
#include "support/small_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define END 7
#define BATCH 3
#define SEQ 40
#define ROWS (BATCH * SEQ)

static void test_documents__begin_with_an_end(void **state)
{
    (void)state;
    const int32_t tokens[] = {5, 9, 9, 1, 2, 9, 9, 1, 1, 9, 4, 9};
    const int32_t wanted[] = {0, 1, 2, 2, 2, 5, 0, 0, 0, 3, 3, 5};
    int32_t starts[12];
    document_starts(tokens, 12, 6, 9, starts);
    assert_memory_equal(starts, wanted, sizeof wanted);
    document_starts(tokens, 12, 1, 9, starts);
    for (int i = 0; i < 12; i++) {
        assert_int_equal(starts[i], 0);
    }
}

static void test_documents__of_data(void **state)
{
    (void)state;
    Dataset data;
    assert_int_equal(dataset_open(&data, "builtin:bytes", (DatasetOptions){0}), 0);
    assert_false(data.train.separate);
    assert_int_equal(dataset_separate(&data, "<|nothing|>", NULL), ERR_INPUT);
    assert_says("<|nothing|>");
    assert_int_equal(dataset_separate(&data, NULL, NULL), 0);
    assert_true(data.train.separate && data.validation.separate);
    assert_int_equal(data.train.end, 256);
    Loader loader;
    Prefetch *prefetch;
    Batch batch;
    assert_int_equal(loader_init(&loader, &data.train, 2000, 257, 1), 0);
    PrefetchOptions options = {.batch = 2, .ranks = 1};
    assert_int_equal(prefetch_open(&prefetch, &loader, options), 0);
    int documents = 0;
    for (int step = 0; step < PREFETCH_DEPTH + 2; step++) {
        assert_int_equal(prefetch_next(prefetch, &batch, NULL), 0);
        for (int64_t row = 0; row < 4000; row++) {
            int64_t t = row % 2000, start = batch.starts[row];
            bool begins = t == 0 || batch.tokens[row] == 256;
            assert_true(begins ? start == t : start == batch.starts[row - 1]);
            documents += begins;
        }
    }
    assert_true(documents > 4 * (PREFETCH_DEPTH + 2));
    prefetch_close(prefetch);
    dataset_close(&data);

    assert_int_equal(dataset_open(&data, "builtin:random", (DatasetOptions){.vocab = 50}), 0);
    assert_int_equal(dataset_separate(&data, NULL, NULL), ERR_INPUT);
    assert_says("builtin:random: comes without a tokenizer");
    assert_false(data.train.separate);
    dataset_close(&data);
}

/* Data of others, by a tokenizer that the caller has. */
static void test_documents__of_data_without_tokenizer(void **state)
{
    (void)state;
    Tokenizer *bytes;
    Dataset data;
    char *folder = data_files_folder(), *file = io_join(folder, "train.bin");
    assert_int_equal(tokenizer_open("bytes", &bytes), 0);
    for (uint32_t count = 200; count <= 300; count += 100) { /* 256 is in the second alone */
        data_files_raw(file, 0, count);
        assert_int_equal(dataset_open(&data, folder, (DatasetOptions){0}), 0);
        assert_int_equal(dataset_separate(&data, NULL, NULL), ERR_INPUT);
        assert_says("comes without a tokenizer");
        assert_int_equal(dataset_separate(&data, NULL, bytes), count > 256 ? 0 : ERR_INPUT);
        assert_int_equal(data.train.separate, count > 256);
        if (count <= 256) {
            assert_says("no document ends with <|endoftext|> (token 256)");
        }
        dataset_close(&data);
    }
    tokenizer_free(bytes);
    data_files_remove(folder);
    free(file);
}

/* Tokens in documents of these lengths, their ends included: some are an end alone, and some go on
 * in the next sequence. */
static Tokens make_documents(void)
{
    static const int lengths[] = {1, 1, 5, 17, 2, 30, 1, 41, 3, 1, 12, 100};
    Tokens t = make_tokens(BATCH, SEQ, BATCH, 101);
    int document = 0, left = lengths[0];
    for (int64_t i = 0; i < ROWS; i++) {
        t.ids[i] = t.ids[i] == END ? END + 1 : t.ids[i];
        if (left-- == 0) {
            t.ids[i] = END;
            left = lengths[++document] - 1;
        }
    }
    gold_sort_order(t.ids, ROWS, t.order);
    return t;
}

/* Weights far from 0, so that every path has weight: the same for every batch and seq. */
static void set_weights(Trainer *t)
{
    const ParamTable *table = &t->model.params;
    for (int r = 0; r < table->count; r++) {
        const Param *row = &table->rows[r];
        float *normals = mem_alloc((size_t)row->count * sizeof *normals);
        void *host = mem_alloc((size_t)row->count * sizeof(double));
        rng_normals(3, (uint64_t)r, 0, (uint64_t)row->count, normals);
        for (int64_t i = 0; i < row->count; i++) {
            double value = (row->init == INIT_ONE ? 1 : 0) + 0.15 * normals[i];
            if (t->optimizer.param.dtype == DT_F64) {
                ((double *)host)[i] = value;
            } else {
                ((float *)host)[i] = (float)value;
            }
        }
        trainer_write_state(t, STATE_PARAMS, row->offset, row->count, host);
        free(host);
        free(normals);
    }
}

/* Sum of the tokens' losses, and of their gradients, of one micro-step. */
typedef struct {
    double loss, *grad;
    int64_t count;
} Sums;

static Sums sums_of(TrainerSetup setup, Backend *backend, HostBatch batch)
{
    TrainPlan plan;
    Trainer t;
    trainer_plan(&setup, backend, &plan);
    assert_int_equal(trainer_open(&t, &setup, backend, &plan), 0);
    set_weights(&t);
    double rows = (double)(setup.batch * setup.seq);
    trainer_micro_step(&t, batch, 0);
    double *loss = gold_download(backend, t.loss);
    Sums sums = {.loss = loss[0] * rows, .count = t.model.params.flat};
    sums.grad = gold_download(backend, t.optimizer.grad);
    for (int64_t i = 0; i < sums.count; i++) {
        sums.grad[i] *= rows;
    }
    double evaluated = trainer_evaluate(&t, batch);
    assert_true(fabs(evaluated - loss[0]) <= 1e-6 * loss[0]);
    assert_int_equal(trainer_peak_bytes(&t), plan.blocks);
    free(loss);
    trainer_close(&t);
    return sums;
}

static double norm_of(const double *a, const double *b, int64_t count)
{
    double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        double value = a[i] - (b != NULL ? b[i] : 0);
        squares += value * value;
    }
    return sqrt(squares);
}

static void packed_and_apart(TrainerSetup setup, Backend *backend, double bound)
{
    Tokens tokens = make_documents();
    int32_t starts[ROWS];
    document_starts(tokens.ids, ROWS, SEQ, END, starts);
    setup.separate = true;
    Sums packed =
        sums_of(setup, backend, (HostBatch){tokens.ids, tokens.targets, tokens.order, starts});
    setup.separate = false;
    Sums joined =
        sums_of(setup, backend, (HostBatch){tokens.ids, tokens.targets, tokens.order, NULL});
    Sums apart = {.count = packed.count,
                  .grad = mem_zalloc((size_t)packed.count, sizeof *apart.grad)};
    int documents = 0;
    for (int64_t first = 0, last; first < ROWS; first = last, documents++) {
        last = first + 1;
        while (last % SEQ != 0 && tokens.ids[last] != END) {
            last++;
        }
        int32_t order[SEQ];
        gold_sort_order(tokens.ids + first, last - first, order);
        setup.batch = 1;
        setup.seq = last - first;
        Sums one = sums_of(setup, backend,
                           (HostBatch){tokens.ids + first, tokens.targets + first, order, NULL});
        apart.loss += one.loss;
        for (int64_t i = 0; i < apart.count; i++) {
            apart.grad[i] += one.grad[i];
        }
        free(one.grad);
    }
    assert_in_range(documents, 12, 20);
    double size = norm_of(apart.grad, NULL, apart.count);
    double error = norm_of(packed.grad, apart.grad, apart.count);
    if (!(error <= bound * size && fabs(packed.loss - apart.loss) <= bound * apart.loss)) {
        fail_msg("%s: gradients differ by %.3g of %.3g, losses %.12g and %.12g", setup.spec.name,
                 error, size, packed.loss, apart.loss);
    }
    /* Joined documents are something else: the comparison is not empty. */
    assert_true(norm_of(joined.grad, apart.grad, apart.count) > 1e-2 * size);
    assert_true(fabs(joined.loss - apart.loss) > 1e-4 * apart.loss);
    free(packed.grad);
    free(joined.grad);
    free(apart.grad);
    free_tokens(tokens);
}

static void test_documents__packed_equal_those_apart(void **state)
{
    (void)state;
    static const char *const presets[] = {"gpt2-124m", "llama-22m"};
    for (int p = 0; p < 2; p++) {
        for (int kind = 0; kind < 2; kind++) {
            TrainerSetup setup = small_setup(presets[p], BATCH, 1, SEQ);
            setup.attention = kind == 0 ? ATTENTION_NAIVE : ATTENTION_FLASH;
            setup.keep = kind == 0 ? KEEP_INPUTS : KEEP_ALL;
            Backend *backend = cpu_backend_open(2);
            packed_and_apart(setup, backend, 1e-6);
            backend->close(backend);
            setup.dtype = DT_F64;
            backend = ref_backend_open();
            packed_and_apart(setup, backend, 1e-12);
            backend->close(backend);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documents__begin_with_an_end),
        cmocka_unit_test(test_documents__of_data),
        cmocka_unit_test(test_documents__of_data_without_tokenizer),
        cmocka_unit_test(test_documents__packed_equal_those_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
