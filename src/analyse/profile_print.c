#include "analyse/profile.h"

#include "base/escape.h"
#include "base/mem.h"

#include <stdlib.h>

/* A clock that ticks once in a microsecond may find that no time has passed. */
static double per(double amount, double seconds)
{
    return seconds > 0 ? amount / seconds : 0;
}

ProfileShare profile_share(ProfileCeilings ceilings, double flops, double bytes, double seconds)
{
    double product = flops / ceilings.matmul, copy = bytes / ceilings.copy;
    return product > copy ? (ProfileShare){"product", per(product, seconds)}
                          : (ProfileShare){"copy", per(copy, seconds)};
}

typedef struct {
    OpId op;
    double seconds;
} Row;

static int by_time(const void *a, const void *b)
{
    const Row *left = a, *right = b;
    return left->seconds != right->seconds
               ? (left->seconds < right->seconds) - (left->seconds > right->seconds)
               : (int)left->op - (int)right->op;
}

static void print_ops(const Profile *p, ProfileCeilings ceilings, FILE *file)
{
    Row rows[OP_COUNT];
    size_t count = 0;
    int64_t calls = 0;
    for (int op = 0; op < OP_COUNT; op++) {
        if (p->ops[op].calls > 0) {
            rows[count++] = (Row){(OpId)op, p->op_s[op]};
            calls += p->ops[op].calls;
        }
    }
    qsort(rows, count, sizeof *rows, by_time);
    fprintf(file, "ceilings: matrix product %.1f GFLOP/s, copy %.1f GB/s\n", ceilings.matmul * 1e-9,
            ceilings.copy * 1e-9);
    fprintf(file, "%-28s %7s %10s %7s %10s %9s %s\n", "op", "calls", "ms/step", "share", "GFLOP/s",
            "GB/s", "of its ceiling");
    for (size_t i = 0; i < count; i++) {
        const OpStat *s = &p->ops[rows[i].op];
        double seconds = rows[i].seconds;
        ProfileShare share = profile_share(ceilings, s->flops, s->bytes, seconds);
        fprintf(file, "%-28s %7lld %10.3f %6.1f%% %10.1f %9.2f %6.1f%% %s\n", op_name(rows[i].op),
                (long long)s->calls, 1e3 * seconds, 100 * seconds / p->traced_s,
                per(s->flops, seconds) * 1e-9, per(s->bytes, seconds) * 1e-9, 100 * share.share,
                share.name);
    }
    fprintf(file, "%-28s %7s %10.3f %6.1f%%\n", "outside ops", "", 1e3 * p->outside_s,
            100 * p->outside_s / p->traced_s);
    fprintf(file, "%-28s %7lld %10.3f\n\n", "step", (long long)calls, 1e3 * p->traced_s);
    fprintf(file, "all ops         %10.3f ms  by %s, medians of %lld steps\n", 1e3 * p->ops_s,
            p->device ? "the device's clock" : "the host's clock around each",
            (long long)p->repeats);
    fprintf(file, "whole step      %10.3f ms  by the host's clock around it: the ops are %.1f %%\n",
            1e3 * p->traced_s, 100 * p->share);
    fprintf(file,
            "without a trace %10.3f ms  profiling adds %.1f %% (%.1f %% by the fastest of each)\n",
            1e3 * p->plain_s, 100 * (p->traced_s / p->plain_s - 1),
            100 * (p->fastest_traced_s / p->fastest_plain_s - 1));
}

/* --- several ranks --- */

typedef struct {
    char host[64], device[64];
    double step_s, exposed_s, hidden_s;
} RankLine;

/* Without what it waited for others. */
static double own_seconds(const RankLine *line)
{
    return line->step_s - line->exposed_s;
}

static void print_lines(const RankLine *lines, int ranks, FILE *file)
{
    fprintf(file, "\n%4s %12s %12s %12s %12s  %s\n", "rank", "step ms", "own ms", "exposed ms",
            "hidden ms", "on");
    for (int i = 0; i < ranks; i++) {
        const RankLine *line = &lines[i];
        fprintf(file, "%4d %12.3f %12.3f %12.3f %12.3f  %s, %s\n", i, 1e3 * line->step_s,
                1e3 * own_seconds(line), 1e3 * line->exposed_s, 1e3 * line->hidden_s, line->host,
                line->device);
    }
}

static int print_ranks(const Profile *profile, ProfileCeilings ceilings, ProfileRanks ranks,
                       FILE *file)
{
    int count = comm_ranks(ranks.comm);
    RankLine *lines = mem_zalloc((size_t)count, sizeof *lines);
    RankLine mine = {.step_s = profile->traced_s,
                     .exposed_s = profile->exposed_s,
                     .hidden_s = profile->hidden_s};
    snprintf(mine.host, sizeof mine.host, "%s", comm_host(ranks.comm));
    snprintf(mine.device, sizeof mine.device, "%s", ranks.device);
    int code = comm_gather(ranks.comm, &mine, sizeof mine, lines);
    if (code != 0) {
        return code; /* a message may still come into lines */
    }
    struct {
        Profile profile;
        ProfileCeilings ceilings;
    } slowest = {*profile, ceilings};
    int rank = 0; /* of the slowest */
    for (int i = 1; i < count; i++) {
        rank = own_seconds(&lines[i]) > own_seconds(&lines[rank]) ? i : rank;
    }
    slowest.profile.fastest = (ProfiledStep){0}; /* memory of this process */
    code = comm_broadcast(ranks.comm, &slowest, sizeof slowest, rank);
    if (code == 0 && comm_rank(ranks.comm) == 0) {
        escape_printf(file, "%s\n", ranks.title);
        fprintf(file, "ops of rank %d, the slowest by its own time\n", rank);
        print_ops(&slowest.profile, slowest.ceilings, file);
        print_lines(lines, count, file);
    }
    free(lines);
    return code;
}

int profile_print(const Profile *profile, ProfileCeilings ceilings, ProfileRanks ranks, FILE *file)
{
    if (ranks.comm != NULL) {
        return print_ranks(profile, ceilings, ranks, file);
    }
    escape_printf(file, "%s\n", ranks.title);
    print_ops(profile, ceilings, file);
    return 0;
}
