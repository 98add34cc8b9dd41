/* What the server tells of records that grow, are replaced or broken. */
#include "base/io.h"
#include "base/mem.h"
#include "support/json_assert.h"
#include "support/own_folder.h"
#include "support/run_record.h"
#include "support/served.h"
#include "support/watched_run.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_serve__an_experiment_is_not_read_through_links_out(void **state)
{
    (void)state;
    char *dir = io_join(runs, "linked/runs"), *run = io_join(dir, "a"),
         *outside = io_join(own_folder, "outside");
    assert_int_equal(io_make_folders(dir), 0);
    watched_put(runs, "linked/experiment.json", "w",
                "{\"format\":1,\"name\":\"e\",\"axes\":[[\"lr\"]],\"runs\":[{\"id\":\"a\",\"dir\":"
                "\"runs/a\",\"configuration\":0,\"repeat\":1,\"state\":\"done\","
                "\"settings\":{\"lr\":\"0.00424264069\"}}]}\n");
    assert_int_equal(symlink(outside, run), 0);
    char *id = id_of("linked"), *path = mem_format("/api/experiment/%s", id);
    char *reply = ask(server, "GET", path, "");
    assert_non_null(strstr(reply, "linked/runs/a: a link out of the folders served"));
    assert_int_equal(status_of(reply), 500);
    free(reply);

    /* What lies in it is shown, by the names that a report has for it. */
    assert_int_equal(unlink(run), 0);
    assert_int_equal(io_make_folders(run), 0);
    run_record_write(run, 1);
    free(id_of("linked/runs/a"));
    cJSON_Delete(get(path));
    reply = ask(server, "GET", "/api/list", "");
    assert_non_null(strstr(reply, "\"lr 0.004243, repeat 2\""));
    free(reply);
    free(id);
    free(path);
    free(outside);
    free(run);
    free(dir);
}

static void test_serve__a_sweep_that_was_killed_does_not_run(void **state)
{
    (void)state;
    char *dir = io_join(runs, "killed/runs/a"), *record = io_join(runs, "killed/experiment.json");
    assert_int_equal(io_make_folders(dir), 0);
    run_record_write(dir, 1);
    watched_put(
        runs, "killed/experiment.json", "w",
        "{\"format\":1,\"name\":\"e\",\"axes\":[],\"runs\":[{\"id\":\"a\",\"dir\":\"runs/a\","
        "\"configuration\":0,\"repeat\":0,\"state\":\"running\"}]}\n");
    const char *expected[] = {"running", "dead"}; /* just now; long ago */
    for (int i = 0; i < 2; i++) {
        const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000}};
        assert_int_equal(i == 0 ? 0 : utimensat(AT_FDCWD, record, times, 0), 0);
        bool found = false;
        for (int k = 0; k < 1200 && !found; k++) {
            cJSON *list = get("/api/list");
            const cJSON *entry;
            cJSON_ArrayForEach(entry, json_get(list, "entries"))
            {
                found |= strcmp(json_text_or(entry, "name", ""), "killed") == 0 &&
                         strcmp(json_text_or(entry, "state", ""), expected[i]) == 0;
            }
            cJSON_Delete(list);
            usleep(found ? 0 : 50000);
        }
        assert_true(found);
    }
    free(record);
    free(dir);
}

static void test_serve__only_new_lines_travel(void **state)
{
    (void)state;
    char *dir = io_join(runs, "growing");
    assert_int_equal(io_make_folders(dir), 0);
    watched_put_running(dir, cJSON_CreateNull(), watched_own_host());
    watched_put_lines(dir, 1, 100, 5);
    char *id = id_of("growing");
    cJSON *all = get_run(id, "");
    assert_int_equal(cJSON_GetArraySize(json_find(all, "lines.step")), 100);
    watched_put_lines(dir, 101, 103, 4.9);
    watched_put(dir, "metrics.jsonl", "a", "{\"step\":103,\"val_loss\":2.5}\n{\"step\":104,\"lo");
    usleep(500000);
    char *rest = mem_format("?from=%s&val=%s", json_text(all, "from"), json_text(all, "val"));
    cJSON *fresh = get_run(id, rest);
    const cJSON *steps = json_find(fresh, "lines.step");
    assert_int_equal(json_number(fresh, "lines.at"), 100);
    assert_int_equal(cJSON_GetArraySize(steps), 3);
    assert_int_equal(cJSON_GetArrayItem(steps, 2)->valueint, 103);
    assert_int_equal(cJSON_GetArraySize(json_find(fresh, "validation.loss")), 1);
    assert_true(json_number(fresh, "val_loss") == 2.5);
    cJSON_Delete(fresh);

    /* A run that goes on from before: the old rows are not to be kept. */
    watched_put(dir, "metrics.jsonl", "w", "");
    watched_put_lines(dir, 1, 50, 5);
    usleep(500000);
    fresh = get_run(id, rest);
    assert_int_equal(json_number(fresh, "lines.at"), 0);
    assert_int_equal(cJSON_GetArraySize(json_find(fresh, "lines.step")), 50);
    cJSON_Delete(fresh);
    cJSON_Delete(all);
    free(rest);
    free(id);
    assert_int_equal(io_remove_tree(dir), 0);
    for (int i = 0; i < 1200 && (id = find_id("growing")) != NULL; i++) {
        free(id);
        usleep(50000);
    }
    assert_null(id);
    free(dir);
}

static void test_serve__a_list_that_did_not_change_is_short(void **state)
{
    (void)state;
    cJSON *list = get("/api/list");
    char *path = mem_format("/api/list?seen=%s", json_text(list, "version"));
    cJSON *again = get(path);
    assert_null(json_get(again, "entries"));
    cJSON_Delete(again);
    cJSON_Delete(list);

    /* A run without lines shows the loss of its summary. */
    char *dir = io_join(runs, "summed"), *lines = io_join(dir, "metrics.jsonl");
    assert_int_equal(io_make_folders(dir), 0);
    run_record_write(dir, 1);
    assert_int_equal(unlink(lines), 0);
    free(id_of("summed"));
    list = get(path);
    const cJSON *entry;
    int found = 0;
    cJSON_ArrayForEach(entry, json_get(list, "entries"))
    {
        if (strcmp(json_text_or(entry, "name", ""), "summed") == 0) {
            found++;
            assert_true(json_number(entry, "loss") > 0);
        }
    }
    assert_int_equal(found, 1);
    cJSON_Delete(list);
    assert_int_equal(io_remove_tree(dir), 0);
    free(path);
    free(dir);
    free(lines);
}

enum { CLIENTS = 8, ASKED = 12 };

/* Asks for the list, the run and its curve in turn; how often it was answered. */
static void *keep_asking(void *id)
{
    intptr_t answered = 0;
    for (int i = 0; i < ASKED; i++) {
        char *path = i % 3 == 0 ? mem_strdup("/api/list")
                                : mem_format(i % 3 == 1 ? "/api/run/%s" : "/api/curves?runs=%s",
                                             (const char *)id);
        char *reply = ask(server, "GET", path, "");
        answered += status_of(reply) == 200;
        free(reply);
        free(path);
    }
    return (void *)answered;
}

static void test_serve__many_ask_while_a_run_grows(void **state)
{
    (void)state;
    char *dir = io_join(runs, "busy");
    assert_int_equal(io_make_folders(dir), 0);
    watched_put_running(dir, cJSON_CreateNull(), watched_own_host());
    watched_put_lines(dir, 1, 10, 5);
    char *id = id_of("busy");
    pthread_t threads[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, keep_asking, id), 0);
    }
    for (int i = 1; i <= 50; i++) {
        watched_put_lines(dir, 10 * i + 1, 10 * i + 10, 5);
        usleep(5000);
    }
    for (int i = 0; i < CLIENTS; i++) {
        void *answered;
        assert_int_equal(pthread_join(threads[i], &answered), 0);
        assert_int_equal((intptr_t)answered, ASKED);
    }
    assert_int_equal(io_remove_tree(dir), 0);
    free(id);
    free(dir);
}

/* What is broken says why, in the list and on its page. */
static void test_serve__says_why_a_run_is_not_shown(void **state)
{
    (void)state;
    static const struct {
        const char *name, *text, *state, *says;
    } cases[] = {
        {"empty", "", "unreadable", "run.json"},
        {"torn", "{\"schema\": 1, \"status\": \"run", "unreadable", "not a JSON object"},
        {"list", "[1]", "unreadable", "not a JSON object"},
        {"failed", "{\"status\": \"failed\", \"message\": \"the loss is NaN\"}", "failed",
         "is NaN"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *dir = io_join(runs, cases[i].name);
        assert_int_equal(io_make_folders(dir), 0);
        watched_put(dir, "run.json", "w", cases[i].text);
        char *id = id_of(cases[i].name);
        cJSON *list = get("/api/list"), *run = get_run(id, "");
        const cJSON *entry;
        cJSON_ArrayForEach(entry, json_get(list, "entries"))
        {
            if (strcmp(json_text(entry, "id"), id) == 0) {
                assert_string_equal(json_text(entry, "state"), cases[i].state);
                assert_non_null(strstr(json_text_or(entry, "reason", ""), cases[i].says));
            }
        }
        assert_string_equal(json_text(run, "state"), cases[i].state);
        assert_non_null(strstr(json_text_or(run, "reason", ""), cases[i].says));
        cJSON_Delete(list);
        cJSON_Delete(run);
        assert_int_equal(io_remove_tree(dir), 0);
        free(id);
        free(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serve__an_experiment_is_not_read_through_links_out),
        cmocka_unit_test(test_serve__a_sweep_that_was_killed_does_not_run),
        cmocka_unit_test(test_serve__only_new_lines_travel),
        cmocka_unit_test(test_serve__a_list_that_did_not_change_is_short),
        cmocka_unit_test(test_serve__many_ask_while_a_run_grows),
        cmocka_unit_test(test_serve__says_why_a_run_is_not_shown),
    };
    return cmocka_run_group_tests(tests, served_start, served_end);
}
