/* `pacer profile`: one training step, of one rank or of several, as a file of trace events and
 * as a table; the table alone is `bench ops`. */
#include "analyse/profile.h"
#include "base/log.h"
#include "base/signals.h"
#include "cli/bench.h"
#include "cli/commands.h"
#include "cli/ranks.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_FILE "profile.json"

static int show(const Bench *b, const Profile *profile, Output *trace, FILE *table)
{
    ProfileCeilings ceilings = {b->sgemm * 1e9, b->copy * 1e9};
    char *title = bench_title(b);
    ProfileRanks ranks = {.comm = b->comm, .device = backend_title(b->run.backend), .title = title};
    int code = profile_print(profile, ceilings, ranks, table);
    if (code == 0 && (trace != NULL || b->comm != NULL)) {
        code = profile_write(profile, ceilings, ranks, trace);
    }
    free(title);
    return code;
}

int bench_ops(Bench *b, const Config *cfg, Output *trace, FILE *table)
{
    Profile profile = {0};
    int code = bench_ceilings_before(b);
    if (code == 0) {
        code = profile_measure(&profile, &b->trainer, b->prefetch,
                               (ProfileOptions){.warm = cfg->warm, .repeats = cfg->repeats});
    }
    if (code == 0) {
        bench_ceilings_after(b, true);
        code = show(b, &profile, trace, table);
    }
    profile_free(&profile);
    return code;
}

/* The first rank writes. */
static int profile_to(const char *path, Config *cfg, Comm *comm)
{
    bool leads = ranks_lead(comm), piped = strcmp(path, "-") == 0;
    Output *trace = NULL;
    int code = leads ? output_open(path, &trace) : 0;
    code = comm_agree(comm, code);
    if (code != 0) {
        output_abandon(trace);
        return code;
    }
    Bench b;
    signals_install();
    code = bench_open(&b, cfg, comm);
    code = code == 0 ? bench_ops(&b, cfg, trace, piped ? stderr : stdout) : code;
    if (code != 0) {
        output_abandon(trace);
        ranks_fail(comm, code);
    }
    bench_close(&b);
    if (code != 0 || !leads) {
        return code;
    }
    code = output_commit(trace);
    if (code == 0 && !piped) {
        log_info("%s: the fastest step; open it in ui.perfetto.dev or chrome://tracing", path);
    }
    return code;
}

int cmd_profile(Config *cfg)
{
    Comm *comm;
    int code = ranks_enter(cfg, NULL, NULL, &comm);
    code = code == 0 ? profile_to(cfg->out[0] != '\0' ? cfg->out : DEFAULT_FILE, cfg, comm) : code;
    return ranks_leave(comm, code);
}
