/* Over libmicrohttpd, a thread for each connection: one that reads a long record keeps no other
 * waiting. Without the library, the command says how to get it. */
#include "serve/server.h"

#include "base/err.h"

#include <stddef.h>

#ifndef PACER_HAVE_MICROHTTPD

bool server_is_built(void)
{
    return false;
}

int server_start(const ServeOptions *options, Server **out)
{
    (void)options;
    *out = NULL;
    return err_set(ERR_INPUT, "this build has no server: install libmicrohttpd-dev (make setup "
                              "does), then build again");
}

const char *server_address(const Server *server)
{
    (void)server;
    return "";
}

void server_stop(Server *server)
{
    (void)server;
}

#else

#include "base/io.h"
#include "base/mem.h"
#include "report/web.h"
#include "serve/answers.h"
#include "serve/patience.h"

#include <errno.h>
#include <malloc.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define OF_ONE_ADDRESS 64            /* of others' machines: one that is slow leaves room */
#define CONNECTION_MEMORY (64 << 10) /* bytes of a request's head; a list of 200 runs is in it */
#define CONNECTION_STACK (1 << 20)
#define IDLE 20 /* seconds after which a silent connection ends */
#define BACKLOG 64

#define POLICY                                                                        \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " \
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

struct Server {
    struct MHD_Daemon *daemon;
    Answers answers;
    Gate gate;
    Patience patience;
    char *address, *listen;
};

/* --- connections --- */

static PatiencePlace *place_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

static void connection_changed(void *context, struct MHD_Connection *connection, void **place,
                               enum MHD_ConnectionNotificationCode what)
{
    Server *server = context;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        *place = info != NULL ? patience_begin(&server->patience, info->connect_fd) : NULL;
    } else {
        patience_end(&server->patience, *place);
        *place = NULL;
    }
}

static void request_ended(void *context, struct MHD_Connection *connection, void **state,
                          enum MHD_RequestTerminationCode why)
{
    (void)state;
    (void)why;
    Server *server = context;
    patience_turn(&server->patience, place_of(connection), false);
}

/* --- answers --- */

typedef struct {
    int status;
    const char *type, *cookie, *location;
    bool is_static;   /* text is not freed */
    const char *text; /* from malloc unless is_static */
    size_t size;
} Reply;

static enum MHD_Result send_reply(struct MHD_Connection *connection, const Reply *reply)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        reply->size, (void *)reply->text,
        reply->is_static ? MHD_RESPMEM_PERSISTENT : MHD_RESPMEM_MUST_FREE);
    mem_checked(response, reply->size);
    const struct {
        const char *name, *value;
    } headers[] = {
        {"Content-Type", reply->type},
        {"Content-Security-Policy", POLICY},
        {"X-Content-Type-Options", "nosniff"},
        {"Cache-Control", "no-store"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Set-Cookie", reply->cookie},
        {"Location", reply->location},
        {"Allow", reply->status == 405 ? "GET, HEAD" : NULL},
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        if (headers[i].value != NULL) {
            MHD_add_response_header(response, headers[i].name, headers[i].value);
        }
    }
    enum MHD_Result queued = MHD_queue_response(connection, (unsigned)reply->status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result send_text(struct MHD_Connection *connection, int status, const char *text)
{
    char *line = mem_format("%s\n", text);
    return send_reply(connection, &(Reply){.status = status,
                                           .type = "text/plain; charset=utf-8",
                                           .text = line,
                                           .size = strlen(line)});
}

static const char *type_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && strcmp(dot, ".js") == 0    ? "text/javascript; charset=utf-8"
           : dot != NULL && strcmp(dot, ".css") == 0 ? "text/css; charset=utf-8"
                                                     : "text/html; charset=utf-8";
}

static enum MHD_Result send_asset(struct MHD_Connection *connection, const char *name)
{
    size_t size;
    const char *text = web_asset(name, &size);
    if (text == NULL && strncmp(name, "dygraph.", 8) == 0) {
        text = ""; /* this build was made without it, and the page says so */
    }
    return text == NULL ? send_text(connection, 404, "there is no such page")
                        : send_reply(connection, &(Reply){.status = 200,
                                                          .type = type_of(name),
                                                          .is_static = true,
                                                          .text = text,
                                                          .size = size});
}

/* The token that came in the address moves into a cookie, so that links without it work. */
static enum MHD_Result send_cookie(const Server *server, struct MHD_Connection *connection)
{
    char *cookie = mem_format("%s=%s; Path=/; HttpOnly; SameSite=Strict", server->gate.cookie,
                              server->gate.token);
    enum MHD_Result sent = send_reply(connection, &(Reply){.status = 303,
                                                           .type = "text/plain; charset=utf-8",
                                                           .cookie = cookie,
                                                           .location = "/",
                                                           .is_static = true,
                                                           .text = ""});
    free(cookie);
    return sent;
}

/* How often a header comes. */
typedef struct {
    int hosts, origins;
} Heads;

static enum MHD_Result count_head(void *context, enum MHD_ValueKind kind, const char *name,
                                  const char *value)
{
    (void)kind;
    (void)value;
    Heads *heads = context;
    heads->hosts += strcasecmp(name, "Host") == 0;
    heads->origins += strcasecmp(name, "Origin") == 0;
    return MHD_YES;
}

static enum MHD_Result answer(void *context, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *body,
                              size_t *body_size, void **state)
{
    (void)version;
    (void)body;
    static const char seen[] = "";
    Server *server = context;
    const enum MHD_ValueKind head = MHD_HEADER_KIND, query = MHD_GET_ARGUMENT_KIND;
    if (*state == NULL) {
        patience_turn(&server->patience, place_of(connection), true);
    }
    if (*state == NULL && (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)) {
        *state = (void *)seen; /* the whole head is answered in one go, behind any body */
        return MHD_YES;
    }
    if (*body_size > 0) {
        *body_size = 0;
        return MHD_YES;
    }
    Heads heads = {0};
    MHD_get_connection_values(connection, head, count_head, &heads);
    Request request = {
        .method = method,
        .path = url,
        .host = MHD_lookup_connection_value(connection, head, "Host"),
        .origin = MHD_lookup_connection_value(connection, head, "Origin"),
        .site = MHD_lookup_connection_value(connection, head, "Sec-Fetch-Site"),
        .cookie = MHD_lookup_connection_value(connection, head, "Cookie"),
        .token = MHD_lookup_connection_value(connection, query, "token"),
        .repeated = heads.hosts > 1 || heads.origins > 1,
    };
    const char *why, *rest;
    bool fresh;
    int refused = gate_check(&server->gate, &request, &why, &fresh);
    if (refused != 0) {
        return send_text(connection, refused, why);
    }
    Route route = route_find(url, &rest);
    if (fresh && route == ROUTE_ASSET && strcmp(rest, "serve.html") == 0) {
        return send_cookie(server, connection);
    }
    if (route == ROUTE_ASSET) {
        return send_asset(connection, rest);
    }
    if (route == ROUTE_NONE) {
        return send_text(connection, 404, "there is no such page");
    }
    Parameters parameters = {
        .from = MHD_lookup_connection_value(connection, query, "from"),
        .validation = MHD_lookup_connection_value(connection, query, "val"),
        .seen = MHD_lookup_connection_value(connection, query, "seen"),
        .runs = MHD_lookup_connection_value(connection, query, "runs"),
    };
    Page page = {0};
    int status = answers_make(&server->answers, route, rest, &parameters, &page);
    return send_reply(connection, &(Reply){.status = status,
                                           .type = "application/json",
                                           .text = page.text,
                                           .size = page.size});
}

/* --- the address --- */

static int bind_failed(const char *host, int port, int cause)
{
    if (cause == EADDRINUSE) {
        return err_set(ERR_INPUT, "port %d is in use; --port 0 takes one that is free", port);
    }
    if (cause == EACCES) {
        return err_set(ERR_INPUT, "port %d is for root alone; take one above 1023", port);
    }
    return err_set(ERR_INPUT, "--listen %s, port %d: %s", host, port, strerror(cause));
}

/* A socket that listens, and its port. */
static int open_socket(const char *host, int port, int *out, int *bound)
{
    char service[8];
    snprintf(service, sizeof service, "%d", port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int cause = getaddrinfo(host, service, &hints, &found);
    if (cause != 0) {
        return err_set(ERR_INPUT, "--listen %s: %s; name an address of this machine, or 0.0.0.0",
                       host, gai_strerror(cause));
    }
    int file = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1, code = 0;
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } name = {0};
    socklen_t size = sizeof name;
    if (file < 0 || setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        bind(file, found->ai_addr, found->ai_addrlen) != 0 || listen(file, BACKLOG) != 0 ||
        getsockname(file, &name.any, &size) != 0) {
        code = bind_failed(host, port, errno);
    }
    freeaddrinfo(found);
    if (code != 0 && file >= 0) {
        close(file);
    }
    *out = file;
    *bound = ntohs(name.any.sa_family == AF_INET6 ? name.v6.sin6_port : name.v4.sin_port);
    return code;
}

static int make_token(Gate *gate)
{
    unsigned char bytes[(TOKEN_SIZE - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        return err_set(ERR_FAILED, "no random numbers for a token: %s", strerror(errno));
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        snprintf(gate->token + 2 * i, 3, "%02x", bytes[i]);
    }
    return 0;
}

static void make_address(Server *server, int port)
{
    const char *host = server->listen;
    bool any = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    host = any && server->gate.host[0] != '\0' ? server->gate.host : host;
    bool brackets = strchr(host, ':') != NULL;
    server->address =
        mem_format("http://%s%s%s:%d/%s%s", brackets ? "[" : "", host, brackets ? "]" : "", port,
                   server->gate.token[0] != '\0' ? "?token=" : "", server->gate.token);
}

static void server_free(Server *server)
{
    free(server->address);
    free(server->listen);
    free(server);
}

bool server_is_built(void)
{
    return true;
}

int server_start(const ServeOptions *options, Server **out)
{
    *out = NULL;
    Server *server = mem_zalloc(1, sizeof *server);
    bool everybody = options->listen[0] != '\0';
    server->listen = mem_strdup(everybody ? options->listen : "127.0.0.1");
    server->gate.listen = everybody ? server->listen : NULL;
    gethostname(server->gate.host, sizeof server->gate.host - 1);
    int file = -1, port = 0;
    int code = everybody ? make_token(&server->gate) : 0;
    code = code != 0 ? code : open_socket(server->listen, options->port, &file, &port);
    if (code == 0) {
        code = answers_open(&server->answers, options->folders, options->count);
        if (code != 0) {
            close(file);
        }
    }
    if (code != 0) {
        server_free(server);
        return code;
    }
    snprintf(server->gate.cookie, sizeof server->gate.cookie, "pacer-%d", port);
    make_address(server, port);
    mallopt(M_ARENA_MAX, 2); /* connections come and go: an arena for each would add up */
    bool watched = patience_start(&server->patience);
    server->daemon =
        !watched
            ? NULL
            : MHD_start_daemon(
                  MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
                      MHD_USE_ITC,
                  0, NULL, NULL, answer, server, MHD_OPTION_LISTEN_SOCKET, file,
                  MHD_OPTION_CONNECTION_LIMIT, (unsigned)PATIENCE_PLACES,
                  MHD_OPTION_PER_IP_CONNECTION_LIMIT, everybody ? (unsigned)OF_ONE_ADDRESS : 0U,
                  MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                  (size_t)CONNECTION_MEMORY, MHD_OPTION_THREAD_STACK_SIZE, (size_t)CONNECTION_STACK,
                  MHD_OPTION_NOTIFY_CONNECTION, connection_changed, server,
                  MHD_OPTION_NOTIFY_COMPLETED, request_ended, server, MHD_OPTION_END);
    if (server->daemon == NULL) {
        if (watched) {
            patience_stop(&server->patience);
        }
        close(file);
        answers_close(&server->answers);
        server_free(server);
        return err_set(ERR_FAILED, "the server does not start: %s", strerror(errno));
    }
    *out = server;
    return 0;
}

const char *server_address(const Server *server)
{
    return server->address;
}

void server_stop(Server *server)
{
    MHD_stop_daemon(server->daemon); /* closes the sockets */
    patience_stop(&server->patience);
    answers_close(&server->answers);
    server_free(server);
}

#endif
