/* `pacer profile`: one training step as a file of trace events and as a table; the table alone is `bench ops`. */
#include "base/log.h"
#include "base/signals.h"
#include "cli/bench.h"
#include "cli/commands.h"
#include "train/profile.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_FILE "profile.json"

int bench_ops(Bench *b, const Config *cfg, Output *trace, FILE *table)
{
    Profile profile = {0};
    char *title = bench_title(b);
    int code = bench_ceilings_before(b);
    if (code == 0) {
        code = profile_measure(&profile, &b->trainer, b->prefetch,
                               (ProfileOptions){.warm = cfg->warm, .repeats = cfg->repeats});
    }
    if (code == 0) {
        bench_ceilings_after(b, true);
        ProfileCeilings ceilings = {b->sgemm * 1e9, b->copy * 1e9};
        fprintf(table, "%s\n", title);
        profile_print(&profile, ceilings, table);
        code = trace != NULL ? profile_write(&profile, ceilings, 0, title, trace) : 0;
    }
    free(title);
    profile_free(&profile);
    return code;
}

int cmd_profile(Config *cfg, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const char *path = cfg->out[0] != '\0' ? cfg->out : DEFAULT_FILE;
    bool piped = strcmp(path, "-") == 0;
    Output *trace;
    int code = output_open(path, &trace);
    if (code != 0) {
        return code;
    }
    Bench b;
    signals_install();
    code = bench_open(&b, cfg);
    code = code == 0 ? bench_ops(&b, cfg, trace, piped ? stderr : stdout) : code;
    bench_close(&b);
    if (code != 0) {
        output_abandon(trace);
        return code;
    }
    code = output_commit(trace);
    if (code == 0 && !piped) {
        log_info("%s: the fastest step; open it in ui.perfetto.dev or chrome://tracing", path);
    }
    return code;
}
