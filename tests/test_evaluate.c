/* Losses of windows and documents against sums over the logits of single passes. */
#include "base/err.h"
#include "base/mem.h"
#include "support/gold.h"
#include "support/own_folder.h"
#include "use/evaluate_inputs.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CONTEXT 48
#define VOCAB 263
#define END 256

typedef struct {
    Backend *backend;
    Trainer trainer;
} Fixture;

static void open_fixture_in(Fixture *f, const char *preset, int ttt, Backend *backend, DType dtype)
{
    TrainerSetup setup = {.batch = 1, .seq = CONTEXT, .accum = 1, .dtype = dtype};
    setup.attention = ATTENTION_NAIVE;
    SpecOverrides o = {.layers = 2,
                       .width = 36,
                       .heads = 3,
                       .ffn = 40,
                       .vocab = VOCAB,
                       .context = CONTEXT,
                       .ttt = ttt};
    o.mini = ttt > 0 ? 8 : 0;
    assert_int_equal(spec_resolve(preset, &o, 0, &setup.spec), 0);
    TrainPlan plan;
    f->backend = backend;
    trainer_plan(&setup, backend, &plan);
    assert_int_equal(trainer_open(&f->trainer, &setup, backend, &plan), 0);
    trainer_init_params(&f->trainer, 5);
    /* Weights as they are initialised predict about the same of everything: larger ones do not. */
    const ParamTable *table = &f->trainer.model.params;
    for (int row = 0; row < table->count; row++) {
        const Param *param = &table->rows[row];
        float *values = mem_alloc((size_t)param->count * sizeof *values);
        params_init_values(table, row, 5, 0, param->count, values);
        for (int64_t i = 0; param->offset < table->decayed && i < param->count; i++) {
            values[i] *= 8;
        }
        trainer_write_state(&f->trainer, STATE_PARAMS, param->offset, param->count, values);
        free(values);
    }
}

static void open_fixture(Fixture *f, const char *preset, int ttt, Backend *backend)
{
    open_fixture_in(f, preset, ttt, backend, DT_F32);
}

static void close_fixture(Fixture *f)
{
    trainer_close(&f->trainer);
    f->backend->close(f->backend);
}

static EvaluatorSetup setup_of(Fixture *f, int64_t batch, int64_t seq)
{
    return (EvaluatorSetup){
        .model = &f->trainer.model, .backend = f->backend, .batch = batch, .seq = seq};
}

/* Logits (count, VOCAB) of the tokens that follow, by a pass of its own, a row at a time. */
static void logits_of_pass(Fixture *f, const int32_t *tokens, int64_t count, double *out)
{
    Trainer *t = &f->trainer;
    Ctx *c = &t->ctx;
    f->backend->upload(f->backend, t->ids.data, tokens, (size_t)count * sizeof *tokens);
    model_forward(c, &t->model,
                  (DeviceBatch){.batch = 1, .seq = count, .ids = tensor_rows(t->ids, 0, count)},
                  KEEP_NOTHING);
    for (int64_t i = 0; i < count; i++, out += VOCAB) {
        ArenaMark mark = arena_mark(&c->scratch);
        Tensor logits = ctx_scratch(c, MEM_HEAD, t->model.act, 1, t->model.vocab_rows);
        model_logits(c, &t->model, i, logits);
        double *values = gold_download(f->backend, logits);
        memcpy(out, values, VOCAB * sizeof *out);
        free(values);
        arena_release(&c->scratch, mark);
    }
    model_end(c, &t->model);
}

/* -log p(tokens[i + 1] | tokens[0..i]) for i in [0, count), with a softmax in double. */
static void losses_of_logits(Fixture *f, const int32_t *tokens, int64_t count, double *losses)
{
    double logits[CONTEXT][VOCAB];
    logits_of_pass(f, tokens, count, logits[0]);
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int64_t k = 0; k < VOCAB; k++) {
            sum += exp(logits[i][k] - logits[i][tokens[i + 1]]);
        }
        losses[i] = log(sum);
    }
}

static void assert_near(double got, double want, double relative)
{
    if (!(fabs(got - want) <= relative * fabs(want))) {
        fail_msg("%.12g instead of %.12g", got, want);
    }
}

#define WINDOWS 11

/* Windows of odd lengths, some of which predict only their end. */
static void make_windows(EvalWindow *windows, int32_t (*tokens)[CONTEXT + 1])
{
    static const int64_t counts[WINDOWS] = {5, 48, 1, 37, 16, 17, 48, 2, 31, 48, 9};
    static const int64_t skips[WINDOWS] = {0, 24, 0, 36, 0, 3, 0, 1, 0, 47, 8};
    for (int w = 0; w < WINDOWS; w++) {
        for (int i = 0; i <= CONTEXT; i++) {
            tokens[w][i] = (w * 31 + i * 17 + i * i) % VOCAB;
        }
        windows[w] = (EvalWindow){.tokens = tokens[w], .count = counts[w], .skip = skips[w]};
    }
}

static void compare(const char *preset, int ttt, Backend *backend)
{
    Fixture f;
    open_fixture(&f, preset, ttt, backend);
    int32_t tokens[WINDOWS][CONTEXT + 1];
    EvalWindow windows[WINDOWS];
    make_windows(windows, tokens);
    double want[WINDOWS], first[WINDOWS];
    for (int w = 0; w < WINDOWS; w++) {
        double losses[CONTEXT];
        losses_of_logits(&f, tokens[w], windows[w].count, losses);
        want[w] = 0;
        for (int64_t i = windows[w].skip; i < windows[w].count; i++) {
            want[w] += losses[i];
        }
    }
    static const int64_t batches[] = {4, 1, 3, 16};
    const size_t count = sizeof batches / sizeof batches[0];
    for (size_t b = 0; b < 2 * count; b++) {
        backend->few_shapes = b >= count; /* with padding */
        EvaluatorSetup setup = setup_of(&f, batches[b % count], CONTEXT);
        Evaluator e;
        assert_int_equal(evaluator_open(&e, &setup), 0);
        make_windows(windows, tokens);
        assert_int_equal(evaluator_run(&e, windows, WINDOWS), 0);
        for (int w = 0; w < WINDOWS; w++) {
            assert_true(windows[w].done);
            assert_near(windows[w].nats, want[w], 1e-5);
            assert_true(b == 0 || fabs(windows[w].nats - first[w]) <= 1e-6 * first[w]);
            first[w] = windows[w].nats;
        }
        evaluator_close(&e);
    }
    close_fixture(&f);
}

static void test_evaluate__losses_are_those_of_the_logits(void **state)
{
    (void)state;
    compare("llama-22m", 0, cpu_backend_open(2));
    compare("gpt2-124m", 0, cpu_backend_open(1));
    compare("llama-22m", 0, ref_backend_open());
}

/* On a backend as a GPU is: few shapes, a padded vocabulary, and logits in several chunks. */
static void compare_logits(const char *preset, int ttt, Backend *backend, DType dtype)
{
    Fixture f;
    Evaluator e;
    int32_t tokens[WINDOWS * CONTEXT];
    backend->few_shapes = true;
    backend->row_align = 64;
    backend->head_bytes = 1;
    open_fixture_in(&f, preset, ttt, backend, dtype);
    assert_int_equal(f.trainer.model.vocab_rows, 320);
    for (int i = 0; i < WINDOWS * CONTEXT; i++) {
        tokens[i] = (i / CONTEXT * 31 + i % CONTEXT * 17 + i % CONTEXT * (i % CONTEXT)) % VOCAB;
    }
    EvaluatorSetup setup = setup_of(&f, 16, CONTEXT);
    float *logits = mem_alloc(sizeof(float) * WINDOWS * CONTEXT * VOCAB);
    assert_int_equal(evaluator_open(&e, &setup), 0);
    assert_int_equal(evaluator_logits(&e, tokens, WINDOWS, logits), 0);
    double want[CONTEXT][VOCAB], largest = 0;
    for (int w = 0; w < WINDOWS; w++) {
        logits_of_pass(&f, tokens + w * CONTEXT, CONTEXT, want[0]);
        for (int i = 0; i < CONTEXT * VOCAB; i++) {
            double got = logits[w * CONTEXT * VOCAB + i], expected = want[i / VOCAB][i % VOCAB];
            largest = fabs(expected) > largest ? fabs(expected) : largest;
            assert_true(fabs(got - expected) <= (dtype == DT_F32 ? 1e-4 : 0.02) * (1 + largest));
        }
    }
    assert_true(largest > 1);
    free(logits);
    evaluator_close(&e);
    close_fixture(&f);
}

static void test_evaluate__logits_of_a_batch_are_those_of_its_texts(void **state)
{
    (void)state;
    compare_logits("gpt2-124m", 0, cpu_backend_open(2), DT_F32);
    compare_logits("llama-22m", 0, ref_backend_open(), DT_BF16);
    compare_logits("ttt-125m", 1, cpu_backend_open(1), DT_F32);
}

static void test_evaluate__padding_does_not_reach_ttt_states(void **state)
{
    (void)state;
    compare("ttt-125m", 1 + TTT_LINEAR, cpu_backend_open(2));
    compare("ttt-125m", 1 + TTT_MLP, cpu_backend_open(2));
}

/* --- documents --- */

typedef struct {
    EvalDocument documents[8];
    int count;
} Seen;

static int see(void *user, const EvalDocument *document)
{
    Seen *seen = user;
    assert_true(seen->count < 8);
    seen->documents[seen->count++] = *document;
    return 0;
}

static const int lengths[] = {1, 20, 21, 22, 200, 41, 62};
#define DOCUMENTS ((int)(sizeof lengths / sizeof lengths[0]))

static int byte_at(int document, int i)
{
    return 'a' + (document * 7 + i * i + i * 3) % 26;
}

static void write_documents(const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int d = 0; d < DOCUMENTS; d++) {
        for (int i = 0; i < lengths[d]; i++) {
            fputc(byte_at(d, i), file);
        }
        fputs(d + 1 < DOCUMENTS ? "\n<|endoftext|>\n" : "", file);
    }
    fclose(file);
}

static int evaluate_file(const char *path, EvaluatorSetup setup, Seen *seen, EvalTotals *totals)
{
    Tokenizer *tokenizer;
    assert_int_equal(tokenizer_open(TOKENIZER_BYTES, &tokenizer), 0);
    EvalText text = {.tokenizer = tokenizer, .threads = 1, .document = see, .user = seen};
    assert_int_equal(tokenizer_end(tokenizer, NULL, &text.end), 0);
    text.begin = text.end;
    assert_int_equal(source_open((SourceOptions){.inputs = &path, .input_count = 1}, &text.source),
                     0);
    Evaluator e;
    assert_int_equal(evaluator_open(&e, &setup), 0);
    *seen = (Seen){0};
    uint64_t documents;
    int code = evaluate_text(&e, &text, &documents);
    *totals = e.totals;
    assert_int_equal(documents, seen->count);
    evaluator_close(&e);
    for (int i = 0; i < seen->count; i++) {
        seen->documents[i].file = NULL; /* the source's */
    }
    source_close(text.source);
    tokenizer_free(tokenizer);
    return code;
}

/* Prediction i of a long text belongs to the first window that reaches it; windows begin every
 * seq / 2. */
static double document_by_logits(Fixture *f, const int32_t *tokens, int64_t count, int64_t seq)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t start = 0, stride = seq > 1 ? seq / 2 : 1;
        while (i - start >= seq) {
            start += stride;
        }
        double losses[CONTEXT];
        losses_of_logits(f, tokens + start, i - start + 1, losses);
        sum += losses[i - start];
    }
    return sum;
}

static void test_evaluate__every_token_of_a_document_counts_once(void **state)
{
    (void)state;
    Fixture f;
    open_fixture(&f, "llama-22m", 0, cpu_backend_open(2));
    write_documents(own_file);
    static const int64_t seqs[] = {21, 1, 2, CONTEXT};
    for (size_t s = 0; s < sizeof seqs / sizeof seqs[0]; s++) {
        Seen seen;
        EvalTotals totals;
        assert_int_equal(evaluate_file(own_file, setup_of(&f, 3, seqs[s]), &seen, &totals), 0);
        assert_int_equal(seen.count, DOCUMENTS);
        uint64_t tokens = 0, bytes = 0;
        double nats = 0;
        for (int d = 0; d < DOCUMENTS; d++) {
            const EvalDocument *document = &seen.documents[d];
            int size = lengths[d] + (d + 1 < DOCUMENTS); /* the line break before the separator */
            int32_t text[256] = {END};
            for (int i = 0; i < size; i++) {
                text[i + 1] = i < lengths[d] ? byte_at(d, i) : '\n';
            }
            text[size + 1] = END;
            assert_int_equal(document->number, d + 1);
            assert_int_equal(document->tokens, size + 1);
            assert_int_equal(document->bytes, size);
            assert_near(document->nats, document_by_logits(&f, text, size + 1, seqs[s]), 1e-5);
            tokens += document->tokens;
            bytes += document->bytes;
            nats += document->nats;
        }
        assert_int_equal(totals.tokens, tokens);
        assert_int_equal(totals.bytes, bytes);
        assert_near(totals.nats, nats, 1e-12);
        assert_near(eval_bits_per_byte(&totals), nats / log(2) / (double)bytes, 1e-12);
    }
    close_fixture(&f);
}

/* 64 predictions by windows of one token, 64 of which are a round: the last of the document is
 * the last of all. */
static void test_evaluate__a_document_may_end_with_its_round(void **state)
{
    (void)state;
    Fixture f;
    Seen seen;
    EvalTotals totals;
    open_fixture(&f, "llama-22m", 0, cpu_backend_open(1));
    FILE *file = fopen(own_file, "w");
    assert_non_null(file);
    fprintf(file, "%063d", 7);
    fclose(file);
    EvaluatorSetup setup = setup_of(&f, 1, 1);
    Evaluator e;
    assert_int_equal(evaluator_open(&e, &setup), 0);
    assert_int_equal(evaluator_round(&e), 64);
    evaluator_close(&e);
    assert_int_equal(evaluate_file(own_file, setup, &seen, &totals), 0);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.documents[0].tokens, 64);
    close_fixture(&f);
}

static int calls_left;

static int stop_after_some(void)
{
    return calls_left-- > 0 ? 0 : ERR_INTERRUPTED;
}

static void test_evaluate__an_interruption_keeps_what_is_done(void **state)
{
    (void)state;
    Fixture f;
    open_fixture(&f, "llama-22m", 0, cpu_backend_open(1));
    int32_t tokens[WINDOWS][CONTEXT + 1];
    EvalWindow windows[WINDOWS];
    make_windows(windows, tokens);
    EvaluatorSetup setup = setup_of(&f, 2, CONTEXT);
    setup.interrupted = stop_after_some;
    calls_left = 3;
    Evaluator e;
    assert_int_equal(evaluator_open(&e, &setup), 0);
    assert_int_equal(evaluator_run(&e, windows, WINDOWS), ERR_INTERRUPTED);
    EvalTotals totals = {0};
    int done = 0;
    for (int w = 0; w < WINDOWS; w++) {
        done += windows[w].done;
        assert_int_equal(windows[w].done, windows[w].count >= 17); /* the six longest */
        if (windows[w].done) {
            eval_totals_add(&totals, &windows[w], NULL);
        }
    }
    assert_int_equal(done, 6);
    assert_int_equal(totals.tokens, 24 + 1 + 14 + 48 + 31 + 1);
    assert_int_equal(totals.bytes, 0);
    evaluator_close(&e);
    close_fixture(&f);
}

static void test_evaluate__a_broken_model_is_named_with_its_document(void **state)
{
    (void)state;
    Fixture f;
    open_fixture(&f, "llama-22m", 0, cpu_backend_open(1));
    FILE *file = fopen(own_file, "w");
    assert_non_null(file);
    fputs("abc\n<|endoftext|>\nabc\ndzef\n", file);
    fclose(file);
    int64_t width = f.trainer.model.spec.width;
    float *broken = mem_zalloc((size_t)width, sizeof *broken);
    broken[0] = NAN;
    trainer_write_state(&f.trainer, STATE_PARAMS, 'z' * width, width, broken);
    /* The head has rows of its own, so only documents that contain the letter are touched. */
    assert_int_equal(f.trainer.model.spec.tied, 0);
    Seen seen;
    EvalTotals totals;
    assert_int_equal(evaluate_file(own_file, setup_of(&f, 3, 16), &seen, &totals), ERR_FAILED);
    assert_non_null(strstr(err_message(), "/x.yaml:3: the loss of document 2 is "));
    free(broken);
    close_fixture(&f);
}

/* --- memory --- */

static void test_evaluate__a_batch_that_does_not_fit_names_the_largest(void **state)
{
    (void)state;
    Fixture f;
    open_fixture(&f, "llama-22m", 0, cpu_backend_open(1));
    EvaluatorSetup setup = setup_of(&f, 64, CONTEXT);
    setup.memory = evaluator_bytes(&setup, 7, CONTEXT);
    Evaluator e;
    assert_int_equal(evaluator_open(&e, &setup), ERR_MEMORY);
    assert_non_null(strstr(err_message(), "the largest that fits is --batch 7"));
    setup.fit = true;
    assert_int_equal(evaluator_open(&e, &setup), 0);
    assert_int_equal(e.setup.batch, 7);
    evaluator_close(&e);
    setup.memory = 1000;
    assert_int_equal(evaluator_open(&e, &setup), ERR_MEMORY);
    assert_non_null(strstr(err_message(), "not even --batch 1 fits"));
    close_fixture(&f);
}

/* --- prepared tokens --- */

static void test_evaluate__whole_batches_give_the_trainer_s_mean(void **state)
{
    (void)state;
    Fixture f;
    open_fixture(&f, "llama-22m", 0, cpu_backend_open(2));
    Dataset dataset;
    assert_int_equal(
        dataset_open(&dataset, "builtin:random", (DatasetOptions){.vocab = VOCAB, .seed = 3}), 0);
    Loader loader;
    assert_int_equal(loader_init_sequential(&loader, &dataset.validation, CONTEXT, VOCAB), 0);
    EvaluatorSetup setup = setup_of(&f, 1, CONTEXT); /* the trainer's batch */
    Evaluator e;
    assert_int_equal(evaluator_open(&e, &setup), 0);
    assert_int_equal(evaluate_data(&e, &loader, 5, NULL), 0);
    assert_int_equal(e.totals.tokens, 5 * CONTEXT);
    f.trainer.ctx.attention = ATTENTION_FLASH;
    double sum = 0, mean;
    for (uint64_t k = 0; k < 5; k++) {
        int32_t tokens[CONTEXT], targets[CONTEXT];
        assert_int_equal(loader_fill(&loader, k, 1, tokens, targets), 0);
        sum += trainer_evaluate(&f.trainer, (HostBatch){tokens, targets, NULL, NULL});
    }
    bool whole;
    assert_int_equal(evaluator_mean(&e, &mean, &whole), 0);
    assert_true(whole);
    assert_true(mean == sum / 5);
    assert_near(eval_loss(&e.totals), sum / 5, 1e-6);
    evaluator_close(&e);
    dataset_close(&dataset);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evaluate__losses_are_those_of_the_logits),
        cmocka_unit_test(test_evaluate__logits_of_a_batch_are_those_of_its_texts),
        cmocka_unit_test(test_evaluate__padding_does_not_reach_ttt_states),
        cmocka_unit_test(test_evaluate__every_token_of_a_document_counts_once),
        cmocka_unit_test(test_evaluate__a_document_may_end_with_its_round),
        cmocka_unit_test(test_evaluate__an_interruption_keeps_what_is_done),
        cmocka_unit_test(test_evaluate__a_broken_model_is_named_with_its_document),
        cmocka_unit_test(test_evaluate__a_batch_that_does_not_fit_names_the_largest),
        cmocka_unit_test(test_evaluate__whole_batches_give_the_trainer_s_mean),
    };
    return cmocka_run_group_tests(tests, own_folder_make, own_folder_remove);
}
