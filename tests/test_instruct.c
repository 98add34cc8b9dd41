/* Instruction data: records to tokens of which some do not count, by hand; and the loss on them
 * against the mean of the losses of single tokens. */
#include "data/instruct.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "data/loader.h"
#include "support/data_files.h"
#include "support/gold.h"
#include "support/preparation.h"
#include "support/says.h"
#include "support/small_run.h"
#include "text/encode.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char chatml[] = "<|im_start|>{role}\n{content}<|im_end|>\n";

/* What is expected of a stream: texts, and the end of a document, which has no text. */
typedef struct {
    const char *text;
    bool counts;
} Part;

static const char records[] =
    "{\"prompt\": \"Q: 2?\", \"completion\": \" 4\"}\n"
    "{\"text\": \"plain\", \"prompt\": \"not this\", \"completion\": \"nor this\"}\n"
    "\n"
    "{\"prompt\": \"\", \"completion\": \"all of it\", \"id\": 7}\n"
    "{\"messages\": null, \"prompt\": \"end only\", \"completion\": \"\"}\n"
    "{\"prompt\": \"\", \"completion\": \"\"}\n"
    "{\"messages\": [{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": "
    "\"Hi\"}, {\"role\": \"assistant\", \"content\": \"Yes\\u00e4\"}, {\"role\": \"user\", "
    "\"content\": \"?\"}, {\"role\": \"assistant\", \"content\": \"!\"}]}\n"
    "{\"messages\": [{\"role\": \"assistant\", \"content\": \"A\"}, {\"role\": \"user\", "
    "\"content\": \"\"}]}\n"
    "{\"prompt\": \" t\", \"completion\": \"he\"}";

static const Part parts[] = {
    {"Q: 2?", false},
    {" 4", true},
    {"", true},
    {"plain", true},
    {"", true},
    {"all of it", true},
    {"", true},
    {"end only", false},
    {"", true},
    {"<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
     false},
    {"Yes\xC3\xA4<|im_end|>\n", true},
    {"<|im_start|>user\n?<|im_end|>\n<|im_start|>assistant\n", false},
    {"!<|im_end|>\n", true},
    {"", true},
    {"<|im_start|>assistant\n", false},
    {"A<|im_end|>\n", true},
    {"<|im_start|>user\n<|im_end|>\n", false},
    {"", false},
    {" t", false},
    {"he", true},
    {"", true},
};

/* Tokens in order; those that do not count as -1 in targets. */
static size_t expected_stream(int which, int32_t *tokens, int32_t *targets)
{
    size_t count = 0;
    Encoder *encoder = encoder_open(tokenizers[which]);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        TokenList ids = {0};
        size_t length = strlen(parts[i].text);
        uint8_t text[256] = {0}; /* room to read ahead */
        memcpy(text, parts[i].text, length);
        encoder_run(encoder, text, length, &ids);
        for (size_t k = 0; k < ids.count + (length == 0); k++, count++) {
            tokens[count] = (int32_t)(length == 0 ? tokenizer_ends[which] : ids.ids[k]);
            targets[count] = parts[i].counts ? tokens[count] : -1;
        }
        token_list_free(&ids);
    }
    encoder_close(encoder);
    return count;
}

static int prepare_records(const char *folder, const char *text, size_t size, int which,
                           const char *chat, uint64_t shard_tokens, int threads)
{
    char *path = io_join(folder, "x.jsonl"), *out = io_join(folder, "out");
    data_files_write(path, text, size);
    const char *inputs[] = {path};
    PrepareOptions options = preparation(out, inputs, 1, which);
    options.val_fraction = 0;
    options.source.chat = chat;
    options.shard_tokens = shard_tokens;
    options.threads = threads;
    int code = prepare_quietly(&options, NULL);
    free(path);
    free(out);
    return code;
}

static void open_prepared(const char *folder, Dataset *dataset)
{
    char *out = io_join(folder, "out");
    assert_int_equal(dataset_open(dataset, out, (DatasetOptions){.verify = true}), 0);
    free(out);
}

static void test_instruct__records_become_tokens_that_count_or_not(void **state)
{
    (void)state;
    const uint64_t shard_tokens[] = {1, 7, 64, 100000};
    for (int which = 0; which < 2; which++) {
        int32_t tokens[600], targets[600], found[600];
        size_t count = expected_stream(which, tokens, targets);
        uint64_t left_out = 0;
        for (size_t i = 0; i < count; i++) {
            left_out += targets[i] < 0;
        }
        assert_true(left_out > 20 && count - left_out > 20);
        for (int i = 0; i < 4; i++) {
            char *folder = data_files_folder();
            assert_int_equal(prepare_records(folder, records, strlen(records), which, chatml,
                                             shard_tokens[i], 1 + i % 3),
                             0);
            Dataset dataset;
            open_prepared(folder, &dataset);
            assert_int_equal(dataset.train.tokens, count);
            assert_int_equal(dataset.train.left_out, left_out);
            assert_int_equal(dataset.train.documents, 7);
            split_read(&dataset.train, 0, count, found);
            assert_memory_equal(found, tokens, count * sizeof *found);
            split_mask(&dataset.train, 0, count, found);
            assert_memory_equal(found, targets, count * sizeof *found);
            dataset_close(&dataset);
            data_files_remove(folder);
        }
    }
}

/* Where all counts, shards are those of plain text: no mask. */
static void test_instruct__all_counting_is_plain_text(void **state)
{
    (void)state;
    const char *const forms[] = {"{\"text\": \"abc\"}\n{\"text\": \"the end\"}\n",
                                 "{\"prompt\": \"\", \"completion\": \"abc\"}\n{\"completion\": "
                                 "\"the end\", \"prompt\": \"\"}\n"};
    uint64_t digests[2];
    for (int i = 0; i < 2; i++) {
        char *folder = data_files_folder();
        assert_int_equal(prepare_records(folder, forms[i], strlen(forms[i]), 1, NULL, 100, 1), 0);
        Dataset dataset;
        open_prepared(folder, &dataset);
        assert_false(dataset.train.shards[0].masked);
        digests[i] = dataset_digest(&dataset);
        dataset_close(&dataset);
        data_files_remove(folder);
    }
    assert_true(digests[0] == digests[1]);
}

static void test_instruct__refuses_by_line_and_field(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } bad[] = {
        {"{\"prompt\": 1, \"completion\": \"x\"}", "\"prompt\" must be a string"},
        {"{\"prompt\": \"x\", \"completion\": null}", "\"completion\" must be a string"},
        {"{\"prompt\": \"x\"}", "field \"prompt\" without \"completion\""},
        {"{\"messages\": null, \"completion\": \"x\"}", "\"completion\" without \"prompt\""},
        {"{\"messages\": \"x\"}", "\"messages\" must be a list"},
        {"{\"messages\": []}", "\"messages\" must be a list"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, 5]}",
         "message 2: \"role\" must be a string"},
        {"{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}",
         "message 1: \"content\" must be a string"},
        {"{\"prompt\": \"a\\u0000b\", \"completion\": \"x\"}", "\\u0000"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char *folder = data_files_folder();
        char *text = mem_format("{\"text\": \"good\"}\n%s\n", bad[i].line);
        assert_int_equal(prepare_records(folder, text, strlen(text), 0, chatml, 100, 1), ERR_INPUT);
        assert_says(bad[i].says);
        assert_says("x.jsonl:2:");
        free(text);
        data_files_remove(folder);
    }
    const char *messages = "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}";
    char *folder = data_files_folder();
    assert_int_equal(prepare_records(folder, messages, strlen(messages), 0, NULL, 100, 1),
                     ERR_INPUT);
    assert_says("give --chat-template");
    data_files_remove(folder);
}

/* --- templates --- */

/* small_tokenizer with these added tokens. */
static Tokenizer *with_markers(const char *const *markers)
{
    Tokenizer *t = tokenizer_new();
    for (uint32_t b = 0; b < 256; b++) {
        assert_int_equal(tokenizer_add_token(t, b, &(uint8_t){(uint8_t)b}, 1), 0);
    }
    for (uint32_t i = 0; markers[i] != NULL; i++) {
        AddedToken added = {.id = 256 + i, .special = true};
        assert_int_equal(
            tokenizer_add_added(t, added, (const uint8_t *)markers[i], strlen(markers[i])), 0);
    }
    assert_int_equal(tokenizer_set_pattern(t, PRETOK_GPT2), 0);
    assert_int_equal(tokenizer_finish(t), 0);
    return t;
}

static void expect_template(const char *name, const Tokenizer *tokenizer, const char *expected)
{
    char *text;
    assert_int_equal(chat_template_open(name, tokenizer, &text), 0);
    if (expected == NULL) {
        assert_null(text);
    } else {
        assert_string_equal(text, expected);
    }
    free(text);
}

static void test_instruct__templates_by_name_markers_and_file(void **state)
{
    (void)state;
    const char llama3[] = "<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>";
    const char *const of_chatml[] = {"<|im_end|>", "<|x|>", "<|im_start|>", NULL};
    const char *const of_llama3[] = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>",
                                     NULL};
    const char *const of_none[] = {"<|im_end|>", "<|eot_id|>", NULL};
    expect_template("chatml", NULL, chatml);
    expect_template("llama3", NULL, llama3);
    expect_template("auto", NULL, NULL);
    Tokenizer *t = with_markers(of_chatml);
    expect_template("auto", t, chatml);
    expect_template("llama3", t, llama3);
    tokenizer_free(t);
    t = with_markers(of_llama3);
    expect_template("auto", t, llama3);
    tokenizer_free(t);
    t = with_markers(of_none);
    expect_template("auto", t, NULL);
    tokenizer_free(t);

    static const struct {
        const char *text, *says; /* NULL: it is one */
    } files[] = {
        {"[{role}] {content}\n", NULL},     {"{content}", NULL},
        {"", "has no {content}"},           {"{role}", "has no {content}"},
        {"{content}{content}", "twice"},    {"{content}{role}", "behind"},
        {"{role}{role}{content}", "twice"},
    };
    char *folder = data_files_folder(), *path = io_join(folder, "chat.txt"), *text;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        data_files_write(path, files[i].text, strlen(files[i].text));
        if (files[i].says == NULL) {
            expect_template(path, NULL, files[i].text);
        } else {
            assert_int_equal(chat_template_open(path, NULL, &text), ERR_INPUT);
            assert_says(files[i].says);
            assert_says("chat.txt");
        }
    }
    data_files_write(path, "a\0{content}", 11);
    assert_int_equal(chat_template_open(path, NULL, &text), ERR_INPUT);
    assert_int_equal(chat_template_open("chatlm", NULL, &text), ERR_INPUT);
    assert_says("--chat-template (auto, chatml, llama3 or a file)");
    free(path);
    data_files_remove(folder);
}

/* --- the loss --- */

/* The loss of a micro-step on such data is the mean of the losses that the same tokens have where
 * nothing is left out, over those that count. */
static void test_instruct__loss_is_of_what_counts(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    assert_int_equal(prepare_records(folder, records, strlen(records), 0, chatml, 100000, 1), 0);
    Dataset dataset;
    open_prepared(folder, &dataset);
    TrainerSetup setup = small_setup("llama-22m", 3, 2, 29);
    setup.spec.vocab = 257;
    Loader loader;
    assert_int_equal(loader_init(&loader, &dataset.train, setup.seq, 257, 5), 0);
    Backend *backend = cpu_backend_open(1);
    TrainPlan plan;
    Trainer t;
    trainer_plan(&setup, backend, &plan);
    assert_int_equal(trainer_open(&t, &setup, backend, &plan), 0);
    trainer_init_params(&t, 11);
    int64_t rows = setup.batch * setup.seq;
    int32_t ids[2 * 87], targets[2 * 87], all[2 * 87], order[2 * 87];
    assert_int_equal(2 * rows, 2 * 87);
    double sum = 0, counted = 0, losses[2], norms[2];
    for (int64_t micro = 0; micro < 2; micro++) {
        int64_t at = micro * rows;
        assert_int_equal(loader_fill(&loader, (uint64_t)(micro * setup.batch), setup.batch,
                                     ids + at, targets + at),
                         0);
        gold_sort_order(ids + at, rows, order + at);
        for (int64_t row = 0; row < setup.batch; row++) {
            uint64_t start = loader_start(&loader, (uint64_t)(micro * setup.batch + row));
            split_read(&dataset.train, start + 1, (uint64_t)setup.seq, all + at + row * setup.seq);
        }
        trainer_evaluate(&t, (HostBatch){ids + at, all + at, NULL, NULL});
        double *each = gold_download(backend, t.losses);
        for (int64_t i = 0; i < rows; i++) {
            assert_true(targets[at + i] == -1 || targets[at + i] == all[at + i]);
            sum += targets[at + i] >= 0 ? each[i] : 0;
            counted += targets[at + i] >= 0;
        }
        free(each);
    }
    assert_true(counted > 20 && counted < (double)(2 * rows - 20));
    for (int masked = 0; masked < 2; masked++) {
        for (int64_t micro = 0; micro < 2; micro++) {
            int64_t at = micro * rows;
            trainer_micro_step(&t,
                               (HostBatch){.ids = ids + at,
                                           .targets = (masked ? targets : all) + at,
                                           .order = order + at},
                               micro);
        }
        trainer_update(&t, 0, 0);
        trainer_post(&t);
        trainer_fetch(&t, &losses[masked], &norms[masked]);
    }
    assert_true(fabs(losses[1] - sum / counted) <= 1e-6 * losses[1]);
    assert_true(t.fetched_counted == counted);
    assert_true(fabs(losses[1] - losses[0]) > 1e-4 && norms[1] != norms[0]);
    trainer_close(&t);
    backend->close(backend);
    dataset_close(&dataset);
    data_files_remove(folder);
}

/* One update of two micro-steps whose tokens all count, or none of them. */
static void make_update(Trainer *t, Tokens tokens, int64_t step, bool counts)
{
    int64_t rows = t->setup.batch * t->setup.seq;
    int32_t *none = mem_alloc((size_t)rows * sizeof *none);
    for (int64_t i = 0; i < rows; i++) {
        none[i] = -1;
    }
    for (int64_t micro = 0; micro < 2; micro++) {
        trainer_micro_step(t,
                           (HostBatch){.ids = tokens.ids + micro * rows,
                                       .targets = counts ? tokens.targets + micro * rows : none,
                                       .order = tokens.order + micro * rows},
                           micro);
    }
    double loss, norm;
    trainer_update(t, 0.01, step);
    trainer_post(t);
    trainer_fetch(t, &loss, &norm);
    assert_true((t->fetched_counted > 0) == counts && (norm > 0) == counts);
    free(none);
}

static double *everything(const Trainer *t, int64_t *count)
{
    const Optimizer *o = &t->optimizer;
    Tensor of[] = {o->param, o->state[0], o->state[1]};
    double *all = NULL;
    *count = 0;
    for (int i = 0; i < 3; i++) {
        int64_t more = tensor_given(of[i]) ? tensor_count(of[i]) : 0;
        double *values = more > 0 ? gold_download(t->backend, of[i]) : NULL;
        all = mem_realloc(all, (size_t)(*count + more) + 1, sizeof *all);
        for (int64_t k = 0; k < more; k++) {
            all[(*count)++] = values[k];
        }
        free(values);
    }
    return all;
}

/* Neither momentum nor decay moves weights by an update that has no gradient, and no moment is
 * made smaller by it. */
static void test_instruct__an_update_where_nothing_counts_changes_nothing(void **state)
{
    (void)state;
    for (int which = 0; which < 2 * OPTIMIZER_COUNT; which++) {
        TrainerSetup setup = small_setup("llama-22m", 2, 2, 13);
        setup.optimizer.id = (OptimizerId)(which / 2);
        Backend *backend = which % 2 == 0 ? ref_backend_open() : cpu_backend_open(1);
        Tokens tokens = make_tokens(4, setup.seq, setup.batch, setup.spec.vocab);
        TrainPlan plan;
        Trainer t;
        trainer_plan(&setup, backend, &plan);
        assert_int_equal(trainer_open(&t, &setup, backend, &plan), 0);
        trainer_init_params(&t, 11);
        int64_t count, again;
        make_update(&t, tokens, 0, true);
        double *before = everything(&t, &count);
        make_update(&t, tokens, 1, false);
        double *after = everything(&t, &again);
        assert_int_equal(count, again);
        assert_memory_equal(before, after, (size_t)count * sizeof *before);
        free(after);
        make_update(&t, tokens, 2, true);
        after = everything(&t, &again);
        assert_true(memcmp(before, after, (size_t)count * sizeof *before) != 0);
        free(before);
        free(after);
        free_tokens(tokens);
        trainer_close(&t);
        backend->close(backend);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instruct__records_become_tokens_that_count_or_not),
        cmocka_unit_test(test_instruct__all_counting_is_plain_text),
        cmocka_unit_test(test_instruct__refuses_by_line_and_field),
        cmocka_unit_test(test_instruct__templates_by_name_markers_and_file),
        cmocka_unit_test(test_instruct__loss_is_of_what_counts),
        cmocka_unit_test(test_instruct__an_update_where_nothing_counts_changes_nothing),
    };
    return cmocka_run_group_tests(tests, open_tokenizers, close_tokenizers);
}
