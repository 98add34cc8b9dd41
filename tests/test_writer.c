/* Texts from a loaded model with random weights: what a prompt becomes, where texts end, and
 * what is told while they grow. With bytes for tokens every stop of several bytes spans tokens. */
#include "use/writer.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "support/own_folder.h"
#include "support/saved_run.h"
#include "text/unicode.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TOKENS 60 /* more than the context of 40 */

static LoadedModel model;

static int load_model(void **state)
{
    own_folder_make(state);
    SavedRun saved;
    char *dir = io_join(own_folder, "run");
    saved_run_make(&saved, dir, "llama-22m", 257);
    saved_run_free(&saved);
    Config cfg;
    config_init(&cfg, COMMAND_GENERATE);
    int code = config_set(&cfg, "device", "cpu");
    code = code != 0 ? code : config_set(&cfg, "threads", "1");
    code = code != 0 ? code : config_set(&cfg, "tokenizer", "bytes");
    code = code != 0 ? code : loaded_open(&model, dir, &cfg, NULL);
    config_free(&cfg);
    free(dir);
    return code;
}

static int close_model(void **state)
{
    loaded_close(&model);
    return own_folder_remove(state);
}

static const char *const no_stops[] = {NULL};

static WriterSettings settings_of(int64_t samples, double temperature)
{
    return (WriterSettings){.sampling = {.temperature = temperature, .seed = 9},
                            .samples = samples,
                            .max_tokens = TOKENS,
                            .cached = true,
                            .stops = no_stops};
}

static Written write_with(const WriterSettings *settings)
{
    Written written;
    TokenList prompt = {0};
    assert_int_equal(writer_prompt(&model, (const uint8_t *)"ab", 2, &prompt), 0);
    assert_int_equal(writer_run(&model, &prompt, settings, &written), 0);
    token_list_free(&prompt);
    return written;
}

static void assert_same(const WrittenText *a, const WrittenText *b)
{
    assert_int_equal(a->tokens.count, b->tokens.count);
    assert_memory_equal(a->tokens.ids, b->tokens.ids, a->tokens.count * sizeof *a->tokens.ids);
    assert_int_equal(a->text.size, b->text.size);
    assert_int_equal(a->reason, b->reason);
}

static void test_writer__own_models_see_the_end_of_a_document_first(void **state)
{
    (void)state;
    TokenList own = {0}, foreign = {0}, empty = {0};
    assert_int_equal(writer_prompt(&model, (const uint8_t *)"ab", 2, &own), 0);
    assert_int_equal(own.count, 3);
    assert_int_equal(own.ids[0], 256);
    assert_int_equal(own.ids[1], 'a');
    model.first = -1;
    assert_int_equal(writer_prompt(&model, (const uint8_t *)"ab", 2, &foreign), 0);
    assert_int_equal(foreign.count, 2);
    assert_int_equal(writer_prompt(&model, (const uint8_t *)"", 0, &empty), 0);
    assert_int_equal(empty.count, 1);
    assert_int_equal(empty.ids[0], 256);
    model.first = 256;
    token_list_free(&own);
    token_list_free(&foreign);
    token_list_free(&empty);
    Tokenizer *kept = model.tokenizer;
    model.tokenizer = NULL;
    assert_int_equal(writer_prompt(&model, (const uint8_t *)"ab", 2, &own), ERR_INPUT);
    assert_non_null(strstr(err_message(), "--tokenizer"));
    model.tokenizer = kept;
}

static void test_writer__a_text_does_not_depend_on_the_others(void **state)
{
    (void)state;
    WriterSettings one = settings_of(1, 1), three = settings_of(3, 1);
    Written alone = write_with(&one), together = write_with(&three);
    assert_same(&alone.texts[0], &together.texts[0]);
    assert_int_not_equal(memcmp(together.texts[0].text.bytes, together.texts[1].text.bytes, 10), 0);
    assert_int_equal(together.tokens, together.texts[0].tokens.count +
                                          together.texts[1].tokens.count +
                                          together.texts[2].tokens.count);
    written_free(&alone);
    written_free(&together);
}

static void test_writer__greedy_is_the_same_without_the_cache(void **state)
{
    (void)state;
    WriterSettings cached = settings_of(1, 0), plain = settings_of(1, 0);
    cached.max_tokens = plain.max_tokens = 30;
    plain.cached = false;
    Written a = write_with(&cached), b = write_with(&plain);
    assert_same(&a.texts[0], &b.texts[0]);
    assert_int_equal(a.texts[0].tokens.count, 30);
    assert_int_equal(a.texts[0].reason, WROTE_LENGTH);
    written_free(&a);
    written_free(&b);
}

/* What was told so far, and after how many bytes a call ended. */
typedef struct {
    uint8_t bytes[4096];
    bool ended[4097];
    size_t size;
    int calls;
} Told;

static int hear(void *user, int64_t sample, const uint8_t *text, size_t size)
{
    Told *told = user;
    assert_int_equal(sample, 0);
    memcpy(told->bytes + told->size, text, size);
    told->size += size;
    told->ended[told->size] = true;
    told->calls++;
    return 0;
}

static void test_writer__tells_all_of_the_text_in_whole_characters(void **state)
{
    (void)state;
    int inside = 0; /* characters of several bytes */
    for (uint64_t seed = 0; seed < 20; seed++) {
        Told told = {.size = 0};
        WriterSettings settings = settings_of(1, 1);
        settings.sampling.seed = seed;
        settings.tell = hear;
        settings.user = &told;
        Written written = write_with(&settings);
        const ByteList *text = &written.texts[0].text;
        assert_int_equal(told.size, text->size);
        for (size_t at = 0; at < text->size;) {
            assert_int_equal(told.bytes[at], text->bytes[at]);
            int length;
            utf8_decode(text->bytes + at, text->size - at, &length);
            for (int i = 1; i < length; i++, inside++) {
                assert_false(told.ended[at + (size_t)i]);
            }
            at += (size_t)length;
        }
        assert_true(told.calls > (int)text->size / 2);
        written_free(&written);
    }
    assert_true(inside > 10);
}

/* Every part of a text as a stop: the text ends where the part first is, and nothing of it was
 * told. */
static void test_writer__ends_before_a_stop(void **state)
{
    (void)state;
    WriterSettings settings = settings_of(1, 1);
    Written whole = write_with(&settings);
    const ByteList *text = &whole.texts[0].text;
    for (size_t at = 0; at + 7 < text->size; at += 5) {
        for (size_t size = 1; size < 8; size += 3) {
            char stop[8] = "";
            memcpy(stop, text->bytes + at, size);
            if (strlen(stop) < size) {
                continue; /* a zero byte */
            }
            const char *const stops[] = {"never in it", stop, "\xff\xfe never", NULL};
            const uint8_t *first = memmem(text->bytes, text->size, stop, size);
            Told told = {.size = 0};
            settings.stops = stops;
            settings.tell = hear;
            settings.user = &told;
            Written written = write_with(&settings);
            const WrittenText *got = &written.texts[0];
            assert_int_equal(got->reason, WROTE_STOP);
            assert_int_equal(got->text.size, first - text->bytes);
            assert_int_equal(told.size, got->text.size);
            assert_memory_equal(told.bytes, text->bytes, told.size);
            written_free(&written);
        }
    }
    written_free(&whole);
}

static int polls;

static int interrupt_later(void)
{
    return ++polls > 5 ? ERR_INTERRUPTED : 0;
}

static int refuse(void *user, int64_t sample, const uint8_t *text, size_t size)
{
    (void)user, (void)sample, (void)text, (void)size;
    return err_set(ERR_FAILED, "closed");
}

static void test_writer__an_interruption_keeps_what_there_is(void **state)
{
    (void)state;
    WriterSettings settings = settings_of(2, 1);
    settings.interrupted = interrupt_later;
    Written written = write_with(&settings);
    for (int s = 0; s < 2; s++) {
        assert_int_equal(written.texts[s].tokens.count, 6);
        assert_int_equal(written.texts[s].reason, WROTE_INTERRUPTED);
    }
    written_free(&written);
    settings = settings_of(1, 1);
    settings.tell = refuse;
    TokenList prompt = {0};
    assert_int_equal(writer_prompt(&model, NULL, 0, &prompt), 0);
    assert_int_equal(writer_run(&model, &prompt, &settings, &written), ERR_FAILED);
    assert_null(written.texts);
    settings.max_tokens = 0;
    assert_int_equal(writer_run(&model, &prompt, &settings, &written), 0);
    assert_int_equal(written.tokens, 0);
    assert_int_equal(written.texts[0].reason, WROTE_LENGTH);
    written_free(&written);
    token_list_free(&prompt);
}

/* Some seed soon draws the end of a document: the text ends there, and the token is no text. */
static void test_writer__ends_with_the_document(void **state)
{
    (void)state;
    WriterSettings settings = settings_of(1, 1);
    Written written = {0};
    bool ended = false;
    for (settings.sampling.seed = 1; !ended && settings.sampling.seed < 200;
         settings.sampling.seed++) {
        written_free(&written);
        written = write_with(&settings);
        ended = written.texts[0].reason == WROTE_END;
    }
    const WrittenText *text = &written.texts[0];
    assert_true(ended);
    assert_int_equal(text->tokens.ids[text->tokens.count - 1], 256);
    assert_int_equal(text->text.size, text->tokens.count - 1);
    written_free(&written);
}

/* Texts that are told must come one after the other, whoever chose their tokens. */
static int hear_in_order(void *user, int64_t sample, const uint8_t *text, size_t size)
{
    int64_t *last = user;
    (void)text, (void)size;
    assert_true(sample > *last || sample < 3); /* some begin every round */
    *last = sample;
    return 0;
}

/* Enough texts to be worth several threads: as where a GPU computes, and with the processor's
 * own. */
static void test_writer__texts_do_not_depend_on_threads(void **state)
{
    (void)state;
    enum { TEXTS = 130 };
    const SampleSettings sampling[] = {
        {.temperature = 0}, {1, 0, 0, 4}, {1, 20, 0, 4}, {1, 0, 0.9, 4}, {1, 30, 0.9, 4}};
    for (size_t i = 0; i < sizeof sampling / sizeof sampling[0]; i++) {
        WriterSettings settings = settings_of(TEXTS, 0);
        int64_t last = 0;
        settings.sampling = sampling[i];
        settings.max_tokens = 5;
        settings.tell = hear_in_order;
        settings.user = &last;
        model.backend->device = "a GPU";
        settings.threads = 1;
        Written one = write_with(&settings);
        settings.threads = 3;
        Written three = write_with(&settings);
        model.backend->device = NULL;
        model.backend->threads = 3;
        Written own = write_with(&settings);
        model.backend->threads = 1;
        for (int s = 0; s < TEXTS; s++) {
            assert_same(&one.texts[s], &three.texts[s]);
            assert_same(&one.texts[s], &own.texts[s]);
        }
        written_free(&one);
        written_free(&three);
        written_free(&own);
    }
}

static int host_blocks;

static void *host_alloc(Backend *backend, size_t bytes)
{
    (void)backend;
    host_blocks++;
    return mem_alloc(bytes);
}

static void *host_full(Backend *backend, size_t bytes)
{
    (void)backend, (void)bytes;
    return NULL;
}

static void host_release(Backend *backend, void *block)
{
    (void)backend;
    host_blocks--;
    free(block);
}

static void test_writer__logits_come_to_memory_of_the_backend(void **state)
{
    (void)state;
    WriterSettings settings = settings_of(2, 1);
    Written plain = write_with(&settings), written;
    Backend before = *model.backend;
    model.backend->host_alloc = host_alloc;
    model.backend->host_release = host_release;
    written = write_with(&settings);
    assert_int_equal(host_blocks, 0);
    assert_same(&plain.texts[1], &written.texts[1]);
    written_free(&plain);
    written_free(&written);
    model.backend->host_alloc = host_full;
    TokenList prompt = {0};
    assert_int_equal(writer_prompt(&model, NULL, 0, &prompt), 0);
    assert_int_equal(writer_run(&model, &prompt, &settings, &written), ERR_MEMORY);
    assert_int_equal(host_blocks, 0);
    token_list_free(&prompt);
    model.backend->host_alloc = before.host_alloc;
    model.backend->host_release = before.host_release;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writer__own_models_see_the_end_of_a_document_first),
        cmocka_unit_test(test_writer__a_text_does_not_depend_on_the_others),
        cmocka_unit_test(test_writer__greedy_is_the_same_without_the_cache),
        cmocka_unit_test(test_writer__tells_all_of_the_text_in_whole_characters),
        cmocka_unit_test(test_writer__ends_before_a_stop),
        cmocka_unit_test(test_writer__an_interruption_keeps_what_there_is),
        cmocka_unit_test(test_writer__ends_with_the_document),
        cmocka_unit_test(test_writer__texts_do_not_depend_on_threads),
        cmocka_unit_test(test_writer__logits_come_to_memory_of_the_backend),
    };
    return cmocka_run_group_tests(tests, load_model, close_model);
}
