/* Plans are exact where they count one for many, and whatever the dimensions within the options'
 * limits, a plan is either the sum of its rows or refused by name. */
#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "support/says.h"
#include "support/small_run.h"
#include "train/setup.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* --- one for many: against every micro-step and every chunk of the head, executed --- */

static void counted_as_executed(const char *preset, int64_t accum)
{
    TrainerSetup setup = small_setup(preset, 17, accum, 40); /* 680 rows: six chunks of the head */
    Backend *backend = cpu_backend_open(2);
    backend->head_bytes = 1;
    TrainPlan plan;
    Trainer t;
    trainer_plan(&setup, backend, &plan);
    must(trainer_open(&t, &setup, backend, &plan));
    trainer_init_params(&t, 1);
    Tokens tokens = make_tokens(17, 40, 17, setup.spec.vocab);
    for (int64_t micro = 0; micro < accum; micro++) {
        trainer_micro_step(&t, (HostBatch){tokens.ids, tokens.targets, tokens.order, NULL}, micro);
    }
    trainer_update(&t, 1e-3, 0);
    double flops = 0;
    for (int op = 0; op < OP_COUNT; op++) {
        assert_int_equal(plan.step[op].calls, t.ctx.stats[op].calls);
        assert_true(plan.step[op].flops == t.ctx.stats[op].flops);
        assert_true(plan.step[op].bytes == t.ctx.stats[op].bytes);
        flops += t.ctx.stats[op].flops;
    }
    assert_true(plan.flops_update == flops);
    assert_int_equal(trainer_peak_bytes(&t), plan.blocks);
    free_tokens(tokens);
    trainer_close(&t);
    backend->close(backend);
}

static void plans_count_what_is_executed(void **state)
{
    (void)state;
    for (int64_t accum = 1; accum <= 5; accum++) {
        counted_as_executed("llama-22m", accum);
        counted_as_executed("gpt2-124m", accum);
        counted_as_executed("ttt-125m", accum);
    }
}

/* What pacer 0.1 recorded of such runs, walking every micro-step. */
static void plans_are_those_of_the_full_walk(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        double flops; /* of a micro-step; its update has none */
        size_t bytes;
        int64_t parameters;
    } recorded[] = {{"tiny", 19793313792, 234885248, 6417568},
                    {"ttt-125m", 19805503488, 184137856, 3219076}};
    for (int i = 0; i < 2; i++) {
        for (int accum = 1; accum <= 5; accum++) {
            const char *const options[][2] = {
                {"layers", "2"},  {"d-model", "32"},   {"heads", "2"},
                {"ffn", "48"},    {"context", "64"},   {"batch", "16"},
                {"threads", "2"}, {"vocab", "100000"}, {"device", "cpu"}};
            Config cfg;
            Run run;
            config_init(&cfg, COMMAND_PLAN);
            must(config_set(&cfg, "model", recorded[i].model));
            for (size_t k = 0; k < sizeof options / sizeof options[0]; k++) {
                must(config_set(&cfg, options[k][0], options[k][1]));
            }
            must(config_set(&cfg, "accum", (char[]){(char)('0' + accum), '\0'}));
            must(config_check(&cfg));
            must(run_resolve(&cfg));
            must(run_open(&run, &cfg, NULL, DATA_OPTIONAL));
            assert_true(run.plan.flops_update == accum * recorded[i].flops);
            assert_int_equal(run.plan.total, recorded[i].bytes);
            assert_int_equal(run.plan.parameters, recorded[i].parameters);
            run_close(&run);
            config_free(&cfg);
        }
    }
}

/* --- the pieces of a rank, with jumps and one by one --- */

static void own_pieces_are_all_of_them(void **state)
{
    (void)state;
    TrainerSetup setup = small_setup("gpt2-124m", 1, 1, 40);
    Model model;
    model_init(&model, &setup.spec, DT_F32, 1);
    const ParamTable *table = &model.params;
    for (int ranks = 2; ranks <= 37; ranks += 5) {
        for (int rank = 0; rank < ranks; rank++) {
            DdpSetup sharded = {.kind = (DdpKind)(DDP_ZERO1 + ranks % 3),
                                .rank = rank,
                                .ranks = ranks,
                                .group = ranks % 4 == 0 ? ranks / 4 * 2 : 0,
                                .bucket_bytes = rank % 2 * 40000};
            Ddp ddp;
            ddp_init(&ddp, &sharded, table);
            int64_t at = 0, owned = 0;
            for (DdpPiece piece; at < table->flat; at += piece.count) {
                piece = ddp_piece(&ddp, at, table->flat);
                if (piece.keeper < 0 || piece.keeper == rank % ddp.shards) {
                    DdpPiece own;
                    assert_true(ddp_own_piece(&ddp, at, table->flat, &own));
                    assert_int_equal(own.offset, piece.offset);
                    assert_int_equal(own.count, piece.count);
                    assert_int_equal(own.own, piece.own);
                    assert_int_equal(own.keeper, piece.keeper);
                    owned += piece.count;
                } else {
                    DdpPiece own; /* lies behind */
                    if (ddp_own_piece(&ddp, at, table->flat, &own)) {
                        assert_true(own.offset >= at + piece.count);
                    }
                }
            }
            assert_int_equal(owned, ddp.owned);
            ddp_free(&ddp);
        }
    }
    model_free(&model);
}

/* --- dimensions at their limits --- */

/* An option's value between its limits: any power of two or ten times a digit, both ends often. */
static int64_t draw(const char *name, uint64_t round, uint64_t index)
{
    const Option *option = config_find(name);
    uint64_t kind = rng_below(7, 2 * index, round, 4),
             size = rng_below(7, 2 * index + 1, round, 64);
    double most = option->max, least = option->min > 1 ? option->min : 1;
    double value = kind == 0   ? most
                   : kind == 1 ? least
                   : kind == 2 ? exp2((double)(size % 24))
                               : pow(10, (double)(size % 8)) * (double)(1 + size % 9);
    return (int64_t)(value > most ? most : value < least ? least : value);
}

static int open_drawn(Config *cfg, Run *run, uint64_t round)
{
    static const char *const names[] = {"layers", "ffn",   "vocab", "context",   "batch",
                                        "accum",  "ranks", "seq",   "mini-batch"};
    static const char *const models[] = {"tiny", "gpt2-124m", "ttt-125m"};
    static const char *const ddps[] = {"naive", "flat", "overlap", "zero1", "zero2", "zero3"};
    bool ttt = round % 3 == 2;
    config_init(cfg, COMMAND_PLAN);
    must(config_set(cfg, "model", models[round % 3]));
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int64_t value = draw(names[i], round, i);
        if (i == 0 && value > 100 && round % 16 != 0) {
            value = 100; /* thousands of layers take their time */
        }
        char *text = mem_format("%lld", (long long)value);
        if (ttt || i < 8) {
            must(config_set(cfg, names[i], text));
        }
        free(text);
    }
    int64_t heads = draw("heads", round, 20), depth = draw("d-model", round, 21) / heads / 2 * 2;
    char *count = mem_format("%lld", (long long)heads);
    char *width = mem_format("%lld", (long long)(heads * (depth > 0 ? depth : 2)));
    must(config_set(cfg, "heads", count));
    int code = config_set(cfg, "d-model", width);
    must(config_set(cfg, "ddp", ddps[round / 3 % 6]));
    must(config_set(cfg, "device", round % 5 == 0 ? "ref" : "cpu"));
    must(config_set(cfg, "threads", round % 50 == 7 ? "4096" : "2"));
    if (round % 4 == 1 && !ttt) {
        must(config_set(cfg, "attention", "naive"));
    }
    if (round % 2 == 1) {
        must(config_set(cfg, "recompute", "block"));
    }
    if (ttt && round % 2 == 1) {
        must(config_set(cfg, "ttt", "mlp"));
    }
    free(count);
    free(width);
    code = code != 0 ? code : config_check(cfg);
    code = code != 0 ? code : run_resolve(cfg);
    return code != 0 ? code : run_open(run, cfg, NULL, DATA_OPTIONAL);
}

static void plans_at_the_limits_are_sums_or_refused(void **state)
{
    (void)state;
    int planned = 0, refused = 0, huge = 0;
    const char *given = getenv("PACER_PLANS");
    int rounds = given != NULL ? atoi(given) : 120;
    for (uint64_t round = 0; round < (uint64_t)rounds; round++) {
        Config cfg;
        Run run;
        int code = open_drawn(&cfg, &run, round);
        if (code == 0) {
            const TrainPlan *plan = &run.plan;
            size_t sum = plan->loader;
            for (int kind = 0; kind < MEM_KINDS; kind++) {
                assert_true(plan->by_kind[kind] <= plan->total);
                sum += plan->by_kind[kind];
            }
            assert_true(sum == plan->total && plan->total <= INT64_MAX);
            assert_true(plan->total >= (size_t)plan->parameters * 12 / (size_t)cfg.ranks);
            assert_true(isfinite(plan->flops_update) && plan->flops_update > 0);
            assert_true(run.tokens_per_update > 0);
            huge += (double)plan->total > 1e12;
            planned++;
            run_close(&run);
        } else {
            assert_int_equal(code, ERR_INPUT);
            assert_says("--");
            refused++;
        }
        config_free(&cfg);
    }
    assert_in_range(planned, rounds / 6, rounds);
    assert_in_range(refused, rounds / 10, rounds);
    assert_in_range(huge, rounds / 10, rounds);
}

static void what_cannot_be_planned_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *options[6][2];
        const char *words;
    } cases[] = {
        {{{"batch", "1M"}, {"context", "10M"}, {"ffn", "10M"}},
         "--batch 1000000 x --seq 10000000 x --ffn 10000000"},
        {{{"batch", "1M"}, {"context", "10M"}, {"d-model", "1M"}, {"heads", "4"}},
         "--batch 1000000 x --seq 10000000 x --d-model 1000000"},
        {{{"batch", "1M"}, {"context", "1M"}, {"attention", "naive"}},
         "--seq (--attention naive) x --heads 4"},
        {{{"batch", "1M"}, {"context", "10k"}, {"accum", "1M"}}, "--accum 1000000 x --ranks 1"},
        {{{"layers", "10000"}, {"batch", "1M"}, {"context", "100k"}, {"d-model", "800"}},
         "needs more than 2^63 bytes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        Config cfg;
        Run run;
        config_init(&cfg, COMMAND_PLAN);
        must(config_set(&cfg, "vocab", "300"));
        for (int k = 0; k < 6 && cases[i].options[k][0] != NULL; k++) {
            must(config_set(&cfg, cases[i].options[k][0], cases[i].options[k][1]));
        }
        must(config_check(&cfg));
        must(run_resolve(&cfg));
        assert_int_equal(run_open(&run, &cfg, NULL, DATA_OPTIONAL), ERR_INPUT);
        assert_says(cases[i].words);
        assert_says("cannot be planned");
        config_free(&cfg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_count_what_is_executed),
        cmocka_unit_test(plans_are_those_of_the_full_walk),
        cmocka_unit_test(own_pieces_are_all_of_them),
        cmocka_unit_test(plans_at_the_limits_are_sums_or_refused),
        cmocka_unit_test(what_cannot_be_planned_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
