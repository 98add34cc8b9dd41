#include "analyse/op_times.h"

#include "base/assert.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool op_kind_is(const OpKind *a, const OpKind *b)
{
    return a->op == b->op && a->back == b->back && a->flops == b->flops && a->bytes == b->bytes &&
           memcmp(&a->shape, &b->shape, sizeof a->shape) == 0;
}

/* --- what a step calls --- */

void op_uses_add(OpUses *uses, int stretch, OpKind kind, double calls)
{
    for (OpUse *use = uses->items; use < uses->items + uses->count; use++) {
        if (op_kind_is(&use->kind, &kind)) {
            use->calls[stretch] += calls;
            return;
        }
    }
    uses->items = mem_grow(uses->items, (size_t)uses->count, &uses->room, sizeof *uses->items);
    OpUse *use = &uses->items[uses->count++];
    *use = (OpUse){.kind = kind};
    use->calls[stretch] = calls;
}

double op_use_calls(const OpUse *use)
{
    double calls = 0;
    for (int i = 0; i < STRETCHES; i++) {
        calls += use->calls[i];
    }
    return calls;
}

bool op_uses_copy(const OpUses *uses)
{
    double bytes = 0;
    for (int i = 0; i < STRETCHES; i++) {
        bytes += uses->copied[i][COPY_OUT] + uses->copied[i][COPY_IN];
    }
    return bytes > 0;
}

static void count_call(void *user, const TraceCall *call, TrainerPlace place)
{
    OpKind kind = {call->op, place.back, call->shape, call->flops, call->bytes};
    op_uses_add(user, place.stretch, kind, (double)place.times);
}

static void count_copy(void *user, CopyQueue queue, double bytes, TrainerPlace place)
{
    OpUses *uses = user;
    uses->copied[place.stretch][queue] += bytes * (double)place.times;
}

void op_uses_find(OpUses *uses, const TrainerSetup *setup, Backend *backend)
{
    uses->count = 0;
    memset(uses->copied, 0, sizeof uses->copied);
    trainer_calls(setup, backend, (TrainerListener){count_call, count_copy, uses});
}

void op_uses_free(OpUses *uses)
{
    free(uses->items);
    *uses = (OpUses){0};
}

/* --- what a call takes --- */

const OpTime *op_times_find(const OpTimes *times, const OpKind *kind)
{
    for (const OpTime *t = times->items; t < times->items + times->count; t++) {
        if (op_kind_is(&t->kind, kind)) {
            return t;
        }
    }
    return NULL;
}

void op_times_put(OpTimes *times, OpKind kind, double seconds)
{
    for (OpTime *t = times->items; t < times->items + times->count; t++) {
        if (op_kind_is(&t->kind, &kind)) {
            t->seconds = seconds;
            return;
        }
    }
    times->items = mem_grow(times->items, (size_t)times->count, &times->room, sizeof *times->items);
    times->items[times->count++] = (OpTime){kind, seconds};
}

void op_times_free(OpTimes *times)
{
    free(times->items);
    *times = (OpTimes){0};
}

/* --- a step --- */

static double work_of(const OpKind *kind)
{
    return kind->flops > 0 ? kind->flops : kind->bytes;
}

/* How far apart two kinds are in work; a pass in the other direction is a little farther. */
static double distance(const OpKind *a, const OpKind *b)
{
    double between = work_of(a) > 0 && work_of(b) > 0 ? fabs(log(work_of(a) / work_of(b))) : 0;
    return between + (a->back != b->back ? 1e-3 : 0);
}

/* Seconds per FLOP, or per byte, of all that was measured and has that sort of work. */
static double common_rate(const OpTimes *times, bool flops)
{
    double seconds = 0, work = 0;
    for (const OpTime *t = times->items; t < times->items + times->count; t++) {
        if (!isnan(t->seconds) && (t->kind.flops > 0) == flops) {
            seconds += t->seconds;
            work += work_of(&t->kind);
        }
    }
    return work > 0 ? seconds / work : 0;
}

static double scaled(const OpTimes *times, const OpKind *kind)
{
    const OpTime *nearest = NULL;
    for (const OpTime *t = times->items; t < times->items + times->count; t++) {
        if (t->kind.op == kind->op && !isnan(t->seconds) &&
            (nearest == NULL || distance(&t->kind, kind) < distance(&nearest->kind, kind))) {
            nearest = t;
        }
    }
    if (nearest == NULL) {
        return work_of(kind) * common_rate(times, kind->flops > 0);
    }
    double known = work_of(&nearest->kind);
    return known > 0 ? nearest->seconds * work_of(kind) / known : nearest->seconds;
}

/* Of all that a queue copies in a stretch. */
static double copy_seconds(const OpTimes *times, const OpUses *uses, int stretch, CopyQueue queue)
{
    double bytes = uses->copied[stretch][queue], rate = times->copy_rate[queue];
    PACER_ASSERT(bytes == 0 || rate > 0, "copies were not measured");
    return bytes > 0 ? bytes / rate : 0;
}

OpSum op_times_sum(const OpTimes *times, const OpUses *uses)
{
    OpSum sum = {0};
    double ops[STRETCHES] = {0}, scaled_s[STRETCHES] = {0};
    for (const OpUse *use = uses->items; use < uses->items + uses->count; use++) {
        const OpTime *own = op_times_find(times, &use->kind);
        bool known = own != NULL && !isnan(own->seconds);
        double seconds = known ? own->seconds : scaled(times, &use->kind);
        for (int i = 0; i < STRETCHES; i++) {
            ops[i] += use->calls[i] * seconds;
            scaled_s[i] += known ? 0 : use->calls[i] * seconds;
        }
    }
    for (int i = 0; i < STRETCHES; i++) {
        double copies =
            fmax(copy_seconds(times, uses, i, COPY_OUT), copy_seconds(times, uses, i, COPY_IN));
        sum.seconds += fmax(ops[i], copies);
        sum.scaled_s += ops[i] >= copies ? scaled_s[i] : 0;
        sum.copies_s += fmax(copies - ops[i], 0);
    }
    return sum;
}
