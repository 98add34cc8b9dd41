/* The server from outside, over its socket: what it answers, what it refuses, records that grow,
 * are replaced or broken. */
#include "serve/server.h"

#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "report/page.h"
#include "support/json_assert.h"
#include "support/own_folder.h"
#include "support/run_record.h"
#include "support/says.h"
#include "support/watched_run.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static Server *server;
static char *runs;

static int start(void **state)
{
    own_folder_make(state);
    runs = io_join(own_folder, "runs");
    char *first = io_join(runs, "first"), *outside = io_join(own_folder, "outside"),
         *link = io_join(runs, "link");
    assert_int_equal(io_make_folders(first), 0);
    assert_int_equal(io_make_folders(outside), 0);
    run_record_write(first, 1);
    run_record_write(outside, 1);
    assert_int_equal(symlink(outside, link), 0);
    free(first);
    free(outside);
    free(link);
    char *folders[] = {runs};
    if (server_is_built()) {
        int code =
            server_start(&(ServeOptions){.folders = folders, .count = 1, .listen = ""}, &server);
        assert_int_equal(code, 0);
    }
    return 0;
}

static int end(void **state)
{
    if (server != NULL) {
        server_stop(server);
    }
    free(runs);
    return own_folder_remove(state);
}

/* --- a client --- */

static int port_of(const Server *of)
{
    return atoi(strrchr(server_address(of), ':') + 1);
}

/* Sends the bytes as they are; all that comes back until the server closes. What is not whole is
 * followed by the end of what is sent. Caller frees. */
static char *exchange(const Server *with, const char *request, bool whole)
{
    if (with == NULL) {
        skip();
    }
    int file = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port_of(with))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(file, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(write(file, request, strlen(request)), (ssize_t)strlen(request));
    if (!whole) {
        shutdown(file, SHUT_WR);
    }
    Page reply = {0};
    char bytes[4096];
    for (ssize_t got; (got = read(file, bytes, sizeof bytes)) > 0;) {
        page_put_bytes(&reply, bytes, (size_t)got);
    }
    close(file);
    page_put(&reply, "%s", "");
    return reply.text;
}

/* One request with more header lines, each ending in \r\n. */
static char *ask(const Server *with, const char *method, const char *path, const char *headers)
{
    char *host = with == NULL || strstr(headers, "Host:") != NULL
                     ? mem_strdup("")
                     : mem_format("Host: 127.0.0.1:%d\r\n", port_of(with));
    char *request =
        mem_format("%s %s HTTP/1.1\r\n%s%sConnection: close\r\n\r\n", method, path, host, headers);
    char *reply = exchange(with, request, true);
    free(request);
    free(host);
    return reply;
}

static int status_of(const char *reply)
{
    return strncmp(reply, "HTTP/1.1 ", 9) == 0 ? atoi(reply + 9) : -1;
}

static void assert_status(const char *method, const char *path, const char *headers, int status)
{
    char *reply = ask(server, method, path, headers);
    if (status_of(reply) != status) {
        fail_msg("%s %s %s: not %d but %.200s", method, path, headers, status, reply);
    }
    free(reply);
}

static cJSON *get(const char *path)
{
    char *reply = ask(server, "GET", path, "");
    const char *body = strstr(reply, "\r\n\r\n");
    cJSON *tree = body != NULL ? cJSON_Parse(body + 4) : NULL;
    if (status_of(reply) != 200 || tree == NULL) {
        fail_msg("%s: %.300s", path, reply);
    }
    free(reply);
    return tree;
}

/* The id of the only run whose name is that; NULL: it is not in the list. Caller frees. */
static char *find_id(const char *name)
{
    cJSON *list = get("/api/list");
    const cJSON *entry;
    char *id = NULL;
    cJSON_ArrayForEach(entry, json_get(list, "entries"))
    {
        if (strcmp(json_text_or(entry, "name", ""), name) == 0) {
            assert_null(id);
            id = mem_strdup(json_text(entry, "id"));
        }
    }
    cJSON_Delete(list);
    return id;
}

/* The same of one that is there: the server looks again after a second. */
static char *id_of(const char *name)
{
    char *id = NULL;
    for (int i = 0; i < 1200 && (id = find_id(name)) == NULL; i++) {
        usleep(50000);
    }
    assert_non_null(id);
    return id;
}

static cJSON *get_run(const char *id, const char *rest)
{
    char *path = mem_format("/api/run/%s%s", id, rest);
    cJSON *run = get(path);
    free(path);
    return run;
}

/* --- who may ask --- */

static void test_serve__foreign_hosts_and_origins_are_refused(void **state)
{
    (void)state;
    assert_status("GET", "/", "", 200);
    assert_status("GET", "/api/list", "Host: localhost\r\n", 200);
    assert_status("GET", "/api/list", "Host: localhost:9999\r\n", 200);
    assert_status("GET", "/api/list", "Host: evil.example\r\n", 403);
    assert_status("GET", "/api/list", "Host: 127.0.0.1.evil.example\r\n", 403);
    assert_status("GET", "/api/list", "Host: localhost:80:80\r\n", 403);
    assert_status("GET", "/api/list", "Host: 192.168.0.1\r\n", 403);
    assert_status("GET", "/api/list", "Host: \r\n", 403);
    assert_status("GET", "/api/list", "Origin: http://evil.example\r\n", 403);
    assert_status("GET", "/api/list", "Origin: null\r\n", 403);
    assert_status("GET", "/api/list", "Host: localhost:1\r\nOrigin: http://localhost:1\r\n", 200);
    assert_status("GET", "/api/list", "Host: localhost:1\r\nOrigin: http://localhost:2\r\n", 403);
    assert_status("GET", "/api/list", "Sec-Fetch-Site: cross-site\r\n", 403);
    assert_status("GET", "/api/list", "Sec-Fetch-Site: same-site\r\n", 403);
    assert_status("GET", "/api/list", "Sec-Fetch-Site: same-origin\r\n", 200);
    assert_status("GET", "/", "Sec-Fetch-Site: cross-site\r\n", 200); /* a link to it */
}

static void test_serve__only_reads(void **state)
{
    (void)state;
    static const char *const methods[] = {"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "NONSENSE"};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        assert_status(methods[i], "/api/list", "", 405);
    }
    assert_status("POST", "/", "Content-Length: 0\r\n", 405);
    char *reply = ask(server, "HEAD", "/api/list", "");
    assert_int_equal(status_of(reply), 200);
    assert_non_null(strstr(reply, "Content-Security-Policy: default-src 'none'"));
    assert_non_null(strstr(reply, "X-Content-Type-Options: nosniff"));
    assert_non_null(strstr(reply, "Cache-Control: no-store"));
    assert_string_equal(strstr(reply, "\r\n\r\n"), "\r\n\r\n"); /* no body */
    free(reply);
}

static void test_serve__nothing_outside_is_found(void **state)
{
    (void)state;
    static const char *const paths[] = {"/../../etc/passwd",
                                        "/..%2f..%2fetc/passwd",
                                        "/%2e%2e/run.json",
                                        "/api/run/../list",
                                        "/api/run/0123456789abcdef",
                                        "/api/run/first",
                                        "/api/run/%00",
                                        "/api/run/",
                                        "/api/experiment/0123456789abcdef",
                                        "/api/samples/0000000000000000",
                                        "/runs/first/run.json",
                                        "/api",
                                        "/api/",
                                        "//",
                                        "/view.js/",
                                        "/web.c"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        assert_status("GET", paths[i], "", 404);
    }
    assert_status("GET", "/api/curves", "", 400);
    assert_status("GET", "/api/curves?runs=x,y,../../z", "", 400);
    cJSON *none = get("/api/curves?runs=0123456789abcdef");
    assert_int_equal(cJSON_GetArraySize(json_get(none, "runs")), 0);
    cJSON_Delete(none);

    /* A link below the folders leads out of them; so may a file. */
    char *first = id_of("first");
    assert_null(find_id("link"));
    char *dir = io_join(runs, "first"), *lines = io_join(dir, "metrics.jsonl"),
         *away = io_join(own_folder, "outside/metrics.jsonl"), *kept = io_join(own_folder, "kept");
    cJSON *run = get_run(first, "");
    int before = cJSON_GetArraySize(json_find(run, "lines.step"));
    assert_true(before > 0);
    cJSON_Delete(run);
    assert_int_equal(rename(lines, kept), 0);
    assert_int_equal(symlink(away, lines), 0);
    usleep(500000);
    watched_put(own_folder, "outside/metrics.jsonl", "a",
                "{\"step\":999999,\"loss\":1,\"ms\":1}\n");
    run = get_run(first, "");
    assert_true(json_number(run, "step") < 999999);
    cJSON_Delete(run);
    assert_int_equal(rename(kept, lines), 0);

    /* A folder that was found and is now a link. */
    char *moved = io_join(own_folder, "moved");
    assert_int_equal(rename(dir, moved), 0);
    assert_int_equal(symlink(moved, dir), 0);
    char *path = mem_format("/api/run/%s", first);
    assert_status("GET", path, "", 404);
    assert_int_equal(unlink(dir), 0);
    assert_int_equal(rename(moved, dir), 0);
    free(path);
    free(moved);
    free(dir);
    free(lines);
    free(away);
    free(kept);
    free(first);
}

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

static void test_serve__others_need_the_token(void **state)
{
    (void)state;
    char *folders[] = {runs};
    Server *open;
    if (!server_is_built()) {
        skip();
    }
    ServeOptions options = {.folders = folders, .count = 1, .listen = "127.0.0.1"};
    assert_int_equal(server_start(&options, &open), 0);
    const char *token = strstr(server_address(open), "?token=") + 7;
    assert_int_equal(strlen(token), 32);
    char *with = mem_format("/?token=%s", token), *api = mem_format("/api/list?token=%s", token);
    char *reply = ask(open, "GET", "/", "");
    assert_int_equal(status_of(reply), 401);
    free(reply);
    reply = ask(open, "GET", "/api/list?token=00000000000000000000000000000000", "");
    assert_int_equal(status_of(reply), 401);
    free(reply);
    reply = ask(open, "GET", api, "");
    assert_int_equal(status_of(reply), 200);
    free(reply);

    /* It becomes a cookie, and the address loses it. */
    reply = ask(open, "GET", with, "");
    assert_int_equal(status_of(reply), 303);
    assert_non_null(strstr(reply, "HttpOnly; SameSite=Strict"));
    const char *cookie = strstr(reply, "Set-Cookie: ") + strlen("Set-Cookie: ");
    char *header = mem_format("Cookie: other=1; %.*s\r\n", (int)strcspn(cookie, ";"), cookie);
    char *again = ask(open, "GET", "/api/list", header);
    assert_int_equal(status_of(again), 200);
    free(again);
    header[strlen(header) - 3] = header[strlen(header) - 3] == '0' ? '1' : '0';
    again = ask(open, "GET", "/api/list", header);
    assert_int_equal(status_of(again), 401);
    free(again);
    free(reply);
    free(header);
    free(with);
    free(api);

    /* Another takes the same port: the message says what to do. */
    options.port = port_of(open);
    Server *second;
    assert_int_equal(server_start(&options, &second), -2);
    assert_says("--port 0");
    server_stop(open);
}

static void test_serve__broken_requests_end_nothing(void **state)
{
    (void)state;
    static const char *const requests[] = {
        "\r\n\r\n\r\n\r\n",
        "GET\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nContent-Length: -1\r\n\r\n",
        "GET /api/list?seen=%zz&seen&&=%00 HTTP/1.1\r\nHost: localhost\r\nConnection: "
        "close\r\n\r\n",
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        free(exchange(server, requests[i], false));
    }
    char *many = mem_alloc(300000), *line;
    memset(many, 'a', 299999);
    many[299999] = '\0';
    line = mem_format("/api/curves?runs=%s", many);
    free(ask(server, "GET", line, ""));
    assert_status("GET", "/api/list", "", 200);
    free(many);
    free(line);
}

/* --- records --- */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serve__foreign_hosts_and_origins_are_refused),
        cmocka_unit_test(test_serve__only_reads),
        cmocka_unit_test(test_serve__nothing_outside_is_found),
        cmocka_unit_test(test_serve__others_need_the_token),
        cmocka_unit_test(test_serve__broken_requests_end_nothing),
        cmocka_unit_test(test_serve__an_experiment_is_not_read_through_links_out),
        cmocka_unit_test(test_serve__a_sweep_that_was_killed_does_not_run),
        cmocka_unit_test(test_serve__only_new_lines_travel),
        cmocka_unit_test(test_serve__a_list_that_did_not_change_is_short),
        cmocka_unit_test(test_serve__many_ask_while_a_run_grows),
    };
    return cmocka_run_group_tests(tests, start, end);
}
