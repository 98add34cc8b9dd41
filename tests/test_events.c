/* The bytes of event files, read back by a reader that shares nothing with the writer, and what
 * a run's record leaves in them. */
#include "record/events.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "record/record.h"
#include "support/event_file.h"
#include "support/json_assert.h"
#include "support/own_folder.h"
#include "support/says.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

/* --- the writer --- */

static void test_events__checksum_of_known_texts(void **state)
{
    (void)state;
    uint8_t block[32];
    assert_int_equal(events_crc32c("", 0), 0);
    assert_int_equal(events_crc32c("123456789", 9), 0xe3069283u);
    memset(block, 0, sizeof block);
    assert_int_equal(events_crc32c(block, sizeof block), 0x8a9136aau);
    memset(block, 0xff, sizeof block);
    assert_int_equal(events_crc32c(block, sizeof block), 0x62a8ab43u);
    for (int i = 0; i < 32; i++) {
        block[i] = (uint8_t)i;
    }
    assert_int_equal(events_crc32c(block, sizeof block), 0x46dd794eu);
}

static void test_events__scalars_come_back(void **state)
{
    (void)state;
    char *path = io_join(own_folder, "scalars"), *tag = mem_alloc(100001);
    memset(tag, 'x', 100000);
    tag[100000] = '\0';
    const double numbers[] = {0, -0.0, 1.5, 0.1, -3e38, 1e-45, 1e300, NAN, INFINITY, -INFINITY};
    const int64_t steps[] = {0, 1, 127, 128, 16384, (int64_t)1 << 40};
    Events *events;
    assert_int_equal(events_create(path, 5.25, &events), 0);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        events_begin(events, 1000.5 + (double)i, steps[i]);
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
            char name[16];
            snprintf(name, sizeof name, "n/%zu", k);
            events_scalar(events, name, numbers[k]);
        }
        events_scalar(events, tag, 7);
        events_scalar(events, "bad \xff utf-8 \xc3", 8);
        events_scalar(events,
                      "gr\xc3\xbc\xc3\x9f"
                      "e",
                      9);
        assert_int_equal(events_end(events), 0);
    }
    events_begin(events, 0, 3);
    assert_int_equal(events_end(events), 0); /* no values: no event */
    assert_int_equal(events_close(events, true), 0);
    SeenFile file;
    event_file_read(path, &file);
    assert_int_equal(file.count, 1 + 6);
    assert_true(file.events[0].time == 5.25);
    for (int i = 0; i < 6; i++) {
        const SeenEvent *event = &file.events[1 + i];
        assert_true(event->time == 1000.5 + i);
        assert_int_equal(event->step, steps[i]);
        assert_int_equal(event->count, 13);
        for (int k = 0; k < 10; k++) {
            float expected = (float)numbers[k], found = event->values[k].number;
            assert_true(event->values[k].simple);
            assert_true(isnan(expected) ? isnan(found) : found == expected);
            assert_int_equal(signbit(expected) != 0, signbit(found) != 0);
        }
        assert_true(event_value(event, tag)->number == 7);
        assert_true(event_value(event, "bad ? utf-8 ?")->number == 8);
        assert_true(event_value(event, "gr\xc3\xbc\xc3\x9f"
                                       "e")
                        ->number == 9);
    }
    free(file.bytes);
    free(tag);
    free(path);
}

static void test_events__texts_and_hyperparameters(void **state)
{
    (void)state;
    char *path = io_join(own_folder, "texts");
    cJSON *config =
        cJSON_Parse("{\"batch\": 8, \"model\": \"tiny\", \"graph\": true, \"x\": null}");
    Events *events;
    assert_int_equal(events_create(path, 0, &events), 0);
    events_begin(events, 1, 0);
    events_text(events, "config", "| a | b |");
    events_hparams(events, config, 123.5);
    assert_int_equal(events_end(events), 0);
    assert_int_equal(events_restart(events, 2, 41), 0);
    assert_int_equal(events_close(events, false), 0);
    SeenFile file;
    event_file_read(path, &file);
    assert_int_equal(file.count, 3);
    const SeenValue *text = event_value(&file.events[1], "config");
    assert_true(event_text_is(INSIDE(text->metadata, 1, 1), "text"));
    assert_true(event_text_is(INSIDE(text->tensor, 8), "| a | b |"));
    Field type;
    Span tensor = text->tensor, dim = INSIDE(text->tensor, 2, 2);
    assert_true(event_take_field(&tensor, &type));
    assert_true(type.number == 1 && type.value == 7);
    assert_true(event_take_field(&dim, &type));
    assert_true(type.number == 1 && type.value == 1);
    const SeenValue *hparams = event_value(&file.events[1], "_hparams_/session_start_info");
    assert_true(event_text_is(INSIDE(hparams->metadata, 1, 1), "hparams"));
    Span session = INSIDE(hparams->metadata, 1, 2, 3);
    const char *const names[] = {"batch", "model", "graph"};
    Field field;
    for (int i = 0; i < 3; i++) {
        assert_true(event_take_field(&session, &field));
        assert_int_equal(field.number, 1);
        assert_true(event_text_is(INSIDE(field.span, 1), names[i]));
        Span value = INSIDE(field.span, 2);
        Field inner;
        assert_true(event_take_field(&value, &inner));
        double number;
        memcpy(&number, &inner.value, sizeof number);
        assert_int_equal(inner.number, 2 + i);
        assert_true(i != 0 || number == 8);
        assert_true(i != 1 || event_text_is(inner.span, "tiny"));
        assert_true(i != 2 || inner.value == 1);
    }
    assert_true(event_take_field(&session, &field)); /* null is left out; the start follows */
    double started;
    memcpy(&started, &field.value, sizeof started);
    assert_true(field.number == 5 && started == 123.5 && session.size == 0);
    Span status = file.events[2].session;
    assert_int_equal(file.events[2].step, 41);
    assert_true(event_take_field(&status, &field));
    assert_true(field.number == 1 && field.value == 1);
    free(file.bytes);
    cJSON_Delete(config);
    free(path);
}

/* --- a run --- */

static RecordInfo some_info(const cJSON *config, const cJSON *machine)
{
    return (RecordInfo){.id = "1",
                        .spec = spec_find("tiny"),
                        .flops_update = 3e9,
                        .config = config,
                        .machine = machine,
                        .events = true};
}

static RecordStep some_step(int64_t step)
{
    return (RecordStep){.step = step,
                        .tokens = 1000 * step,
                        .loss = step == 2 ? value_of(NAN) : value_of(9.0 / (double)step),
                        .lr = value_of(1e-4 * (double)step),
                        .grad_norm = value_of(0.3),
                        .tok_s = value_of(1234.5),
                        .ms = value_of(50),
                        .peak_bytes = value_of(4096)};
}

static void test_events__a_run_leaves_its_lines(void **state)
{
    (void)state;
    char *dir = io_join(own_folder, "run"), *paths[4];
    cJSON *config = cJSON_Parse("{\"batch\": 8, \"data\": \"a|b\"}");
    cJSON *machine = cJSON_Parse("{\"sgemm_gflops\": 100}");
    RecordInfo info = some_info(config, machine);
    Record *record;
    must(record_open(dir, &info, -1, &record));
    for (int64_t i = 1; i <= 3; i++) {
        RecordStep step = some_step(i);
        must(record_step(record, &step));
    }
    must(record_eval(record, 3, 2.25));
    record_close(record); /* as if killed: the status is "running" */

    must(record_open(dir, &info, 2, &record)); /* goes on behind step 2 */
    RecordStep step = some_step(3);
    must(record_step(record, &step));
    TimerReport report = {.unattributed_s = 0.5};
    report.phases[PHASE_FORWARD].exclusive_s = 2;
    Summary summary = {.steps = value_of(3), .peak_bytes = value_of(5000), .phases = &report};
    must(record_save(record, RUN_DONE, NULL, summary_json(&summary, NULL)));
    must(record_save(record, RUN_DONE, NULL, summary_json(&summary, NULL)));
    record_close(record);

    assert_int_equal(event_files_find(dir, paths, 4), 2);
    SeenFile first, second;
    event_file_read(paths[0], &first);
    event_file_read(paths[1], &second);
    assert_int_equal(first.count, 1 + 1 + 3 + 1);
    Span table = INSIDE(event_value(&first.events[1], "config")->tensor, 8);
    assert_true(event_text_is(
        table, "| option | value |\n| --- | --- |\n| batch | 8 |\n| data | a\\|b |\n"));
    for (int i = 1; i <= 3; i++) {
        const SeenEvent *event = &first.events[1 + i];
        assert_int_equal(event->step, i);
        assert_int_equal(event->count, 8);
        float loss = event_value(event, "train/loss")->number;
        assert_true(i == 2 ? isnan(loss) : loss == (float)(9.0 / i));
        assert_true(event_value(event, "train/lr")->number == (float)(1e-4 * i));
        assert_true(event_value(event, "train/grad_norm")->number == 0.3f);
        assert_true(event_value(event, "train/tokens")->number == 1000.0f * (float)i);
        assert_true(event_value(event, "speed/tok_s")->number == 1234.5f);
        assert_true(event_value(event, "speed/ms_per_step")->number == 50);
        assert_true(event_value(event, "memory/peak_bytes")->number == 4096);
        /* 3 GFLOP in 50 ms are 60 GFLOP/s of 100 */
        assert_true(fabsf(event_value(event, "speed/mfu")->number - 0.6f) < 1e-6f);
        assert_true(event->time > 1.7e9 && event->time >= first.events[i].time);
    }
    assert_int_equal(first.events[5].count, 1);
    assert_true(event_value(&first.events[5], "val/loss")->number == 2.25f);
    /* version, restart at step 3, configuration, step 3, end */
    assert_int_equal(second.count, 5);
    assert_int_equal(second.events[1].step, 3);
    assert_true(second.events[1].session.size > 0);
    assert_int_equal(second.events[3].step, 3);
    const SeenEvent *end = &second.events[4];
    assert_int_equal(end->step, 3);
    assert_true(event_value(end, "phases/forward_s")->number == 2);
    assert_true(event_value(end, "phases/unattributed_s")->number == 0.5f);
    assert_true(event_value(end, "memory/peak_bytes")->number == 5000);

    must(record_open(dir, &info, -1, &record)); /* afresh: files of before are gone */
    record_close(record);
    free(paths[0]);
    free(paths[1]);
    assert_int_equal(event_files_find(dir, paths, 4), 1);
    free(paths[0]);
    info.events = false;
    must(record_open(dir, &info, -1, &record));
    record_close(record);
    assert_int_equal(event_files_find(dir, paths, 4), 0);
    free(first.bytes);
    free(second.bytes);
    cJSON_Delete(machine);
    cJSON_Delete(config);
    free(dir);
}

/* No room for events: the record goes on without, and what was written stays whole. */
static void test_events__full_disk_does_not_end_the_run(void **state)
{
    (void)state;
    char *dir = io_join(own_folder, "full"), *paths[2], long_text[4001];
    memset(long_text, 'y', 4000);
    long_text[4000] = '\0';
    cJSON *config = cJSON_CreateObject();
    cJSON_AddStringToObject(config, "data", long_text); /* makes the event file the longest */
    RecordInfo info = some_info(config, NULL);
    Record *record;
    must(record_open(dir, &info, -1, &record));
    assert_int_equal(event_files_find(dir, paths, 2), 1);
    char *before;
    size_t size;
    must(io_read_all(paths[0], 1 << 20, &before, &size));
    free(before);
    struct rlimit unlimited, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    tight = (struct rlimit){size + 40, unlimited.rlim_max};
    void (*previous)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    RecordStep one = some_step(1), two = some_step(2);
    int first_code = record_step(record, &one), second_code = record_step(record, &two);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    signal(SIGXFSZ, previous);
    assert_int_equal(first_code, 0);
    assert_int_equal(second_code, 0);
    record_close(record);
    SeenFile file;
    event_file_read(paths[0], &file); /* whole, and nothing behind the configuration */
    assert_int_equal(file.count, 2);
    free(file.bytes);
    free(paths[0]);
    cJSON_Delete(config);
    free(dir);
}

static void test_events__unwritable_folder_is_told(void **state)
{
    (void)state;
    Events *events;
    char *missing = io_join(own_folder, "missing");
    assert_int_equal(events_open(missing, &events), ERR_INPUT);
    assert_non_null(strstr(err_message(), "missing/events.out.tfevents."));
    assert_null(events);
    assert_int_equal(events_close(events, true), 0);
    events_remove(missing);
    free(missing);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events__checksum_of_known_texts),
        cmocka_unit_test(test_events__scalars_come_back),
        cmocka_unit_test(test_events__texts_and_hyperparameters),
        cmocka_unit_test(test_events__a_run_leaves_its_lines),
        cmocka_unit_test(test_events__full_disk_does_not_end_the_run),
        cmocka_unit_test(test_events__unwritable_folder_is_told),
    };
    return cmocka_run_group_tests(tests, own_folder_make, own_folder_remove);
}
