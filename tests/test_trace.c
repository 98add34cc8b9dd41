/* A traced step against what is known of it: the plan's ops and FLOPs, ops of known times, also
 * where the step is a replay; and the profile made of it, as numbers and as a file of trace
 * events. */
#include "analyse/profile.h"

#include "base/io.h"
#include "base/mem.h"
#include "data/dataset.h"
#include "support/data_files.h"
#include "support/json_assert.h"
#include "support/small_run.h"
#include "support/timed_backend.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define ACCUM 4

typedef struct {
    Backend *backend;
    TrainerSetup setup;
    TrainPlan plan;
    Trainer trainer;
    Tokens tokens;
    Trace *trace;
} Fixture;

static int64_t planned_calls(const TrainPlan *plan)
{
    int64_t calls = 0;
    for (int op = 0; op < OP_COUNT; op++) {
        calls += plan->step[op].calls;
    }
    return calls;
}

static void open_setup(Fixture *f, TrainerSetup setup, bool device)
{
    f->backend = timed_backend_open(device);
    f->setup = setup;
    f->setup.graph = true;
    trainer_plan(&f->setup, f->backend, &f->plan);
    assert_int_equal(trainer_open(&f->trainer, &f->setup, f->backend, &f->plan), 0);
    trainer_init_params(&f->trainer, 11);
    f->tokens = make_tokens(2 * ACCUM, f->setup.seq, f->setup.batch, f->setup.spec.vocab);
    assert_int_equal(trace_open(&f->trace, f->backend, planned_calls(&f->plan), timed_now), 0);
}

static void open_fixture(Fixture *f, const char *preset, bool device)
{
    open_setup(f, small_setup(preset, 2, ACCUM, 17), device);
}

static void close_fixture(Fixture *f)
{
    trainer_close(&f->trainer);
    trace_close(f->trace);
    free_tokens(f->tokens);
    f->backend->close(f->backend);
}

/* Micro-step m at pace m + 1, the update at pace 1. */
static double run_step(Fixture *f, int64_t step)
{
    double loss, norm;
    for (int64_t micro = 0; micro < ACCUM; micro++) {
        int64_t at = micro * f->setup.batch * f->setup.seq;
        timed_set_pace(micro + 1);
        trainer_micro_step(
            &f->trainer,
            (HostBatch){f->tokens.ids + at, f->tokens.targets + at, f->tokens.order + at, NULL},
            micro);
    }
    timed_set_pace(1);
    trainer_update(&f->trainer, 1e-3, step);
    trainer_post(&f->trainer);
    trainer_fetch(&f->trainer, &loss, &norm);
    return loss;
}

static void check_work(const Fixture *f, const TraceEvent *events, int64_t count)
{
    OpStat found[OP_COUNT] = {0};
    double flops = 0;
    for (int64_t i = 0; i < count; i++) {
        found[events[i].call.op].calls++;
        found[events[i].call.op].flops += events[i].call.flops;
        found[events[i].call.op].bytes += events[i].call.bytes;
        flops += events[i].call.flops;
    }
    assert_true(flops == f->plan.flops_update);
    for (int op = 0; op < OP_COUNT; op++) {
        assert_int_equal(found[op].calls, f->plan.step[op].calls);
        assert_true(found[op].flops == f->plan.step[op].flops);
        assert_true(found[op].bytes == f->plan.step[op].bytes);
    }
}

/* Forward, loss and backward of each micro-step, then the update, and blocks in their order. */
static void check_order(const TraceEvent *events, int64_t count)
{
    static const char *const parts[] = {"forward", "loss", "backward"};
    int64_t seen = 0;
    for (int64_t i = 0; i < count; i++) {
        const TraceEvent *e = &events[i];
        bool first =
            i == 0 || e[0].run != e[-1].run || strcmp(e[0].call.part, e[-1].call.part) != 0;
        if (first) {
            assert_int_equal(e->run, seen / 3);
            assert_string_equal(e->call.part, seen == 3 * ACCUM ? "optimizer" : parts[seen % 3]);
            seen++;
        }
        bool forward = strcmp(e->call.part, "forward") == 0;
        bool inside = forward || strcmp(e->call.part, "backward") == 0;
        assert_in_range(e->call.layer + 1, 0, inside ? 2 : 0);
        if (!first && e->call.layer != CTX_NO_LAYER && e[-1].call.layer != CTX_NO_LAYER) {
            int step = e->call.layer - e[-1].call.layer;
            assert_true(step == 0 || step == (forward ? 1 : -1));
        }
    }
    assert_int_equal(seen, 3 * ACCUM + 1);
    assert_int_equal(events[0].call.op, OP_EMBED_FORWARD);
    assert_int_equal(events[count - 1].call.op, OP_ADAMW);
}

/* Every op takes the time that it is made to take, nothing overlaps, and the gaps are the
 * uploads between sections. */
static void check_times(const TraceEvent *events, int64_t count, int64_t step_ns)
{
    int64_t gaps = 0, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const TraceEvent *e = &events[i];
        int64_t pace = e->run < ACCUM ? e->run + 1 : 1;
        assert_int_equal(e->end_ns - e->start_ns, pace * timed_op_ns(e->call.op));
        sum += e->end_ns - e->start_ns;
        if (i > 0) {
            int64_t gap = e[0].start_ns - e[-1].end_ns;
            int64_t uploads = e[0].run == e[-1].run ? 0 : e->run < ACCUM ? 3 * (e->run + 1) : 1;
            assert_int_equal(gap, uploads * TIMED_UPLOAD_NS);
            gaps += gap;
        }
    }
    int64_t before = 3 * TIMED_UPLOAD_NS;
    assert_int_equal(before + sum + gaps, step_ns);
}

static int64_t host_ns(void)
{
    return (int64_t)(timed_now() * 1e9 + 0.5);
}

static void check_traced_steps(const char *preset, bool device)
{
    Fixture f;
    open_fixture(&f, preset, device);
    trainer_trace(&f.trainer, f.trace);
    /* On the device: run, recorded, and replayed twice. */
    for (int64_t step = 0; step < 4; step++) {
        trace_start(f.trace);
        int64_t started = host_ns(), count;
        run_step(&f, step);
        int64_t step_ns = host_ns() - started;
        trace_stop(f.trace);
        const TraceEvent *events = trace_events(f.trace, &count);
        assert_int_equal(count, planned_calls(&f.plan));
        check_work(&f, events, count);
        check_order(events, count);
        check_times(events, count, step_ns);
    }
    /* First, rest and update: twice each, the rest's second time within the first step. */
    assert_int_equal(timed_bodies(), device ? 6 : 0);
    assert_int_equal(trace_is_device(f.trace), device);
    close_fixture(&f);
}

static void test_trace__has_the_ops_of_the_plan(void **state)
{
    (void)state;
    check_traced_steps("gpt2-124m", false);
    check_traced_steps("llama-22m", false);
}

static void test_trace__sees_through_replays(void **state)
{
    (void)state;
    check_traced_steps("gpt2-124m", true);
    check_traced_steps("llama-22m", true);
}

/* Waits for copies lie between the ops, also where the device tells the times. */
static void test_trace__waits_for_copies_are_no_ops(void **state)
{
    (void)state;
    for (int device = 0; device < 2; device++) {
        Fixture f;
        TrainerSetup setup = small_setup("gpt2-124m", 2, ACCUM, 17);
        setup.spec.layers = 4;
        setup.offload = OFFLOAD_BOTH;
        setup.offload_piece = 1000;
        open_setup(&f, setup, device != 0);
        trainer_trace(&f.trainer, f.trace);
        for (int64_t step = 0; step < 3; step++) {
            trace_start(f.trace);
            run_step(&f, step);
            trace_stop(f.trace);
            int64_t count, waits = 0;
            const TraceEvent *events = trace_events(f.trace, &count);
            assert_int_equal(count, planned_calls(&f.plan));
            for (int64_t i = 0; i < count; i++) {
                const TraceEvent *e = &events[i];
                int64_t pace = e->run < ACCUM ? e->run + 1 : 1;
                assert_int_equal(e->end_ns - e->start_ns, pace * timed_op_ns(e->call.op));
                int64_t gap = i > 0 ? e->start_ns - events[i - 1].end_ns : 0;
                bool inside = i > 0 && e->run == events[i - 1].run;
                assert_true(!inside || gap % (pace * TIMED_JOIN_NS) == 0);
                waits += inside && gap > 0;
            }
            assert_true(waits > 3 * 2 * ACCUM);
        }
        close_fixture(&f);
    }
}

static void test_trace__shapes_are_those_of_the_call(void **state)
{
    (void)state;
    Fixture f;
    int64_t count, mixed = 0;
    char text[OP_SHAPE_TEXT_SIZE];
    open_fixture(&f, "gpt2-124m", false);
    trainer_trace(&f.trainer, f.trace);
    trace_start(f.trace);
    run_step(&f, 0);
    trace_stop(f.trace);
    const TraceEvent *events = trace_events(f.trace, &count);
    /* 2 x 17 rows, width 48, 4 heads. */
    assert_string_equal(op_shape_text(events[0].call.shape, text), "34 x 48");
    for (int64_t i = 0; i < count; i++) {
        const OpShape *s = &events[i].call.shape;
        if (events[i].call.op == OP_ATTENTION_FORWARD) {
            assert_string_equal(op_shape_text(*s, text), "2 x 17 x 4 x 12");
            mixed++;
        }
        if (events[i].call.op == OP_LINEAR_FORWARD) {
            assert_true(events[i].call.flops == 2.0 * (double)(s->dim[0] * s->dim[1] * s->dim[2]));
        }
    }
    assert_int_equal(mixed, 2 * ACCUM);
    close_fixture(&f);
}

static void test_trace__changes_no_bit(void **state)
{
    (void)state;
    for (int device = 0; device <= 1; device++) {
        double losses[2][3];
        for (int traced = 0; traced <= 1; traced++) {
            Fixture f;
            open_fixture(&f, "llama-22m", device == 1);
            trainer_trace(&f.trainer, traced ? f.trace : NULL);
            for (int64_t step = 0; step < 3; step++) {
                trace_start(f.trace);
                losses[traced][step] = run_step(&f, step);
                trace_stop(f.trace);
            }
            close_fixture(&f);
        }
        assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
    }
}

static void test_trace__leaves_out_what_is_no_step(void **state)
{
    (void)state;
    Fixture f;
    int64_t count;
    open_fixture(&f, "llama-22m", true);
    trainer_trace(&f.trainer, f.trace);
    run_step(&f, 0);
    trace_stop(f.trace);
    trace_start(f.trace);
    trainer_evaluate(&f.trainer, (HostBatch){f.tokens.ids, f.tokens.targets, f.tokens.order, NULL});
    trace_stop(f.trace);
    trace_events(f.trace, &count);
    assert_int_equal(count, 0);
    /* Without a trace steps are as before. */
    trainer_trace(&f.trainer, NULL);
    run_step(&f, 1);
    trace_stop(f.trace);
    trace_events(f.trace, &count);
    assert_int_equal(count, 0);
    close_fixture(&f);
}

static void test_trace__events_follow_the_runs(void **state)
{
    (void)state;
    static const int sections[] = {2, 0, 2, 1};
    Backend *backend = timed_backend_open(false);
    Trace *trace;
    int64_t count;
    assert_int_equal(trace_open(&trace, backend, 1, timed_now), 0);
    trace_start(trace);
    for (int run = 0; run < 4; run++) {
        trace_enter(trace, sections[run]);
        trace_body(trace, "part");
        trace_call(trace, (TraceCall){.op = OP_ADD, .flops = run});
        trace_called(trace);
        trace_leave(trace);
    }
    trace_stop(trace);
    const TraceEvent *events = trace_events(trace, &count);
    assert_int_equal(count, 4);
    for (int run = 0; run < 4; run++) {
        assert_int_equal(events[run].run, run);
        assert_true(events[run].call.flops == run);
    }
    trace_close(trace);
    backend->close(backend);
}

static void *no_memory(Backend *backend, size_t bytes)
{
    (void)backend;
    (void)bytes;
    return NULL;
}

static void test_trace__no_memory_is_an_answer(void **state)
{
    (void)state;
    Backend *backend = timed_backend_open(true);
    backend->alloc = no_memory;
    Trace *trace;
    assert_int_not_equal(trace_open(&trace, backend, 100, NULL), 0);
    assert_null(trace);
    backend->close(backend);
}

/* --- the profile --- */

#define REPEATS 3
static const ProfileCeilings ceilings = {1e12, 1e11};

static void measure(Fixture *f, Profile *profile)
{
    Dataset data;
    Loader loader;
    Prefetch *prefetch;
    uint64_t vocab = (uint64_t)f->setup.spec.vocab;
    assert_int_equal(
        dataset_open(&data, "builtin:random", (DatasetOptions){.vocab = vocab, .seed = 3}), 0);
    assert_int_equal(loader_init(&loader, &data.train, f->setup.seq, vocab, 3), 0);
    assert_int_equal(
        prefetch_open(&prefetch, &loader, (PrefetchOptions){.batch = f->setup.batch, .ranks = 1}),
        0);
    ProfileOptions options = {.warm = 1, .repeats = REPEATS, .now = timed_now};
    assert_int_equal(profile_measure(profile, &f->trainer, prefetch, options), 0);
    prefetch_close(prefetch);
    dataset_close(&data);
}

static void assert_ns(double seconds, int64_t ns)
{
    assert_int_equal((int64_t)(seconds * 1e9 + 0.5), ns);
}

static void check_profile(bool device)
{
    Fixture f;
    Profile p;
    open_fixture(&f, "gpt2-124m", device);
    measure(&f, &p);
    int64_t ops_ns = 0, uploads_ns = (3 * ACCUM + 1) * TIMED_UPLOAD_NS;
    for (int op = 0; op < OP_COUNT; op++) {
        int64_t ns = f.plan.step[op].calls * timed_op_ns((OpId)op);
        assert_ns(p.op_s[op], ns);
        assert_int_equal(p.ops[op].calls, f.plan.step[op].calls);
        assert_true(p.ops[op].flops == f.plan.step[op].flops);
        ops_ns += ns;
    }
    assert_true(ops_ns > 0);
    assert_ns(p.ops_s, ops_ns);
    assert_ns(p.outside_s, uploads_ns);
    assert_ns(p.traced_s, ops_ns + uploads_ns);
    assert_ns(p.plain_s, ops_ns + uploads_ns);
    assert_int_equal(p.device, device);
    assert_null(f.trainer.ctx.trace);
    assert_null(f.trainer.hook);
    profile_free(&p);
    close_fixture(&f);
}

static void test_trace__profile_is_made_of_known_times(void **state)
{
    (void)state;
    check_profile(false);
    check_profile(true);
}

static void test_trace__share_is_of_the_ceiling_that_binds(void **state)
{
    (void)state;
    ProfileShare product = profile_share(ceilings, 1e9, 1e6, 2e-3);
    ProfileShare copy = profile_share(ceilings, 1e6, 1e8, 4e-3);
    assert_string_equal(product.name, "product");
    assert_string_equal(copy.name, "copy");
    assert_true(product.share > 0.499 && product.share < 0.501);
    assert_true(copy.share > 0.249 && copy.share < 0.251);
}

enum { LANES = 4, LANE_STEP = 0, LANE_PARTS = 1, LANE_OPS = 2, LANE_HOST = 3 };

typedef struct {
    double start, end;
} Stretch;

static Stretch stretch(const cJSON *event)
{
    double start = number(event, "ts");
    return (Stretch){start, start + number(event, "dur")};
}

#define TINY 1e-6 /* of a microsecond: sums of decimals in double */

/* The part that an op lies in must be there, and contain it. */
static void assert_inside_a_part(const cJSON *events, const cJSON *op)
{
    Stretch inner = stretch(op);
    const cJSON *event;
    cJSON_ArrayForEach(event, events)
    {
        if (strcmp(member(event, "ph")->valuestring, "X") == 0 &&
            number(event, "tid") == LANE_PARTS &&
            strcmp(member(event, "name")->valuestring, member(op, "cat")->valuestring) == 0) {
            Stretch outer = stretch(event);
            if (outer.start <= inner.start + TINY && inner.end <= outer.end + TINY) {
                return;
            }
        }
    }
    fail_msg("an op at %g us is in no part", inner.start);
}

static void check_file(const Fixture *f, const cJSON *tree)
{
    const cJSON *events = member(tree, "traceEvents"), *event;
    double last_end[LANES] = {0}, flops = 0, data_move = 0;
    int64_t counts[LANES] = {0}, names = 0;
    cJSON_ArrayForEach(event, events)
    {
        int lane = (int)number(event, "tid");
        assert_in_range(lane, 0, LANES - 1);
        assert_true(number(event, "pid") == 0);
        assert_true(cJSON_IsString(member(event, "name")));
        const cJSON *args = member(event, "args");
        if (strcmp(member(event, "ph")->valuestring, "M") == 0) {
            names += strcmp(member(event, "name")->valuestring, "thread_name") == 0;
            continue;
        }
        assert_text(event, "ph", "X");
        Stretch at = stretch(event);
        assert_true(at.start >= last_end[lane] - TINY && at.end >= at.start);
        last_end[lane] = at.end;
        counts[lane]++;
        if (lane == LANE_OPS) {
            assert_inside_a_part(events, event);
            flops += number(args, "flops");
            number(args, "bytes");
            member(args, "shape");
            bool timed = at.end > at.start;
            assert_int_equal(cJSON_HasObjectItem(args, "TFLOP/s"), timed);
            assert_int_equal(cJSON_HasObjectItem(args, "share_of_ceiling"), timed);
        }
        if (lane == LANE_HOST && strcmp(member(event, "name")->valuestring, "data_move") == 0) {
            data_move += at.end - at.start;
        }
    }
    for (int lane = LANE_PARTS; lane < LANES; lane++) {
        assert_true(last_end[lane] <= last_end[LANE_STEP] + TINY);
    }
    assert_int_equal(names, LANES);
    assert_int_equal(counts[LANE_STEP], 1);
    assert_int_equal(counts[LANE_PARTS], 3 * ACCUM + 1);
    assert_int_equal(counts[LANE_OPS], planned_calls(&f->plan));
    assert_true(flops == f->plan.flops_update);
    double expected = 3 * ACCUM * TIMED_UPLOAD_NS / 1e3;
    assert_true(data_move > expected - TINY && data_move < expected + TINY);
}

static void test_trace__file_is_what_viewers_expect(void **state)
{
    (void)state;
    char *folder = data_files_folder();
    char *path = io_join(folder, "trace.json");
    for (int device = 0; device <= 1; device++) {
        Fixture f;
        Profile p;
        Output *output;
        char *text;
        size_t size;
        ProfileRanks ranks = {.title = "a \"title\""};
        open_fixture(&f, "llama-22m", device == 1);
        measure(&f, &p);
        assert_int_equal(output_open(path, &output), 0);
        assert_int_equal(profile_write(&p, ceilings, ranks, output), 0);
        assert_int_equal(output_commit(output), 0);
        assert_int_equal(io_read_all(path, 64 << 20, &text, &size), 0);
        cJSON *tree = cJSON_Parse(text);
        assert_non_null(tree);
        check_file(&f, tree);
        cJSON_Delete(tree);
        free(text);
        profile_free(&p);
        close_fixture(&f);
    }
    free(path);
    data_files_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trace__has_the_ops_of_the_plan),
        cmocka_unit_test(test_trace__sees_through_replays),
        cmocka_unit_test(test_trace__waits_for_copies_are_no_ops),
        cmocka_unit_test(test_trace__shapes_are_those_of_the_call),
        cmocka_unit_test(test_trace__changes_no_bit),
        cmocka_unit_test(test_trace__leaves_out_what_is_no_step),
        cmocka_unit_test(test_trace__events_follow_the_runs),
        cmocka_unit_test(test_trace__no_memory_is_an_answer),
        cmocka_unit_test(test_trace__profile_is_made_of_known_times),
        cmocka_unit_test(test_trace__share_is_of_the_ceiling_that_binds),
        cmocka_unit_test(test_trace__file_is_what_viewers_expect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
