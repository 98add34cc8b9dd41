/* Recipes: what runs they make, and what is said about bad ones. Ids are made without planning,
 * so device and dtype stay auto here. */
#include "study/experiment.h"
#include "study/peer.h"
#include "study/probe.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#include "support/own_folder.h"
#include "support/says.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int load(Experiment *experiment, const char *text, bool smoke)
{
    Recipe recipe;
    assert_int_equal(io_write_atomic(own_file, text, strlen(text)), 0);
    int code = recipe_load(&recipe, own_file, smoke, NULL);
    if (code != 0) {
        return code;
    }
    code = experiment_expand(experiment, &recipe);
    if (code != 0) {
        recipe_free(&recipe);
        return code;
    }
    experiment_identify(experiment);
    return 0;
}

static Experiment loaded(const char *text, bool smoke)
{
    Experiment experiment;
    must(load(&experiment, text, smoke));
    return experiment;
}

static const char *setting(const Experiment *e, int run, const char *option)
{
    const Setting *found = setting_find(&e->runs[run].settings, option);
    return found != NULL ? found->value : "(none)";
}

#define HEAD "name: x\nbase: {data: \"builtin:stories\", lr: 3e-4}\n"

static void test_recipe__axes_are_crossed_and_the_last_varies_fastest(void **state)
{
    (void)state;
    Experiment e = loaded(HEAD "axes: [{batch: [1, 2, 4]}, {seq: [16, 32]}]\n", false);
    static const char *const expected[] = {"batch 1, seq 16", "batch 1, seq 32", "batch 2, seq 16",
                                           "batch 2, seq 32", "batch 4, seq 16", "batch 4, seq 32"};
    assert_int_equal(e.count, COUNT(expected));
    assert_int_equal(e.configurations, COUNT(expected));
    for (int i = 0; i < e.count; i++) {
        assert_string_equal(e.runs[i].label, expected[i]);
        assert_int_equal(e.runs[i].configuration, i);
        assert_string_equal(setting(&e, i, "seed"), "1337");
    }
    assert_int_equal(e.runs[3].cfg.batch, 2);
    assert_int_equal(e.runs[3].cfg.seq, 32);
    experiment_free(&e);
}

static void test_recipe__options_of_one_axis_change_together(void **state)
{
    (void)state;
    Experiment e =
        loaded(HEAD "axes:\n- {batch: [16, 32], accum: [64, 32]}\n- ddp: [naive, flat]\n", false);
    assert_int_equal(e.count, 4);
    for (int i = 0; i < e.count; i++) {
        assert_int_equal(e.runs[i].cfg.batch * e.runs[i].cfg.accum, 1024);
    }
    assert_string_equal(e.runs[3].label, "batch 32, accum 32, ddp flat");
    experiment_free(&e);
}

static void test_recipe__repeats_are_interleaved_and_have_seeds_of_their_own(void **state)
{
    (void)state;
    Experiment e = loaded("name: x\nbase: {data: d, seed: 7}\naxes: [{batch: [1, 2]}]\n"
                          "repeats: 3\n",
                          false);
    assert_int_equal(e.count, 6);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(e.runs[i].repeat, i / 2);
        assert_int_equal(e.runs[i].configuration, i % 2);
        assert_int_equal(e.runs[i].cfg.seed, 7 + i / 2);
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(e.runs[i].id, e.runs[k].id);
        }
    }
    experiment_free(&e);
}

static void test_recipe__skip_leaves_out_what_has_all_of_its_values(void **state)
{
    (void)state;
    /* 1k is the number 1000, however it is written; base counts as well. */
    Experiment e = loaded("name: x\nbase: {data: d, steps: 1000}\n"
                          "axes: [{batch: [1, 2]}, {ranks: [1, 2]}]\n"
                          "skip: [{batch: 2, ranks: 2, steps: 1k}, {batch: 1, steps: 5}]\n",
                          false);
    assert_int_equal(e.count, 3);
    assert_string_equal(e.runs[2].label, "batch 2, ranks 1");
    assert_int_equal(e.runs[2].configuration, 2);
    experiment_free(&e);
}

static void test_recipe__lr_follows_the_global_batch(void **state)
{
    (void)state;
    static const struct {
        const char *rule;
        double expected[3];
    } cases[] = {
        {"none", {3e-4, 3e-4, 3e-4}},
        {"linear", {3e-4 / 8, 3e-4, 3e-4 * 4}},
        {"sqrt", {3e-4 / 2.8284271247461903, 3e-4, 3e-4 * 2}},
    };
    for (size_t c = 0; c < COUNT(cases); c++) {
        char *text =
            mem_format(HEAD "lr-rule: {rule: %s, at: 32}\n"
                            "axes: [{batch: [4, 8, 16], accum: [1, 2, 4], ranks: [1, 2, 2]}]\n",
                       cases[c].rule);
        Experiment e = loaded(text, false);
        for (int i = 0; i < 3; i++) {
            double lr = e.runs[i].cfg.lr, expected = cases[c].expected[i];
            assert_true(lr > expected * (1 - 1e-8) && lr < expected * (1 + 1e-8));
            bool recorded = setting_find(&e.runs[i].settings, "lr") != NULL;
            assert_int_equal(recorded, c > 0);
        }
        experiment_free(&e);
        free(text);
    }
}

/* Recorded end of a run of the probe, with this validation loss. */
static void record_loss(Experiment *probe, int run, double loss)
{
    char *folder = experiment_run_path(probe, &probe->runs[run], "");
    char *path = io_join(folder, "run.json");
    char *text = mem_format("{\"status\": \"done\", \"summary\": {\"val_loss\": %g}}", loss);
    assert_int_equal(io_make_folders(folder), 0);
    assert_int_equal(io_write_atomic(path, text, strlen(text)), 0);
    probe->runs[run].state = RUN_DONE;
    free(text);
    free(path);
    free(folder);
}

static void test_recipe__the_probe_tries_factors_and_the_best_is_taken(void **state)
{
    (void)state;
    static const char text[] =
        "name: x\nbase: {data: d, lr: 1e-3, epochs: 2, warmup: 7}\nrepeats: 2\n"
        "lr-rule: {rule: linear, at: 8}\nlr-probe: {factors: [0.5, 1, 3], tokens: 5k}\n"
        "axes: [{batch: [4, 8, 16]}]\nskip: [{batch: 8}]\n";
    Recipe recipe, shorter;
    Experiment probe, e;
    assert_int_equal(io_write_atomic(own_file, text, strlen(text)), 0);
    assert_int_equal(recipe_load(&recipe, own_file, false, NULL), 0);
    assert_int_equal(recipe_load(&shorter, own_file, false, NULL), 0);
    assert_int_equal(recipe_check_probe(&recipe), 0);
    recipe_make_probe(&shorter);
    assert_int_equal(experiment_expand(&probe, &shorter), 0);
    experiment_identify(&probe);
    free(probe.dir);
    probe.dir = mem_format("%s.probe", own_file);
    assert_int_equal(probe.count, 6);
    static const double rates[] = {0.25e-3, 0.5e-3, 1.5e-3, 1e-3, 2e-3, 6e-3};
    for (int i = 0; i < 6; i++) {
        const Config *cfg = &probe.runs[i].cfg;
        assert_true(fabs(cfg->lr - rates[i]) < 1e-12);
        assert_true(cfg->tokens == 5000 && cfg->epochs == 0 && cfg->warmup == -1);
    }
    assert_string_equal(probe.runs[2].label, "batch 4, lr 0.0015");

    record_loss(&probe, 0, 3.1); /* batch 4: the middle one; the third came to nothing */
    record_loss(&probe, 1, 3.0);
    record_loss(&probe, 5, 2.5); /* batch 16: only the last */
    assert_int_equal(probe_choose(&probe, &recipe), 0);
    assert_int_equal(experiment_expand(&e, &recipe), 0);
    assert_int_equal(e.count, 4);
    static const double chosen[] = {0.5e-3, 6e-3, 0.5e-3, 6e-3};
    for (int i = 0; i < 4; i++) {
        assert_true(fabs(e.runs[i].cfg.lr - chosen[i]) < 1e-12);
        assert_true(e.runs[i].cfg.epochs == 2 && e.runs[i].cfg.warmup == 7);
    }
    assert_string_equal(e.runs[1].label, "batch 16");
    assert_int_equal(io_remove_tree(probe.dir), 0);
    experiment_free(&probe);
    experiment_free(&e);
}

static void test_recipe__a_probe_with_nothing_to_find_is_refused(void **state)
{
    (void)state;
    static const char *const axes[] = {"lr: [1e-3, 2e-3]", "steps: [5, 6]", "epochs: [1, 2]"};
    for (size_t i = 0; i < COUNT(axes); i++) {
        char *text = mem_format("name: x\nbase: {data: d}\naxes: [{%s}]\n"
                                "lr-probe: {factors: [1, 2], tokens: 1k}\n",
                                axes[i]);
        Experiment e = loaded(text, false);
        assert_int_equal(recipe_check_probe(&e.recipe), ERR_INPUT);
        assert_non_null(strstr(err_message(), "nothing to find"));
        experiment_free(&e);
        free(text);
    }
    Experiment none = loaded(HEAD "axes: [{lr: [1e-3, 2e-3]}]\nlr-probe: none\n", false);
    assert_int_equal(recipe_check_probe(&none.recipe), 0);
    experiment_free(&none);
}

static Experiment with_peers(const char *text, const PeerTools *tools)
{
    Experiment e = loaded(text, false);
    e.runs[e.configurations - 1].plan.spec.mixer = MIXER_TTT;
    peers_add(&e, tools);
    experiment_identify(&e);
    return e;
}

static void test_recipe__peers_get_one_run_for_what_is_equal_to_them(void **state)
{
    (void)state;
    static const char text[] =
        HEAD "axes:\n- attention: [naive, flash, cudnn]\n"
             "- {ranks: [1, 2, 2], ddp: [overlap, flat, overlap], bucket-mb: [25, 25, 9]}\n"
             "repeats: 2\npeers: [torch-compile, torch]\nsmoke: {peers: none}\n";
    static const char *const expected[] = {
        "PyTorch: attention naive, ranks 1", "torch.compile: attention naive, ranks 1",
        "PyTorch: attention naive, ranks 2", "torch.compile: attention naive, ranks 2",
        "PyTorch: attention flash, ranks 1", "torch.compile: attention flash, ranks 1",
        "PyTorch: attention flash, ranks 2", "torch.compile: attention flash, ranks 2"};
    PeerTools tools = {.version = "2.9"};
    Experiment e = with_peers(text, &tools), plain = loaded(text, true);
    assert_int_equal(plain.recipe.peers, 0);
    assert_int_equal(plain.count, 18);
    assert_int_equal(e.count, 18 + 2 * (int)COUNT(expected));
    assert_int_equal(e.configurations, 9 + (int)COUNT(expected));
    for (int i = 0; i < e.count; i++) { /* pacer's runs, then the peers', then both again */
        const ExperimentRun *run = &e.runs[i];
        int at = i % e.configurations;
        assert_int_equal(run->repeat, i / e.configurations);
        assert_int_equal(run->configuration, at);
        assert_string_equal(run->label, at < 9 ? plain.runs[at].label : expected[at - 9]);
        assert_string_equal(run->peer, at < 9 ? "" : at % 2 == 1 ? "torch" : "torch-compile");
        assert_string_equal(setting(&e, i, "seed"), run->repeat == 0 ? "1337" : "1338");
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(e.runs[k].id, run->id);
        }
    }
    for (int i = 0; i < 9; i++) { /* peers leave pacer's own runs as they were */
        assert_string_equal(e.runs[i].id, plain.runs[i].id);
    }
    assert_string_equal(setting(&e, 15, "attention"), "flash");
    assert_string_equal(setting(&e, 15, "ddp"), "(none)");
    assert_string_equal(e.peer_version, "2.9");
    assert_non_null(strstr(e.peer_note, "1 of 9 configurations"));
    experiment_free(&e);
    experiment_free(&plain);
}

static void test_recipe__without_their_program_there_are_no_peers(void **state)
{
    (void)state;
    static const char text[] = HEAD "axes: [{batch: [1, 2]}]\npeers: torch\n";
    Experiment e = with_peers(text, &(PeerTools){.why = "python3 cannot import torch"});
    assert_int_equal(e.count, 2);
    assert_non_null(strstr(e.peer_note, "python3 cannot import torch"));
    assert_string_equal(e.peer_version, "");
    experiment_free(&e);
}

static void test_recipe__smoke_replaces_keys_and_merges_base(void **state)
{
    (void)state;
    static const char text[] = "name: x\ntitle: large\nbase: {data: d, tokens: 10M, layers: 12}\n"
                               "axes: [{batch: [1, 2, 4]}]\nrepeats: 3\n"
                               "smoke:\n  title: small\n  base: {steps: 5, batch: 4}\n"
                               "  axes: [{seq: [8, 16]}]\n  repeats: 1\n  timeout: 2m\n";
    Experiment large = loaded(text, false), small = loaded(text, true);
    assert_int_equal(large.count, 9);
    assert_int_equal(large.runs[0].cfg.tokens, 10000000);
    assert_string_equal(large.recipe.title, "large");
    assert_int_equal(small.count, 2);
    assert_int_equal(small.runs[0].cfg.steps, 5);
    assert_int_equal(small.runs[0].cfg.tokens, 0);
    assert_int_equal(small.runs[0].cfg.fields.layers, 12);
    assert_int_equal(small.runs[1].cfg.batch, 4);
    assert_string_equal(small.recipe.title, "small");
    assert_true(small.recipe.timeout_s == 120 && large.recipe.timeout_s == 0);
    experiment_free(&large);
    experiment_free(&small);
}

static void test_recipe__ids_survive_an_edit_and_equal_runs_are_one(void **state)
{
    (void)state;
    Experiment one = loaded(HEAD "axes: [{batch: [4, 8, 4]}]\n", false);
    Experiment two = loaded("name: y\nabout: other\nbase: {lr: 0.0003, data: \"builtin:stories\"}\n"
                            "axes: [{batch: [2, 8, 4]}, {graph: [on, off]}]\nrepeats: 2\n",
                            false);
    assert_int_equal(one.count, 2);
    assert_int_equal(one.configurations, 2);
    assert_int_equal(two.count, 12); /* graph is no part of a run id, but this experiment asks */
    assert_string_equal(one.runs[1].id, two.runs[2].id);
    assert_string_equal(one.runs[0].id, two.runs[4].id);
    assert_string_not_equal(two.runs[4].id, two.runs[5].id);
    experiment_free(&one);
    experiment_free(&two);
}

static void test_recipe__options_about_records_go_along_unseen(void **state)
{
    (void)state;
    Experiment e = loaded(HEAD "axes: [{batch: [4, 8], eval-every: [20, 10]}]\n", false);
    Experiment plain = loaded(HEAD "axes: [{batch: [4, 8]}]\n", false);
    assert_string_equal(e.runs[1].label, "batch 8");
    assert_int_equal(e.runs[1].cfg.eval_every, 10);
    assert_string_equal(e.runs[1].id, plain.runs[1].id);
    experiment_free(&e);
    experiment_free(&plain);
}

static void test_recipe__tables_and_charts_arrive_as_written(void **state)
{
    (void)state;
    Experiment e =
        loaded(HEAD "axes: [{batch: [4]}]\n"
                    "tables: [{title: T, columns: [batch, tok_s]}]\n"
                    "charts: [{name: c, title: C, kind: bars, x: batch, y: tok_s, logy: on,\n"
                    "          where: {batch: 4, ddp: flat}}]\n"
                    "baseline: {batch: 4}\ntarget-loss: 2.5\n",
               false);
    const cJSON *table = cJSON_GetArrayItem(e.recipe.tables, 0);
    const cJSON *chart = cJSON_GetArrayItem(e.recipe.charts, 0);
    assert_string_equal(cJSON_GetObjectItem(table, "per")->valuestring, "configuration");
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(table, "columns")), 2);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(chart, "y")), 1);
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(chart, "logy")));
    const cJSON *where = cJSON_GetObjectItem(chart, "where");
    assert_int_equal(cJSON_GetArraySize(where), 2);
    assert_string_equal(cJSON_GetObjectItem(where, "batch")->valuestring, "4");
    assert_true(e.recipe.target_loss.known && e.recipe.target_loss.number == 2.5);
    assert_string_equal(e.recipe.baseline.items[0].value, "4");
    experiment_free(&e);
}

static void test_recipe__bad_files_are_named_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *line, *said;
    } cases[] = {
        {"name: x\nbase: {data: d}\naxis: [{batch: [1]}]\n", ":3:", "did you mean axes?"},
        {"name: x\nbase:\n  data: d\n  batsh: 4\naxes: [{seq: [8]}]\n",
         ":4:", "did you mean batch?"},
        {"name: x\nbase:\n  data: d\n  batch: four\naxes: [{seq: [8]}]\n", ":4:", "batch"},
        {HEAD "axes:\n- batch:\n  - 1\n  - 0\n", ":6:", "batch"},
        {HEAD "axes:\n- ddp: [naive, flatt]\n", ":4:", "flat"},
        {HEAD "axes:\n- {batch: [1, 2], accum: [1]}\n", ":4:", "as many"},
        {HEAD "axes:\n- batch: [1, 2]\n- {seq: [8], batch: [4]}\n", ":5:", "two axes"},
        {HEAD "axes: [{batch: 4}]\n", ":3:", "list"},
        {HEAD "axes: []\n", ":3:", "not empty"},
        {HEAD "axes: [{}]\n", ":3:", "list of values"},
        {HEAD, "x.yaml:", "axes"},
        {HEAD "axes: [{out: [a, b]}]\n", ":3:", "up to the sweep"},
        {HEAD "axes: [{tokenizer: [a, b]}]\n", ":3:", "not an option of train"},
        {HEAD "axes: [{batch: [1]}]\nrepeats: 0\n", ":4:", "repeats"},
        {HEAD "axes: [{batch: [1]}]\nrepeats: 1.5\n", ":4:", "repeats"},
        {HEAD "axes: [{batch: [1]}]\ntimeout: 5x\n", ":4:", "timeout"},
        {HEAD "axes: [{batch: [1]}]\nlr-rule: {rule: linear}\n", ":4:", "at"},
        {HEAD "axes: [{batch: [1]}]\nlr-rule: {rule: cubic, at: 2}\n", ":4:", "cubic"},
        {HEAD "axes: [{batch: [1]}]\nlr-probe: {factors: [1], tokens: 2M}\n", ":4:", "two"},
        {HEAD "axes: [{batch: [1]}]\nlr-probe: {factors: [2, 1], tokens: 2M}\n", ":4:", "above"},
        {HEAD "axes: [{batch: [1]}]\nlr-probe: {factors: [0, 1], tokens: 2M}\n", ":4:", "positive"},
        {HEAD "axes: [{batch: [1]}]\nlr-probe: {factors: [1, 2]}\n", ":4:", "tokens"},
        {HEAD "axes: [{batch: [1]}]\nlr-probe: {factors: [1, 2], tokens: many}\n", ":4:", "many"},
        {HEAD "axes: [{batch: [1]}]\nlr-probe: some\n", ":4:", "lr-probe"},
        {HEAD "axes: [{batch: [1]}]\npeers: [torch, jaks]\n", ":4:", "jaks"},
        {HEAD "axes: [{batch: [1]}]\npeers: [torch, none]\n", ":4:", "alone"},
        {HEAD "axes: [{batch: [1]}]\npeers: []\n", ":4:", "not empty"},
        {HEAD "axes: [{batch: [1]}]\npeers: {torch: on}\n", ":4:", "list"},
        {HEAD "axes: [{batch: [1]}]\nskip: [{}]\n", ":4:", "everything"},
        {HEAD "axes: [{batch: [1]}]\nskip: [{batch: 1}]\n", "x.yaml:", "nothing to run"},
        {HEAD "axes: [{batch: [1]}]\nsmoke: {name: y}\n", ":4:", "smoke"},
        {HEAD "axes: [{batch: [1]}]\nsmoke: {base: {bach: 2}}\n", ":4:", "batch"},
        {HEAD "axes: [{batch: [1]}]\ntables: [{title: T}]\n", ":4:", "columns"},
        {HEAD "axes: [{batch: [1]}]\ncharts:\n- {name: a, title: A, kind: bar, x: batch, y: [a]}\n",
         ":5:", "bars"},
        {HEAD
         "axes: [{batch: [1]}]\ncharts:\n- {name: ../a, title: A, kind: bars, x: batch, y: a}\n",
         ":5:", "slash"},
        {HEAD
         "axes: [{batch: [1]}]\ncharts:\n- {name: a, title: A, kind: curves, x: batch, y: a}\n",
         ":5:", "step"},
        {HEAD "axes: [{batch: [1]}]\ncharts:\n"
              "- {name: a, title: A, kind: bars, x: batch, y: a, where: {bach: 1}}\n",
         ":5:", "batch"},
        {HEAD "axes: [{batch: [1]}]\nname: z\n", ":4:", "twice"},
        {HEAD "axes: [{batch: &a [1, 2]}, {seq: *a}]\n", ":3:", "alias"},
        {HEAD "axes: [{batch: [1]}]\n---\nname: y\n", ":5:", "second document"},
        {"base: {data: d}\naxes: [{batch: [1]}]\n", ":1:", "name"},
        {"name: a/b\naxes: [{batch: [1]}]\n", ":1:", "folder"},
        {"name: [a\n", ":2:", "not YAML"},
        {"- a\n", ":1:", "name: value"},
        {"", "x.yaml:", "empty"},
        {"name: x\nbase: {data: d, global-batch: 6}\naxes:\n- batch: [2, 4]\n",
         ":2:", "(with batch 4)"},
        {"name: x\nbase: {data: d, steps: 4}\naxes:\n- tokens: [20, 40]\n", ":4:", "both given"},
        {"name: x\nbase: {lr: 1}\naxes: [{batch: [1]}]\n", "x.yaml:", "data"},
        {HEAD "axes: [{batch: [1]}]\nbase: ~\n", ":4:", "twice"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        Experiment e;
        int code = load(&e, cases[i].text, false);
        if (code != ERR_INPUT || strstr(err_message(), cases[i].line) == NULL ||
            strstr(err_message(), cases[i].said) == NULL) {
            fail_msg("case %zu, code %d: wanted '%s' and '%s': %s", i, code, cases[i].line,
                     cases[i].said, code != 0 ? err_message() : "accepted");
        }
    }
    Experiment e;
    assert_int_equal(load(&e, HEAD "axes: [{batch: [1]}]\n", true), ERR_INPUT);
    assert_non_null(strstr(err_message(), "smoke"));
}

static void test_recipe__too_many_runs_are_refused(void **state)
{
    (void)state;
    Experiment e;
    assert_int_equal(load(&e,
                          HEAD
                          "axes: [{batch: [1,2,3,4,5,6,7,8,9,10]}, {seq: [1,2,3,4,5,6,7,8,9,10]},"
                          "{layers: [1,2,3,4,5,6,7,8,9,10]}]\nrepeats: 11\n",
                          false),
                     ERR_INPUT);
    assert_non_null(strstr(err_message(), "10000"));
}

/* A valid recipe with bytes changed, removed or doubled: an answer, never a crash. */
static void test_recipe__damaged_text_is_answered(void **state)
{
    (void)state;
    static const char text[] = HEAD
        "axes: [{batch: [1, 2], accum: [2, 1]}]\nskip: [{batch: 2}]\nrepeats: 2\ntimeout: 10m\n"
        "lr-rule: {rule: sqrt, at: 32}\nbaseline: {batch: 1}\ntarget-loss: 3\n"
        "tables:\n- {title: a, per: run, columns: [batch]}\n"
        "charts:\n- {name: c, title: C, kind: bars, x: batch, y: [tok_s]}\n"
        "smoke: {base: {steps: 3}, repeats: 1}\n";
    unsigned random = 1;
    for (int i = 0; i < 500; i++) {
        char damaged[sizeof text];
        memcpy(damaged, text, sizeof text);
        for (int k = 0; k < 1 + i % 3; k++) {
            random = random * 1664525u + 1013904223u;
            size_t at = (random >> 8) % (sizeof text - 1);
            random = random * 1664525u + 1013904223u;
            damaged[at] = "[]{}:,-&*!|>'\"%@`\n ~0az\t"[(random >> 8) % 25];
        }
        Experiment e;
        int code = load(&e, damaged, i % 2 == 0);
        if (code == 0) {
            experiment_free(&e);
        } else {
            assert_true(strlen(err_message()) > 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recipe__axes_are_crossed_and_the_last_varies_fastest),
        cmocka_unit_test(test_recipe__options_of_one_axis_change_together),
        cmocka_unit_test(test_recipe__repeats_are_interleaved_and_have_seeds_of_their_own),
        cmocka_unit_test(test_recipe__skip_leaves_out_what_has_all_of_its_values),
        cmocka_unit_test(test_recipe__lr_follows_the_global_batch),
        cmocka_unit_test(test_recipe__the_probe_tries_factors_and_the_best_is_taken),
        cmocka_unit_test(test_recipe__a_probe_with_nothing_to_find_is_refused),
        cmocka_unit_test(test_recipe__peers_get_one_run_for_what_is_equal_to_them),
        cmocka_unit_test(test_recipe__without_their_program_there_are_no_peers),
        cmocka_unit_test(test_recipe__smoke_replaces_keys_and_merges_base),
        cmocka_unit_test(test_recipe__ids_survive_an_edit_and_equal_runs_are_one),
        cmocka_unit_test(test_recipe__options_about_records_go_along_unseen),
        cmocka_unit_test(test_recipe__tables_and_charts_arrive_as_written),
        cmocka_unit_test(test_recipe__bad_files_are_named_by_line),
        cmocka_unit_test(test_recipe__too_many_runs_are_refused),
        cmocka_unit_test(test_recipe__damaged_text_is_answered),
    };
    return cmocka_run_group_tests(tests, own_folder_make, own_folder_remove);
}
