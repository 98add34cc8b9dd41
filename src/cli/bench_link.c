/* `pacer bench machine` as several ranks: what lies between them. The other ceilings are those
 * of one process. */
#include "analyse/predict_measure.h"
#include "base/log.h"
#include "cli/commands.h"

#include <stdio.h>

static void print_points(const Comm *comm, const LinkPoint *points)
{
    double ranks = comm_ranks(comm);
    printf("all-reduce of f32 between %d ranks (%s), median of the slowest rank\n",
           comm_ranks(comm), comm_library(comm));
    printf("%12s %12s %14s %14s\n", "bytes", "us", "GB/s", "bus GB/s");
    for (int i = 0; i < LINK_SIZES; i++) {
        double rate = 1e-9 * points[i].bytes / points[i].seconds;
        printf("%12.0f %12.1f %14.3f %14.3f\n", points[i].bytes, 1e6 * points[i].seconds, rate,
               rate * 2 * (ranks - 1) / ranks);
    }
}

int bench_link(Config *cfg)
{
    Comm *comm;
    Backend *backend = NULL;
    LinkPoint points[LINK_SIZES];
    int code = run_resolve(cfg);
    code = code != 0 ? code : comm_open((CommOptions){.timeout_s = 60}, &comm);
    if (code != 0) {
        return code;
    }
    log_setup(comm_rank(comm) == 0 ? LOG_INFO : LOG_WARN, comm_rank(comm), comm_ranks(comm));
    code = backend_open(cfg, comm, &backend);
    code = code != 0 ? code : predict_time_link(comm, backend, points);
    if (code == 0 && comm_rank(comm) == 0) {
        log_live("%s", "");
        print_points(comm, points);
    }
    if (backend != NULL) {
        backend->close(backend);
    }
    comm_close(comm);
    return code;
}
