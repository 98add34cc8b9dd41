/* Who may ask the server, what for, and what those who ask in bad faith achieve. */
#include "base/io.h"
#include "base/mem.h"
#include "serve/patience.h"
#include "support/own_folder.h"
#include "support/says.h"
#include "support/served.h"
#include "support/watched_run.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void test_serve_gate__foreign_hosts_and_origins_are_refused(void **state)
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
    assert_status("GET", "/api/list", "Host: localhost\r\nHost: evil.example\r\n", 400);
    assert_status("GET", "/api/list", "Host: evil.example\r\nhost: localhost\r\n", 400);
    assert_status("GET", "/api/list", "Host: localhost\r\nHost: localhost\r\n", 400);
    assert_status("GET", "/api/list",
                  "Host: localhost:1\r\nOrigin: http://localhost:1\r\nOrigin: http://e.x\r\n", 400);
}

static void test_serve_gate__only_reads(void **state)
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

static void test_serve_gate__nothing_outside_is_found(void **state)
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

static void test_serve_gate__others_need_the_token(void **state)
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

static void test_serve_gate__broken_requests_end_nothing(void **state)
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

static int connected(void)
{
    int file = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port_of(server))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(file, (struct sockaddr *)&to, sizeof to), 0);
    return file;
}

/* Whether the server has ended this connection. */
static bool is_ended(int file)
{
    char some[256];
    ssize_t got;
    do {
        got = recv(file, some, sizeof some, MSG_DONTWAIT);
    } while (got > 0);
    return got == 0 || errno != EAGAIN;
}

/* Clients that send a byte now and then for ever, more than there are places: somebody else who
 * tries again is let in, in the place of one of them. */
static void test_serve_gate__slow_clients_do_not_keep_others_out(void **state)
{
    (void)state;
    if (server == NULL) {
        skip();
    }
    enum { SLOW = 140, ROUNDS = 600 };
    static const char begun[] = "GET / HTTP/1.1\r\nX: ",
                      request[] = "GET /api/list HTTP/1.1\r\nHost: localhost\r\n\r\n";
    int slow[SLOW], ended = 0;
    for (int i = 0; i < SLOW; i++) {
        slow[i] = connected();
        send(slow[i], begun, sizeof begun - 1, MSG_NOSIGNAL);
    }
    char reply[16] = "";
    for (int round = 0; round < ROUNDS && reply[0] == '\0'; round++) {
        for (int i = 0; i < SLOW; i++) {
            send(slow[i], "x", 1, MSG_NOSIGNAL);
        }
        usleep(100000);
        int file = connected();
        send(file, request, sizeof request - 1, MSG_NOSIGNAL);
        if (recv(file, reply, sizeof reply - 1, 0) <= 0) {
            reply[0] = '\0';
        }
        close(file);
    }
    assert_string_equal(reply, "HTTP/1.1 200 OK");
    for (int i = 0; i < SLOW; i++) {
        ended += is_ended(slow[i]);
        close(slow[i]);
    }
    assert_true(ended > SLOW - PATIENCE_PLACES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serve_gate__foreign_hosts_and_origins_are_refused),
        cmocka_unit_test(test_serve_gate__only_reads),
        cmocka_unit_test(test_serve_gate__nothing_outside_is_found),
        cmocka_unit_test(test_serve_gate__others_need_the_token),
        cmocka_unit_test(test_serve_gate__broken_requests_end_nothing),
        cmocka_unit_test(test_serve_gate__slow_clients_do_not_keep_others_out),
    };
    return cmocka_run_group_tests(tests, served_start, served_end);
}
