/* What a resume does with each option: the whole table is walked, and every option of train is
 * resumed with another value. Then what is kept of it: legs in run.json and state.json, log
 * lines, checkpoints of 0.1. */
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "support/capture.h"
#include "support/data_files.h"
#include "support/json_assert.h"
#include "support/own_folder.h"
#include "support/says.h"
#include "train/checkpoint.h"
#include "train/loop.h"
#include "train/resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static char *path_in(const char *name)
{
    return io_join(own_folder, name);
}

/* --- two sets of data with as many tokens each, in nanoGPT's form --- */

static char *data_a, *data_b, *data_moved;

static char *make_data(const char *name, uint32_t first)
{
    char *folder = path_in(name), *file = io_join(folder, "train.bin");
    must(io_make_folders(folder));
    data_files_raw(file, first, 2000);
    free(file);
    return folder;
}

static int make_folders(void **state)
{
    if (own_folder_make(state) != 0) {
        return -1;
    }
    data_a = make_data("a", 1);
    data_b = make_data("b", 2);
    data_moved = make_data("moved", 1);
    return 0;
}

static int remove_folders(void **state)
{
    free(data_a);
    free(data_b);
    free(data_moved);
    return own_folder_remove(state);
}

/* --- a run and its checkpoint, without training --- */

static const char *const plain[] = {
    "model", "tiny", "layers",  "2",  "d-model", "32", "heads", "4", "kv-heads", "2",   "ffn", "48",
    "vocab", "2100", "context", "32", "seq",     "16", "batch", "2", "device",   "ref", NULL};
static const char *const stretched[] = {
    "model", "tiny", "layers", "2",     "d-model",      "32",      "heads",       "4",   "kv-heads",
    "2",     "ffn",  "48",     "vocab", "2100",         "context", "32",          "seq", "16",
    "batch", "2",    "device", "ref",   "rope-scaling", "linear",  "rope-factor", "2",   NULL};
static const char *const yarn[] = {
    "model",       "tiny", "layers",   "2",  "d-model",   "32",   "heads",        "4",
    "kv-heads",    "2",    "ffn",      "48", "vocab",     "2100", "context",      "32",
    "seq",         "16",   "batch",    "2",  "device",    "ref",  "rope-scaling", "yarn",
    "rope-factor", "4",    "rope-low", "1",  "rope-high", "3",    "rope-context", "16",
    NULL};
static const char *const windowed[] = {
    "model",      "tiny", "layers",          "2",   "d-model", "32",
    "heads",      "4",    "kv-heads",        "2",   "ffn",     "48",
    "vocab",      "2100", "context",         "32",  "seq",     "16",
    "batch",      "2",    "device",          "ref", "window",  "8",
    "full-every", "2",    "rope-local-base", "100", NULL};
static const char *const told[] =
    {/* data with an end of documents */
     "data", "builtin:bytes", "model", "tiny", "layers", "2",     "d-model", "32",     "heads",
     "4",    "context",       "32",    "seq",  "16",     "batch", "2",       "device", "ref",
     NULL};
static const char *const ttt[] = {"model",   "ttt-125m", "layers", "1",  "d-model", "32",
                                  "heads",   "2",        "ffn",    "48", "vocab",   "2100",
                                  "context", "32",       "seq",    "16", "batch",   "2",
                                  "device",  "ref",      NULL};

static void configure(Config *cfg, const char *const *options)
{
    config_init(cfg, COMMAND_TRAIN);
    must(config_set(cfg, "data", data_a));
    for (; *options != NULL; options += 2) {
        must(config_set(cfg, options[0], options[1]));
    }
}

static void settle(Config *cfg)
{
    must(config_check(cfg));
    must(run_resolve(cfg));
}

/* How the options were: 0.1 left open what was not given. */
typedef enum { AS_GIVEN, SETTLED } Recorded;

/* As a session would leave it behind; returns the folder. */
static char *save(const char *name, const char *const *options, Recorded recorded)
{
    Config cfg;
    Run run;
    char *folder = path_in(name);
    configure(&cfg, options);
    settle(&cfg);
    must(run_open(&run, &cfg, NULL, DATA_REQUIRED));
    TrainState state = {.step = 3,
                        .seed = (uint64_t)cfg.seed,
                        .seq = run.setup.seq,
                        .data_tokens = run.data.train.tokens,
                        .data_digest = dataset_digest(&run.data),
                        .first_loss = NAN,
                        .best_val_loss = NAN};
    cJSON *config = config_to_json(recorded == SETTLED ? &run.settled : &cfg);
    must(io_make_folders(folder));
    must(state_write(folder, &state, &run.setup.spec, config, (CheckpointDigests){0}));
    cJSON_Delete(config);
    run_close(&run);
    config_free(&cfg);
    return folder;
}

/* An option that the record lacks, as one of an older release does. */
static const char *lacking;

static int resume(Config *cfg, const char *checkpoint, LegChanges *changes)
{
    Run run;
    settle(cfg);
    must(run_open(&run, cfg, NULL, DATA_REQUIRED));
    StateFile file;
    int code = state_read(checkpoint, &file);
    if (lacking != NULL) {
        cJSON_DeleteItemFromObject((cJSON *)file.config, lacking);
    }
    *changes = (LegChanges){0};
    code = code != 0 ? code : resume_check(&run, checkpoint, &file, changes);
    state_free(&file);
    run_close(&run);
    return code;
}

static const ConfigChange *change_of(const LegChanges *changes, const char *name)
{
    for (size_t i = 0; i < changes->count; i++) {
        if (strcmp(changes->rows[i].option->name, name) == 0) {
            return &changes->rows[i];
        }
    }
    return NULL;
}

/* --- the walk --- */

/* Another value that the small models can have, where the general rule would not find one. */
static const char *const chosen[][2] = {
    {"model", "gpt2-124m"}, {"d-model", "64"},      {"heads", "8"},
    {"kv-heads", "4"},      {"context", "64"},      {"seq", "8"},
    {"norm-eps", "1e-3"},   {"rope-base", "500"},   {"ttt", "mlp"},
    {"tied", "on"},         {"global-batch", "4"},  {"device", "cpu"},
    {"dtype", "bf16"},      {"attention", "naive"}, {"ttt-lr", "0.5"},
    {"mini-batch", "8"},    {"head-dim", "16"},     {"norm", "layer"},
    {"ffn-kind", "gelu"},   {"qkv-bias", "on"},     {"rope-scaling", "llama3"},
    {"qk-norm", "on"},      {"post-norm", "on"},    {"batch-ramp", "4@0,8@50%"},
    {"shard-group", "2"},   {"fit-also", "dtype"},  {"noise-scale", "off"}, /* on takes accum 2 */
};

/* Options that another value of the first one wants besides. */
static const char *const besides[][3] = {
    {"rope-scaling", "rope-low", "1"},
    {"rope-scaling", "rope-high", "4"},
    {"rope-scaling", "rope-context", "16"},
    {"shard-group", "ddp", "zero1"},
    {"shard-group", "ranks", "2"},
    {"grad-dtype", "dtype", "bf16"},
    {"fit-also", "fit", "on"},
};

static char *other_value(const Config *cfg, const Option *option)
{
    if (strcmp(option->name, "data") == 0) {
        return mem_strdup(data_b);
    }
    for (size_t i = 0; i < sizeof chosen / sizeof chosen[0]; i++) {
        if (strcmp(chosen[i][0], option->name) == 0) {
            return mem_strdup(chosen[i][1]);
        }
    }
    char *now = config_value_text(cfg, option), *other = NULL;
    switch (option->type) {
    case OPTION_BOOL:
        other = mem_strdup(strcmp(now, "on") == 0 ? "off" : "on");
        break;
    case OPTION_CHOICE:
        other = mem_strdup(option->choices[strcmp(now, option->choices[0]) == 0 ? 1 : 0]);
        break;
    case OPTION_INT:
    case OPTION_BYTES:
        other = mem_format("%" PRId64, (int64_t)(strtod(now, NULL) + 1));
        break;
    case OPTION_REAL:
        other = mem_format("%.15g", strtod(now, NULL) == 0 ? 0.5 : strtod(now, NULL) / 2);
        break;
    case OPTION_TEXT:
        other = mem_strdup("elsewhere");
        break;
    }
    if (strcmp(now, "auto") == 0 && option->type == OPTION_REAL) {
        free(other);
        other = mem_strdup("1e-5");
    }
    free(now);
    return other;
}

static void walk_one(const Option *option, const char *const *base, const char *checkpoint)
{
    Config cfg;
    LegChanges changes;
    configure(&cfg, base);
    char *from = config_value_text(&cfg, option), *to = other_value(&cfg, option);
    must(config_set(&cfg, option->name, to));
    for (size_t i = 0; i < sizeof besides / sizeof besides[0]; i++) {
        if (strcmp(option->name, besides[i][0]) == 0) {
            must(config_set(&cfg, besides[i][1], besides[i][2]));
        }
    }
    char *text = config_value_text(&cfg, option), *flag = mem_format("--%s", option->name);
    int code = resume(&cfg, checkpoint, &changes);
    const ConfigChange *change = change_of(&changes, option->name);
    switch (option->resume) {
    case RESUME_REFUSED:
        if (code != ERR_INPUT) {
            fail_msg("--%s %s -> %s is taken", option->name, from, to);
        }
        assert_says(flag);
        assert_says("another --out");
        if (strcmp(option->name, "model") != 0) { /* whose first difference is a field of it */
            assert_says(text);
            bool presets = strcmp(from, "0") == 0 || strcmp(from, "preset") == 0;
            assert_says(presets && spec_field_of(option->name) != NULL ? "its" : from);
        }
        break;
    case RESUME_RECORDED:
        must(code);
        if (change == NULL) {
            fail_msg("--%s %s -> %s is not recorded", option->name, from, to);
        }
        assert_string_equal(change->to, text);
        assert_string_not_equal(change->from, text);
        break;
    default:
        must(code);
        assert_null(change);
    }
    leg_changes_free(&changes);
    free(flag);
    free(text);
    free(from);
    free(to);
    config_free(&cfg);
}

/* What came later was at its default before. */
static void older_records_have_defaults(void **state)
{
    (void)state;
    const Option *documents = config_find("documents");
    char *of_told = save("older", told, SETTLED);
    lacking = "documents";
    walk_one(documents, told, of_told);
    Config cfg;
    LegChanges changes;
    configure(&cfg, told);
    must(resume(&cfg, of_told, &changes));
    lacking = NULL;
    leg_changes_free(&changes);
    config_free(&cfg);
    free(of_told);
}

static void every_option_does_what_its_row_says(void **state)
{
    (void)state;
    char *of_plain = save("plain", plain, SETTLED), *of_ttt = save("ttt", ttt, SETTLED);
    char *of_stretched = save("stretched", stretched, SETTLED);
    char *of_yarn = save("yarn", yarn, SETTLED), *of_told = save("told", told, SETTLED);
    char *of_windowed = save("windowed", windowed, SETTLED);
    size_t walked = 0;
    for (const Option *option = config_options(); option->name != NULL; option++) {
        bool taken = (option->commands & 1u << COMMAND_TRAIN) != 0;
        if (!taken) {
            assert_int_equal(option->resume, RESUME_NO_RUN);
            continue;
        }
        assert_in_range(option->resume, RESUME_REFUSED, RESUME_FREE);
        if (option->flags & (OPTION_RESULT | OPTION_ROUNDING)) {
            assert_int_not_equal(option->resume, RESUME_FREE);
        }
        if (option->flags & OPTION_NO_RECORD) {
            assert_int_equal(option->resume, RESUME_FREE); /* nobody would know */
            continue;
        }
        bool inner =
            strncmp(option->name, "ttt", 3) == 0 || strcmp(option->name, "mini-batch") == 0;
        bool rope = strncmp(option->name, "rope-", 5) == 0;
        if (strcmp(option->name, "rope-scaling") == 0) {
            walk_one(option, stretched, of_stretched);
        } else if (strcmp(option->name, "rope-local-base") == 0 ||
                   strcmp(option->name, "full-every") == 0) {
            walk_one(option, windowed, of_windowed);
        } else if (rope && strcmp(option->name, "rope-base") != 0) {
            walk_one(option, yarn, of_yarn);
        } else if (strcmp(option->name, "documents") == 0) {
            walk_one(option, told, of_told);
        } else {
            walk_one(option, inner ? ttt : plain, inner ? of_ttt : of_plain);
        }
        walked++;
    }
    assert_in_range(walked, 50, CONFIG_MAX_OPTIONS);
    free(of_stretched);
    free(of_told);
    free(of_yarn);
    free(of_windowed);
    free(of_plain);
    free(of_ttt);
}

static void the_same_command_changes_nothing(void **state)
{
    (void)state;
    char *checkpoint = save("same", plain, SETTLED);
    Config cfg;
    LegChanges changes;
    configure(&cfg, plain);
    must(resume(&cfg, checkpoint, &changes));
    assert_int_equal(changes.count, 0);
    leg_changes_free(&changes);
    config_free(&cfg);
    free(checkpoint);
}

/* Written otherwise, the same model; and the same tokens in another place. */
static void what_stands_for_the_same_is_taken(void **state)
{
    (void)state;
    static const char *const dims[] = {"model", "tiny",  "context", "32",     "seq", "16", "batch",
                                       "2",     "vocab", "2100",    "device", "ref", NULL};
    char *checkpoint = save("spelled", dims, AS_GIVEN);
    Config cfg;
    LegChanges changes;
    configure(&cfg, dims);
    must(config_set(&cfg, "layers", "4")); /* as the preset has it */
    must(config_set(&cfg, "data", data_moved));
    must(resume(&cfg, checkpoint, &changes));
    assert_int_equal(changes.count, 2);
    assert_string_equal(change_of(&changes, "layers")->to, "4");
    assert_string_equal(change_of(&changes, "data")->from, data_a);
    leg_changes_free(&changes);
    config_free(&cfg);
    free(checkpoint);
}

static void an_option_left_out_is_named(void **state)
{
    (void)state;
    static const char *const given[] = {"model", "tiny", "vocab", "2100", "batch", "2", "device",
                                        "ref",   "seq",  "16",    "seed", "7",     NULL};
    char *checkpoint = save("left-out", given, SETTLED);
    Config cfg;
    LegChanges changes;
    configure(&cfg, given);
    must(config_set(&cfg, "seed", "1337"));
    cfg.origin[config_find("seed") - config_options()].kind = ORIGIN_DEFAULT;
    assert_int_equal(resume(&cfg, checkpoint, &changes), ERR_INPUT);
    assert_says("was trained with --seed 7, this command has --seed 1337 (not given)");
    assert_says("give --seed 7");
    config_free(&cfg);
    free(checkpoint);
}

/* --- a checkpoint of 0.1: no digest of the data, no legs, fourteen fields of the model --- */

static void make_old(const char *folder)
{
    static const char *const unknown[] = {
        "names",      "scaled residual", "decay all",    "mixer",           "ttt",
        "mini-batch", "ttt-lr",          "head-dim",     "rope scaling",    "rope factor",
        "rope low",   "rope high",       "rope context", "rope gain",       "qkv bias",
        "qk norm",    "window",          "full every",   "rope local base", "score scale",
        "score cap",  "post norm",       "embed scale",  "logit cap"};
    char *path = io_join(folder, "state.json");
    cJSON *whole;
    must(json_load(path, &whole));
    cJSON *object = cJSON_GetObjectItem(whole, "state"),
          *model = cJSON_GetObjectItem(object, "model");
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        assert_non_null(cJSON_GetObjectItem(model, unknown[i]));
        cJSON_DeleteItemFromObject(model, unknown[i]);
    }
    assert_int_equal(cJSON_GetArraySize(model), 15); /* with its name */
    cJSON_DeleteItemFromObject(object, "data_digest");
    cJSON_DeleteItemFromObject(object, "legs");
    char *text = cJSON_PrintUnformatted(object), digest[17];
    snprintf(digest, sizeof digest, "%016" PRIx64, io_hash(text, strlen(text)));
    cJSON_ReplaceItemInObject(whole, "digest", cJSON_CreateString(digest));
    must(json_save(path, whole));
    cJSON_free(text);
    cJSON_Delete(whole);
    free(path);
}

static void old_checkpoints_are_taken_as_far_as_they_tell(void **state)
{
    (void)state;
    char *checkpoint = save("old", ttt, AS_GIVEN);
    make_old(checkpoint);
    Config cfg;
    LegChanges changes;
    configure(&cfg, ttt);
    must(resume(&cfg, checkpoint, &changes));
    assert_int_equal(changes.count, 0);
    leg_changes_free(&changes);
    must(config_set(&cfg, "ttt-lr", "0.01"));
    assert_int_equal(resume(&cfg, checkpoint, &changes), ERR_INPUT);
    assert_says("--ttt-lr 0, this command has --ttt-lr 0.01");
    must(config_set(&cfg, "ttt-lr", "0"));
    must(config_set(&cfg, "data", data_b)); /* as many tokens: nobody can tell */
    must(resume(&cfg, checkpoint, &changes));
    assert_true(changes.data_unknown);
    assert_int_equal(changes.count, 1);
    leg_changes_free(&changes);
    config_free(&cfg);
    free(checkpoint);
}

/* --- runs that train --- */

static int train(const char *out, const char *const *more, char **said)
{
    static const char *const small[] = {
        "model",   "tiny", "layers",     "1",    "d-model",     "16",  "heads", "2",
        "ffn",     "16",   "vocab",      "2100", "context",     "16",  "batch", "2",
        "threads", "1",    "eval-every", "0",    "tensorboard", "off", NULL};
    Config cfg;
    configure(&cfg, small);
    must(config_set(&cfg, "out", out));
    for (; *more != NULL; more += 2) {
        must(config_set(&cfg, more[0], more[1]));
    }
    settle(&cfg);
    capture_begin(fileno(stderr));
    int code = train_run(&cfg, NULL, NULL, NULL);
    *said = capture_end();
    config_free(&cfg);
    return code;
}

static void trains(const char *out, const char *const *more, const char *words)
{
    char *said;
    int code = train(out, more, &said);
    if ((code != 0 && code != ERR_CHECK) || strstr(said, words) == NULL) {
        fail_msg("%s without \"%s\": %s", code == 0 ? "trained" : err_message(), words, said);
    }
    free(said);
}

static void refuses(const char *out, const char *const *more, const char *words)
{
    char *said;
    assert_int_equal(train(out, more, &said), ERR_INPUT);
    assert_says(words);
    free(said);
}

/* The list in run.json, and in the checkpoint beside it, which must be the same; caller deletes. */
static cJSON *legs_of(const char *out)
{
    char *record = io_join(out, "run.json"), *latest = io_join(out, "ckpt/latest");
    cJSON *run;
    StateFile kept;
    must(json_load(record, &run));
    must(state_read(latest, &kept));
    cJSON *legs = cJSON_DetachItemFromObject(run, "legs");
    assert_true(cJSON_IsArray(legs) && cJSON_Compare(legs, kept.legs, true));
    state_free(&kept);
    cJSON_Delete(run);
    free(record);
    free(latest);
    return legs;
}

/* Options that nobody gave are recorded as what they turned out to be. */
static void records_are_settled(void **state)
{
    (void)state;
    char *out = path_in("settled"), *record = io_join(out, "run.json");
    trains(out, (const char *const[]){"steps", "40", "lr", "2e-3", NULL}, "Training tiny");
    cJSON *run;
    must(json_load(record, &run));
    const cJSON *config = member(run, "config"), *model = member(run, "model");
    assert_int_equal((int64_t)number(config, "kv-heads"), 2); /* as many as heads */
    assert_int_equal((int64_t)number(model, "kv-heads"), 2);
    assert_int_equal((int64_t)number(config, "head-dim"), 8);
    assert_text(config, "tied", "off");
    assert_text(config, "ffn-kind", "swiglu");
    assert_int_equal((int64_t)number(config, "warmup"), 2);
    assert_true(number(config, "min-lr") == 2e-4 && number(config, "rope-base") == 10000);
    assert_int_equal((int64_t)number(config, "mini-batch"), 0); /* of TTT models */
    assert_null(cJSON_GetObjectItem(model, "mini-batch"));
    cJSON_Delete(run);
    free(record);
    free(out);
}

#define OPTIONS(...)      \
    (const char *const[]) \
    {                     \
        __VA_ARGS__, NULL \
    }

static void legs_tell_what_changed(void **state)
{
    (void)state;
    char *out = path_in("legs"), *other = path_in("legs-of-step-2");
    trains(out, OPTIONS("steps", "2", "keep", "0", "lr", "1e-3"), "Training tiny");
    trains(out, OPTIONS("steps", "3", "keep", "0", "lr", "1e-3"), "another --steps: 2 -> 3");
    trains(out, OPTIONS("steps", "4", "keep", "0", "beta2", "0.9"),
           "--lr 0.003, the default, where it was 0.001");
    cJSON *legs = legs_of(out);
    assert_int_equal(cJSON_GetArraySize(legs), 3);
    const cJSON *first = cJSON_GetArrayItem(legs, 0), *last = cJSON_GetArrayItem(legs, 2);
    assert_int_equal((int)number(first, "step"), 0);
    assert_int_equal(cJSON_GetArraySize(member(first, "changed")), 0);
    assert_int_equal((int)number(last, "step"), 3);
    assert_int_equal((int)number(last, "ranks"), 1);
    assert_true(cJSON_IsString(member(last, "started")) && cJSON_IsString(member(last, "host")));
    assert_true(cJSON_IsString(member(last, "version")) && cJSON_IsString(member(last, "commit")));
    static const char *const expected[][3] = {{"steps", "3", "4"},
                                              {"lr", "0.001", "0.003"},
                                              {"min-lr", "0.0001", "0.0003"}, /* follows from lr */
                                              {"beta2", "0.95", "0.9"}};
    const cJSON *changed = member(last, "changed");
    assert_int_equal(cJSON_GetArraySize(changed), 4);
    for (int i = 0; i < 4; i++) {
        const cJSON *row = cJSON_GetArrayItem(changed, i);
        assert_text(row, "option", expected[i][0]);
        assert_text(row, "from", expected[i][1]);
        assert_text(row, "to", expected[i][2]);
    }
    cJSON_Delete(legs);

    /* From further back and elsewhere: the leg that came after that step was another's. */
    char *back = io_join(out, "ckpt/step-2");
    trains(other, OPTIONS("steps", "3", "lr", "1e-3", "resume", back), "Going on from");
    legs = legs_of(other);
    assert_int_equal(cJSON_GetArraySize(legs), 2);
    assert_int_equal((int)number(cJSON_GetArrayItem(legs, 1), "step"), 2);
    cJSON_Delete(legs);

    refuses(out, OPTIONS("steps", "5", "init", "other"),
            "no --init, this command has --init other");
    refuses(out, OPTIONS("steps", "5", "data", data_b), "does not hold the tokens");
    free(back);
    free(other);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_option_does_what_its_row_says),
        cmocka_unit_test(older_records_have_defaults),
        cmocka_unit_test(the_same_command_changes_nothing),
        cmocka_unit_test(what_stands_for_the_same_is_taken),
        cmocka_unit_test(an_option_left_out_is_named),
        cmocka_unit_test(old_checkpoints_are_taken_as_far_as_they_tell),
        cmocka_unit_test(records_are_settled),
        cmocka_unit_test(legs_tell_what_changed),
    };
    return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
