#include "support/served.h"

#include "base/io.h"
#include "base/mem.h"
#include "report/page.h"
#include "support/json_assert.h"
#include "support/own_folder.h"
#include "support/run_record.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

Server *server;
char *runs;

int served_start(void **state)
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

int served_end(void **state)
{
    if (server != NULL) {
        server_stop(server);
    }
    free(runs);
    return own_folder_remove(state);
}

/* --- a client --- */

int port_of(const Server *of)
{
    return atoi(strrchr(server_address(of), ':') + 1);
}

/* Sends the bytes as they are; all that comes back until the server closes. What is not whole is
 * followed by the end of what is sent. Caller frees. */
char *exchange(const Server *with, const char *request, bool whole)
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
char *ask(const Server *with, const char *method, const char *path, const char *headers)
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

int status_of(const char *reply)
{
    return strncmp(reply, "HTTP/1.1 ", 9) == 0 ? atoi(reply + 9) : -1;
}

void assert_status(const char *method, const char *path, const char *headers, int status)
{
    char *reply = ask(server, method, path, headers);
    if (status_of(reply) != status) {
        fail_msg("%s %s %s: not %d but %.200s", method, path, headers, status, reply);
    }
    free(reply);
}

cJSON *get(const char *path)
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
char *find_id(const char *name)
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
char *id_of(const char *name)
{
    char *id = NULL;
    for (int i = 0; i < 1200 && (id = find_id(name)) == NULL; i++) {
        usleep(50000);
    }
    assert_non_null(id);
    return id;
}

cJSON *get_run(const char *id, const char *rest)
{
    char *path = mem_format("/api/run/%s%s", id, rest);
    cJSON *run = get(path);
    free(path);
    return run;
}
