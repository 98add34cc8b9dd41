#include "analyse/profile.h"

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

void profile_print(const Profile *p, ProfileCeilings ceilings, FILE *file)
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
