/* `pacer bench comm`: every collective between the ranks over sizes, timed, checked element by
 * element, and shown as nccl-tests shows it; the link that the all-reduces behave like is kept for
 * `pacer plan --link measured`. */
#include "analyse/collectives.h"
#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/output.h"
#include "base/signals.h"
#include "cli/commands.h"
#include "cli/ranks.h"
#include "train/setup.h"

#include <stdlib.h>
#include <string.h>

#define SMALLEST ((size_t)1 << 10)   /* bytes; each size is four times the one before */
#define FIT_FROM ((double)(1 << 14)) /* smaller ones are latency alone, and noisy */

typedef struct {
    const Config *cfg;
    Comm *comm;
    Backend *backend;
    CollectivePoint *points[COLLECTIVES];
    int sizes;
    int64_t wrong;
    MeasuredLink link; /* without ranks: not fitted */
} Bench;

static void print_table(const Bench *b)
{
    int ranks = comm_ranks(b->comm);
    const char *type = b->cfg->comm_dtype == CONFIG_COMM_DTYPE_BF16 ? "bf16" : "f32";
    printf("%d ranks, %s, %s; median of %lld, of the slowest rank\n", ranks,
           backend_title(b->backend), comm_library(b->comm), (long long)b->cfg->repeats);
    printf("%-14s %12s %12s %5s %12s %10s %10s %6s\n", "collective", "bytes", "elements", "type",
           "us", "GB/s", "bus GB/s", "wrong");
    for (int kind = 0; kind < COLLECTIVES; kind++) {
        for (int i = 0; i < b->sizes; i++) {
            CollectivePoint p = b->points[kind][i];
            printf("%-14s %12.0f %12lld %5s %12.1f %10.3f %10.3f %6lld\n",
                   collective_name((Collective)kind), p.bytes, (long long)p.count, type,
                   1e6 * p.seconds, 1e-9 * collective_algorithm_rate(p),
                   1e-9 * collective_bus_rate((Collective)kind, p, ranks), (long long)p.wrong);
        }
    }
    if (b->link.ranks > 0) {
        printf("link: %.3g us a message, %.4g GB/s for each rank, fitted to all-reduces within "
               "%.0f %%; kept for `pacer plan --link measured`\n",
               1e6 * b->link.link.latency_s, 1e-9 * b->link.link.bytes_per_s, 100 * b->link.error);
    }
}

static int write_json(const Bench *b, const char *path)
{
    cJSON *tree = json_object();
    int ranks = comm_ranks(b->comm);
    json_put_whole(tree, "ranks", ranks);
    json_put_text(tree, "device", backend_title(b->backend));
    json_put_text(tree, "library", comm_library(b->comm));
    json_put_text(tree, "dtype", b->cfg->comm_dtype == CONFIG_COMM_DTYPE_BF16 ? "bf16" : "f32");
    for (int kind = 0; kind < COLLECTIVES; kind++) {
        cJSON *rows = json_array();
        for (int i = 0; i < b->sizes; i++) {
            CollectivePoint p = b->points[kind][i];
            cJSON *row = json_object();
            json_put_number(row, "bytes", p.bytes);
            json_put_number(row, "seconds", p.seconds);
            json_put_number(row, "bytes_s", collective_algorithm_rate(p));
            json_put_number(row, "bus_bytes_s", collective_bus_rate((Collective)kind, p, ranks));
            json_put_whole(row, "wrong", p.wrong);
            cJSON_AddItemToArray(rows, row);
        }
        json_put_item(tree, collective_name((Collective)kind), rows);
    }
    if (b->link.ranks > 0) {
        cJSON *link = json_put_object(tree, "link");
        json_put_number(link, "latency_s", b->link.link.latency_s);
        json_put_number(link, "bytes_s", b->link.link.bytes_per_s);
        json_put_number(link, "error", b->link.error);
    }
    return json_write(path, tree);
}

static int measure(Bench *b)
{
    const Config *cfg = b->cfg;
    DType dtype = cfg->comm_dtype == CONFIG_COMM_DTYPE_BF16 ? DT_BF16 : DT_F32;
    size_t most = (size_t)cfg->bytes;
    CollectiveTimer timer;
    int code = collectives_open(&timer, b->comm, b->backend, dtype, most, (int)cfg->warm,
                                (int)cfg->repeats);
    for (size_t bytes = most; bytes >= SMALLEST || b->sizes == 0; bytes /= 4) {
        b->sizes++;
    }
    for (int kind = 0; kind < COLLECTIVES && code == 0; kind++) {
        b->points[kind] = mem_zalloc((size_t)b->sizes, sizeof *b->points[kind]);
        for (int i = 0; i < b->sizes && code == 0; i++) {
            size_t bytes = most >> 2 * (b->sizes - 1 - i);
            log_live("%s of %zu bytes", collective_name((Collective)kind), bytes);
            code = collectives_time(&timer, (Collective)kind, bytes, &b->points[kind][i]);
            b->wrong += b->points[kind][i].wrong;
        }
    }
    collectives_close(&timer);
    return code;
}

/* The link, where nothing was wrong and sizes are enough. The first rank stores it. */
static void keep_link(Bench *b)
{
    const CollectivePoint *points = b->points[ALL_REDUCE];
    int first = 0;
    while (first < b->sizes && points[first].bytes < FIT_FROM) {
        first++;
    }
    if (b->wrong == 0 && b->sizes - first >= 2) {
        b->link = link_fit(points + first, b->sizes - first, comm_ranks(b->comm));
        if (link_store(&b->link, b->backend) != 0) {
            log_warn("%s; plan --link measured will not know it", err_message());
        }
    }
}

static int bench(Bench *b)
{
    const Config *cfg = b->cfg;
    int code = measure(b);
    log_live("%s", "");
    if (code != 0) {
        return code;
    }
    if (comm_rank(b->comm) == 0) {
        keep_link(b);
        if (strcmp(cfg->json, "-") != 0) {
            print_table(b);
        }
        code = cfg->json[0] != '\0' ? write_json(b, cfg->json) : 0;
    }
    code = comm_agree(b->comm, code);
    return code != 0 || b->wrong == 0
               ? code
               : err_set(ERR_CHECK, "%lld elements were wrong; see the column `wrong`",
                         (long long)b->wrong);
}

int cmd_bench_comm(Config *cfg)
{
    Comm *comm;
    int code = ranks_enter(cfg, NULL, NULL, &comm);
    if (code == 0 && (comm == NULL || comm_ranks(comm) < 2)) {
        code = err_set(ERR_INPUT, "bench comm measures between ranks: give --ranks 2 or more");
    }
    Bench b = {.cfg = cfg, .comm = comm};
    signals_install();
    code = code == 0 ? run_resolve(cfg) : code;
    code = code == 0 ? comm_agree(comm, backend_open(cfg, comm, &b.backend)) : code;
    code = code == 0 ? bench(&b) : code;
    for (int kind = 0; kind < COLLECTIVES; kind++) {
        free(b.points[kind]);
    }
    if (b.backend != NULL) {
        b.backend->close(b.backend);
    }
    return ranks_leave(comm, code);
}
