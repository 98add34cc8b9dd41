/* The run directory: fields, exact lines, resume, and what killed writers, full disks and damaged
 * files leave behind. */
#include "record/record.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/version.h"
#include "support/json_assert.h"
#include "support/own_folder.h"
#include "support/says.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static RecordInfo some_info(const cJSON *config)
{
    static const RecordMemory plan[] = {{"params", 4096, 0}, {"grads", (size_t)5 << 40, 0}};
    return (RecordInfo){.id = "tiny-1a2b",
                        .spec = spec_find("llama-22m"),
                        .parameters = 124439808,
                        .flops_update = 1e9,
                        .config = config,
                        .plan = plan,
                        .plan_rows = 2};
}

static RecordStep some_step(int64_t step)
{
    return (RecordStep){.step = step,
                        .tokens = step * 2048,
                        .loss = value_of(2.5 + 1.0 / (double)step),
                        .lr = value_of(3e-4),
                        .grad_norm = value_of(0.7),
                        .tok_s = value_of(1234.5),
                        .ms = value_of(1.66)};
}

static char *file_text(const char *dir, const char *name)
{
    char *path = io_join(dir, name), *text = NULL;
    size_t size;
    assert_int_equal(io_read_all(path, 1 << 24, &text, &size), 0);
    free(path);
    return text;
}

static cJSON *file_json(const char *dir, const char *name)
{
    char *path = io_join(dir, name);
    cJSON *tree = NULL;
    must(json_load(path, &tree));
    free(path);
    return tree;
}

static void put_file(const char *dir, const char *name, const char *text)
{
    char *path = io_join(dir, name);
    assert_int_equal(io_write_atomic(path, text, strlen(text)), 0);
    free(path);
}

static void test_record__run_record_has_its_fields(void **state)
{
    (void)state;
    char *dir = io_join(own_folder, "fields/run");
    cJSON *config = cJSON_Parse("{\"batch\": 8, \"lr\": 0.0003, \"model\": \"tiny\"}");
    RecordInfo info = some_info(config);
    Record *record;
    assert_int_equal(record_open(dir, &info, -1, &record), 0);
    cJSON_Delete(config);
    cJSON *run = file_json(dir, "run.json");
    assert_int_equal((int)number(run, "schema"), RECORD_SCHEMA);
    assert_text(run, "id", "tiny-1a2b");
    assert_text(run, "status", "running");
    assert_text(member(run, "pacer"), "version", version_string());
    assert_text(member(run, "pacer"), "commit", version_commit());
    assert_text(member(run, "model"), "name", "llama-22m");
    assert_true(number(member(run, "model"), "parameters") == 124439808);
    assert_true(number(member(run, "config"), "lr") == 0.0003);
    assert_true(cJSON_IsNull(member(run, "machine")));
    const cJSON *plan = member(run, "memory_plan");
    assert_int_equal(cJSON_GetArraySize(plan), 2);
    assert_text(cJSON_GetArrayItem(plan, 1), "kind", "grads");
    assert_true(number(cJSON_GetArrayItem(plan, 1), "bytes") == 5497558138880.0);
    assert_null(cJSON_GetObjectItem(run, "summary"));
    cJSON_Delete(run);

    /* Missing stays null, unknown numbers say why, and nothing is 0 that was not measured. */
    Summary summary = {.steps = value_of(10), .tokens = value_of(20480), .val_loss = value_of(NAN)};
    summary.tok_s = value_of(1000.5);
    cJSON *checks = cJSON_Parse("[{\"name\": \"tokens\"}]");
    assert_int_equal(record_save(record, RUN_FAILED, "loss is NaN", summary_json(&summary, checks)),
                     0);
    run = file_json(dir, "run.json");
    assert_text(run, "status", "failed");
    assert_text(run, "message", "loss is NaN");
    const cJSON *kept = member(run, "summary");
    static const char *const names[] = {
        "steps",          "tokens",        "tok_s",        "wall_s",     "train_s",
        "train_all_s",    "val_s",         "init_s",       "train_loss", "val_loss",
        "best_val_loss",  "mfu_peak",      "mfu_measured", "peak_bytes", "allocated_bytes",
        "reserved_bytes", "planned_bytes", "phases",       "checks"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const cJSON *item = member(kept, names[i]);
        if (i >= 3 && i != 18) {
            assert_true(cJSON_IsNull(item));
        }
    }
    assert_true(number(kept, "tok_s") == 1000.5);
    assert_text(kept, "note", "val_loss is NaN");
    assert_int_equal(cJSON_GetArraySize(member(kept, "checks")), 1);
    cJSON_Delete(run);

    assert_int_equal(record_save(record, RUN_DONE, NULL, NULL), 0);
    record_close(record);
    run = file_json(dir, "run.json");
    assert_text(run, "status", "done");
    assert_null(cJSON_GetObjectItem(run, "message"));
    assert_true(number(member(run, "summary"), "steps") == 10);
    cJSON_Delete(run);
    free(dir);
}

static void test_record__metric_lines_are_exact_json(void **state)
{
    (void)state;
    char *dir = io_join(own_folder, "lines");
    RecordInfo info = some_info(NULL);
    Record *record;
    assert_int_equal(record_open(dir, &info, -1, &record), 0);
    RecordStep step = {.step = 1,
                       .tokens = 2048,
                       .loss = value_of(9.25),
                       .lr = value_of(0.5),
                       .tok_s = value_of(1e6),
                       .ms = value_of(2.0),
                       .peak_bytes = value_of(4096),
                       .left_out = 48};
    assert_int_equal(record_step(record, &step), 0);
    step = (RecordStep){.step = 2,
                        .tokens = 4096,
                        .loss = value_of(NAN),
                        .lr = value_of(0.5),
                        .grad_norm = value_of(INFINITY)};
    assert_int_equal(record_step(record, &step), 0);
    assert_int_equal(record_eval(record, 2, 3.125), 0);
    assert_int_equal(record_eval(record, 3, -INFINITY), 0);
    char *text = file_text(dir, "metrics.jsonl"); /* while the record is still open */
    assert_string_equal(text,
                        "{\"step\":1,\"tokens\":2048,\"counted\":2000,\"loss\":9.25,\"lr\":0.5,"
                        "\"tok_s\":1000000,\"ms\":2,"
                        "\"peak_bytes\":4096}\n"
                        "{\"step\":2,\"tokens\":4096,\"loss\":null,\"lr\":0.5,\"grad_norm\":null,"
                        "\"note\":\"loss is NaN, grad_norm is infinite\"}\n"
                        "{\"step\":2,\"val_loss\":3.125}\n"
                        "{\"step\":3,\"val_loss\":null,\"note\":\"val_loss is -infinite\"}\n");
    free(text);

    /* Counts come back exactly, measurements to the last digit that a float has. */
    step = some_step(3);
    step.loss = value_of((double)9.2103403f);
    step.tokens = 999999999999999;
    assert_int_equal(record_step(record, &step), 0);
    text = file_text(dir, "metrics.jsonl");
    cJSON *last = cJSON_Parse(strrchr(text, '{'));
    assert_true((float)number(last, "loss") == 9.2103403f);
    assert_true(number(last, "lr") == 3e-4);
    assert_true(number(last, "tokens") == 999999999999999.0);
    cJSON_Delete(last);
    free(text);
    record_close(record);
    free(dir);
}

static void test_record__resume_cuts_what_comes_again(void **state)
{
    (void)state;
    char *dir = io_join(own_folder, "resume");
    RecordInfo info = some_info(NULL);
    Record *record;
    assert_int_equal(record_open(dir, &info, -1, &record), 0);
    for (int64_t i = 1; i <= 10; i++) {
        RecordStep step = some_step(i);
        assert_int_equal(record_step(record, &step), 0);
        if (i % 4 == 0) {
            assert_int_equal(record_eval(record, i, 3.0), 0);
        }
    }
    record_close(record);
    put_file(dir, "started-before", "");
    cJSON *run = file_json(dir, "run.json");
    cJSON_ReplaceItemInObject(run, "started", cJSON_CreateString("2001-02-03T04:05:06Z"));
    char *path = io_join(dir, "run.json");
    assert_int_equal(json_save(path, run), 0);
    cJSON_Delete(run);
    free(path);

    char *before = file_text(dir, "metrics.jsonl");
    char *torn = mem_format("%s{\"step\":11,\"toke", before);
    put_file(dir, "metrics.jsonl", torn);
    assert_int_equal(record_resume(dir, 100), 0); /* only the torn line goes */
    char *after = file_text(dir, "metrics.jsonl");
    assert_string_equal(after, before);
    free(after);

    put_file(dir, "metrics.jsonl", torn);
    assert_int_equal(record_open(dir, &info, 8, &record), 0);
    RecordStep next = some_step(9);
    assert_int_equal(record_step(record, &next), 0);
    assert_int_equal(record_save(record, RUN_DONE, NULL, NULL), 0);
    record_close(record);
    after = file_text(dir, "metrics.jsonl");
    /* Steps 1 to 8 with the evaluations at 4 and 8, then step 9, as if never interrupted. */
    char *cut = strstr(before, "{\"step\":10,");
    assert_int_equal(strlen(after), cut - before);
    assert_memory_equal(after, before, cut - before);
    run = file_json(dir, "run.json");
    assert_text(run, "started", "2001-02-03T04:05:06Z");
    assert_int_equal(cJSON_GetArraySize(member(run, "resumed")), 1);
    assert_true(number(cJSON_GetArrayItem(member(run, "resumed"), 0), "step") == 8);
    cJSON_Delete(run);

    assert_int_equal(record_open(dir, &info, 9, &record), 0);
    record_close(record);
    run = file_json(dir, "run.json");
    assert_int_equal(cJSON_GetArraySize(member(run, "resumed")), 2);
    cJSON_Delete(run);

    assert_int_equal(record_open(dir, &info, -1, &record), 0); /* afresh in the same place */
    record_close(record);
    run = file_json(dir, "run.json");
    assert_null(cJSON_GetObjectItem(run, "resumed"));
    cJSON_Delete(run);
    free(after);
    after = file_text(dir, "metrics.jsonl");
    assert_string_equal(after, "");
    free(after);
    free(torn);
    free(before);
    free(dir);
}

static void test_record__resume_meets_damage(void **state)
{
    (void)state;
    char *dir = io_join(own_folder, "damage");
    assert_int_equal(io_make_folders(dir), 0);
    assert_int_equal(record_resume(dir, 5), 0); /* no file: nothing to cut */
#define GOOD "{\"step\":1,\"loss\":2}\n"
    static const struct {
        const char *text, *kept; /* kept NULL: an error */
    } cases[] = {
        {"", ""},
        {GOOD, GOOD},
        {"{\"step\":1,\"loss\":2}", GOOD}, /* whole, but for its newline */
        {GOOD "{", GOOD},
        {GOOD "\n\n", GOOD},
        {GOOD "{\"step\":2}{\"step\":3}\n", GOOD},
        {GOOD "[1]\n", GOOD},
        {GOOD "{\"loss\":1}\n", GOOD},
        {GOOD "{\"step\":\"2\"}\n", GOOD},
        {GOOD "{\"step\":6}\n" GOOD, GOOD GOOD},
        {"{\"step\":6}\n", ""},
        {GOOD "oops\n" GOOD, NULL},
        {"\n" GOOD, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_file(dir, "metrics.jsonl", cases[i].text);
        int code = record_resume(dir, 5);
        char *text = file_text(dir, "metrics.jsonl");
        if (cases[i].kept != NULL) {
            assert_int_equal(code, 0);
            assert_string_equal(text, cases[i].kept);
        } else {
            assert_int_equal(code, ERR_INPUT);
            assert_non_null(strstr(err_message(), "metrics.jsonl:"));
            assert_string_equal(text, cases[i].text); /* untouched */
        }
        free(text);
    }
#undef GOOD
    /* A run.json that is no JSON stops a resume with its name. */
    put_file(dir, "metrics.jsonl", "");
    put_file(dir, "run.json", "{\"started\":");
    RecordInfo info = some_info(NULL);
    Record *record;
    assert_int_equal(record_open(dir, &info, 0, &record), ERR_INPUT);
    assert_non_null(strstr(err_message(), "run.json"));
    assert_null(record);
    free(dir);
}

/* kill -9 while lines are appended and run.json is rewritten: both stay usable. */
static void test_record__killed_writer_leaves_whole_records(void **state)
{
    (void)state;
    for (int round = 0; round < 8; round++) {
        char *dir = mem_format("%s/killed-%d", own_folder, round);
        RecordInfo info = some_info(NULL);
        Record *record;
        assert_int_equal(record_open(dir, &info, -1, &record), 0);
        pid_t child = fork();
        if (child == 0) {
            for (int64_t i = 1;; i++) {
                RecordStep step = some_step(i);
                if (record_step(record, &step) != 0 ||
                    (i % 8 == 0 && record_save(record, RUN_RUNNING, NULL, NULL) != 0)) {
                    _exit(1);
                }
            }
        }
        usleep(3000u + 1700u * (unsigned)round);
        assert_int_equal(kill(child, SIGKILL), 0);
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        cJSON *run = file_json(dir, "run.json");
        assert_text(run, "status", "running");
        cJSON_Delete(run);
        assert_int_equal(record_resume(dir, 3), 0);
        char *text = file_text(dir, "metrics.jsonl");
        int lines = 0;
        for (const char *at = text; *at != '\0'; at = strchr(at, '\n') + 1) {
            char expected[32];
            snprintf(expected, sizeof expected, "{\"step\":%d,", ++lines);
            assert_memory_equal(at, expected, strlen(expected));
        }
        assert_in_range(lines, 0, 3);
        free(text);
        record_close(record);
        free(dir);
    }
}

/* A disk that fills up in the middle of a line: no torn line stays, and the line comes once there
 * is room; a record that lacks lines is not saved as whole. */
static void test_record__full_disk_keeps_the_line_for_later(void **state)
{
    (void)state;
    char *dir = io_join(own_folder, "full");
    RecordInfo info = some_info(NULL);
    Record *record;
    assert_int_equal(record_open(dir, &info, -1, &record), 0);
    RecordStep step = some_step(1);
    assert_int_equal(record_step(record, &step), 0);
    char *before = file_text(dir, "metrics.jsonl");
    struct rlimit unlimited, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    tight = (struct rlimit){strlen(before) + 20, unlimited.rlim_max};
    void (*previous)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    step = some_step(2);
    int line_code = record_step(record, &step);
    int save_code = record_save(record, RUN_DONE, NULL, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    signal(SIGXFSZ, previous);
    assert_int_equal(line_code, 0);
    assert_int_equal(save_code, ERR_FAILED);
    assert_non_null(strstr(err_message(), dir));
    char *after = file_text(dir, "metrics.jsonl");
    assert_string_equal(after, before);
    free(after);
    cJSON *run = file_json(dir, "run.json"); /* the old one, whole */
    assert_text(run, "status", "running");
    cJSON_Delete(run);
    step = some_step(3);
    assert_int_equal(record_step(record, &step), 0);
    record_close(record);
    after = file_text(dir, "metrics.jsonl");
    const char *second = strstr(after, "{\"step\":2,"), *third = strstr(after, "{\"step\":3,");
    assert_true(second == after + strlen(before) && third > second && third[-1] == '\n');
    assert_string_equal(strchr(third, '\n'), "\n");
    free(after);
    free(before);
    free(dir);
}

static void test_record__rank_files(void **state)
{
    (void)state;
    char *dir = io_join(own_folder, "ranks");
    RecordInfo info = some_info(NULL);
    Record *record;
    assert_int_equal(record_open(dir, &info, -1, &record), 0);
    TimerReport report = {.wall_s = 2};
    report.phases[PHASE_BACKWARD].exclusive_s = 2;
    for (int i = 0; i < 2; i++) {
        RecordRank rank = {.rank = i,
                           .ranks = 2,
                           .host = "here",
                           .device = "cpu",
                           .timers = &report,
                           .first_loss = i == 1 ? value_of(9.25) : (Value){0},
                           .peak_bytes = value_of(1e9)};
        assert_int_equal(record_rank(dir, &rank), 0);
    }
    cJSON *json = file_json(dir, "ranks/1.json");
    assert_true(number(json, "rank") == 1);
    assert_true(number(json, "ranks") == 2);
    assert_text(json, "host", "here");
    assert_true(number(json, "wall_s") == 2);
    assert_true(number(json, "first_loss") == 9.25);
    assert_true(number(member(member(json, "timers"), "backward"), "exclusive_s") == 2);
    assert_true(number(member(json, "memory"), "peak_bytes") == 1e9);
    assert_true(cJSON_IsNull(member(member(json, "memory"), "reserved_bytes")));
    cJSON_Delete(json);
    record_close(record);
    /* A session that begins, afresh or behind a step, has no ranks of the one before, whichever
     * are there. */
    char *path = io_join(dir, "ranks/1.json"), *last = io_join(dir, "ranks/12.json");
    for (int64_t resume = -1; resume <= 4; resume += 5) {
        int64_t *there;
        size_t count;
        RecordRank more = {.rank = 12, .ranks = 13};
        assert_int_equal(record_rank(dir, &more), 0);
        put_file(dir, "ranks/notes.json", "{}");
        assert_int_equal(record_open(dir, &info, resume, &record), 0);
        assert_false(io_exists(path) || io_exists(last));
        assert_int_equal(record_rank_files(dir, &there, &count), 0);
        assert_int_equal(count, 0);
        free(there);
        char *others = io_join(dir, "ranks/notes.json");
        assert_true(io_exists(others));
        free(others);
        record_close(record);
    }
    free(last);
    free(path);
    free(dir);
}

static void test_record__unwritable_place_is_told(void **state)
{
    (void)state;
    put_file(own_folder, "plain-file", "x");
    char *dir = io_join(own_folder, "plain-file/run");
    RecordInfo info = some_info(NULL);
    Record *record;
    assert_true(record_open(dir, &info, -1, &record) < 0);
    assert_non_null(strstr(err_message(), "plain-file"));
    assert_null(record);
    record_close(record);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record__run_record_has_its_fields),
        cmocka_unit_test(test_record__metric_lines_are_exact_json),
        cmocka_unit_test(test_record__resume_cuts_what_comes_again),
        cmocka_unit_test(test_record__resume_meets_damage),
        cmocka_unit_test(test_record__killed_writer_leaves_whole_records),
        cmocka_unit_test(test_record__full_disk_keeps_the_line_for_later),
        cmocka_unit_test(test_record__rank_files),
        cmocka_unit_test(test_record__unwritable_place_is_told),
    };
    return cmocka_run_group_tests(tests, own_folder_make, own_folder_remove);
}
