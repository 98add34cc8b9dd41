/* Options from text and from the command line: what is accepted gives exactly the value written,
 * everything else is refused with a message that names it. */
#include "config/config.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "support/data_files.h"
#include "support/says.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Parses words split at spaces (none may be in a value). */
static int parse(Config *cfg, Command command, const char *line, int *rest, char **first)
{
    static char buffer[512];
    char *words[32];
    int count = 0;
    snprintf(buffer, sizeof buffer, "%s", line);
    for (char *word = strtok(buffer, " "); word != NULL; word = strtok(NULL, " ")) {
        words[count++] = word;
    }
    config_init(cfg, command);
    int code = config_parse(cfg, count, words);
    code = code != 0 || cfg->help ? code : config_check_required(cfg);
    *rest = cfg->argc;
    if (first != NULL) {
        *first = *rest > 0 ? words[0] : NULL;
    }
    return code;
}

static void test_config__switches_in_every_form(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        bool graph, quiet;
        int rest;
    } forms[] = {
        {"", true, false, 0},
        {"--no-graph --quiet", false, true, 0},
        {"--graph off --quiet on", false, true, 0},
        {"--graph=off --quiet=on", false, true, 0},
        {"--graph --no-quiet", true, false, 0},
        {"--graph on --quiet off", true, false, 0},
        {"--quiet other", true, true, 1},
        {"--no-graph on", false, false, 1},
        {"--quiet -- on", true, true, 1},
    };
    for (size_t i = 0; i < COUNT(forms); i++) {
        Config cfg;
        int rest;
        assert_int_equal(parse(&cfg, COMMAND_PLAN, forms[i].line, &rest, NULL), 0);
        assert_int_equal(cfg.graph, forms[i].graph);
        assert_int_equal(cfg.quiet, forms[i].quiet);
        assert_int_equal(rest, forms[i].rest);
        config_free(&cfg);
    }
    static const char *const bad[][2] = {
        {"--no-graph=on", "--graph is turned off by --no-graph alone"},
        {"--graph --no-graph", "--graph is given twice"},
        {"--no-lr", "unknown option '--no-lr'"},
        {"--graph=perhaps", "--graph 'perhaps': must be on or off"},
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        Config cfg;
        int rest;
        assert_int_equal(parse(&cfg, COMMAND_TRAIN, bad[i][0], &rest, NULL), ERR_INPUT);
        assert_says(bad[i][1]);
        config_free(&cfg);
    }
}

static void test_config__choices_flags_and_text(void **state)
{
    (void)state;
    Config cfg;
    config_init(&cfg, COMMAND_TRAIN);
    assert_int_equal(config_set(&cfg, "schedule", "wsd"), 0);
    assert_int_equal(cfg.schedule, SCHEDULE_WSD);
    assert_int_equal(config_set(&cfg, "device", "ref"), 0);
    assert_int_equal(cfg.device, DEVICE_REF);
    assert_int_equal(config_set(&cfg, "dtype", "bf16"), 0);
    assert_int_equal(cfg.dtype, CONFIG_DTYPE_BF16);
    assert_int_equal(config_set(&cfg, "attention", "flash"), 0);
    assert_int_equal(cfg.attention, CONFIG_ATTENTION_FLASH);
    assert_int_equal(config_set(&cfg, "recompute", "block"), 0);
    assert_int_equal(cfg.recompute, KEEP_INPUTS);
    assert_int_equal(config_set(&cfg, "tied", "off"), 0);
    assert_int_equal(cfg.fields.tied, 1);
    assert_int_equal(config_set(&cfg, "schedule", "cosin"), ERR_INPUT);
    assert_says("schedule 'cosin': no such value; did you mean cosine");
    assert_int_equal(config_set(&cfg, "dtype", "BF16"), ERR_INPUT);
    assert_says("did you mean bf16");
    assert_int_equal(config_set(&cfg, "dtype", "int8"), ERR_INPUT);
    assert_says("all: auto, f32, bf16");

    static const char *const on[] = {"on", "true"}, *const off[] = {"off", "false"};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(config_set(&cfg, "quiet", on[i]), 0);
        assert_true(cfg.quiet);
        assert_int_equal(config_set(&cfg, "quiet", off[i]), 0);
        assert_false(cfg.quiet);
    }
    assert_int_equal(config_set(&cfg, "quiet", "1"), ERR_INPUT);
    assert_int_equal(config_set(&cfg, "quiet", ""), ERR_INPUT);

    assert_int_equal(config_set(&cfg, "out", "runs/\xc3\xa9t\xc3\xa9 \xf0\x9f\x99\x82"), 0);
    assert_string_equal(cfg.out, "runs/\xc3\xa9t\xc3\xa9 \xf0\x9f\x99\x82");
    static const char *const bad[] = {
        "a\nb",     "a\x1b[31m", "\xff",     "\xc3",     "\xed\xa0\x80", "\xed\xbf\xbf",
        "\xc0\xaf", "\x7f",      "\xc2\x85", "\xe2\x82", "\x80",         "\xf5\x80\x80\x80"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(config_set(&cfg, "out", bad[i]), ERR_INPUT);
        assert_says("control character or is not UTF-8");
        assert_null(strpbrk(err_message(), "\n\x1b\x7f\xff"));
    }
    char *longest = mem_zalloc(5000, 1);
    memset(longest, 'x', 4999);
    assert_int_equal(config_set(&cfg, "out", longest), ERR_INPUT);
    assert_says("longer than");
    free(longest);
    config_free(&cfg);
}

static void test_config__table_is_sound(void **state)
{
    (void)state;
    const Option *options = config_options();
    for (size_t i = 0; options[i].name != NULL; i++) {
        const Option *option = &options[i];
        assert_ptr_equal(config_find(option->name), option);
        assert_true(option->commands != 0 && (option->required & ~option->commands) == 0);
        assert_true(strspn(option->name, "abcdefghijklmnopqrstuvwxyz0123456789-") ==
                    strlen(option->name));
        assert_true(option->help[0] != '\0' && option->group[0] != '\0');
        assert_true((option->type == OPTION_TEXT) == (option->metavar != NULL));
        assert_true((option->type == OPTION_CHOICE) == (option->choices != NULL));
        assert_true(option->type == OPTION_REAL || option->max <= 1e15);
    }
    for (int command = 0; command < COMMAND_COUNT; command++) {
        Config cfg; /* every default parses (config_init asserts it) and passes the checks */
        config_init(&cfg, (Command)command);
        assert_int_equal(config_check(&cfg), 0);
        config_free(&cfg);
        config_free(&cfg);
    }
}

static void test_config__command_line_forms(void **state)
{
    (void)state;
    Config cfg;
    int rest;
    char *first, origin[CONFIG_ORIGIN_SIZE];
    assert_int_equal(parse(&cfg, COMMAND_TRAIN,
                           "--data d --batch 4 --lr=1e-3 --quiet --tied=off --clip=0", &rest, NULL),
                     0);
    assert_true(cfg.batch == 4 && cfg.lr == 1e-3 && cfg.quiet && cfg.clip == 0);
    assert_int_equal(cfg.fields.tied, 1);
    assert_int_equal(rest, 0);
    assert_true(config_is_set(&cfg, "batch") && !config_is_set(&cfg, "accum"));
    assert_string_equal(config_origin(&cfg, "batch", origin), "command line");
    assert_string_equal(config_origin(&cfg, "accum", origin), "default");
    config_free(&cfg);

    assert_int_equal(
        parse(&cfg, COMMAND_DATA_PREPARE, "a.txt --out=d --quiet=off - -- --b", &rest, &first), 0);
    assert_int_equal(rest, 3);
    assert_string_equal(first, "a.txt");
    assert_false(cfg.quiet);
    config_free(&cfg);

    /* An option that may come several times: each value is a line, and the default is gone. */
    assert_int_equal(parse(&cfg, COMMAND_TOKENIZER_TRAIN,
                           "x --out=t --special <a> --special=<b,c> --special <d>", &rest, NULL),
                     0);
    assert_string_equal(cfg.special, "<a>\n<b,c>\n<d>");
    config_free(&cfg);
    assert_int_equal(parse(&cfg, COMMAND_TOKENIZER_TRAIN, "x --out=t", &rest, NULL), 0);
    assert_string_equal(cfg.special, "<|endoftext|>");
    config_free(&cfg);

    assert_int_equal(parse(&cfg, COMMAND_TRAIN, "--bogus --help", &rest, NULL), 0);
    assert_true(cfg.help);
    config_free(&cfg);

    static const struct {
        Command command;
        const char *line, *says;
    } cases[] = {
        {COMMAND_TRAIN, "--bacth 8", "unknown option '--bacth'; did you mean --batch?"},
        {COMMAND_TRAIN, "--d_model 8", "did you mean --d-model?"},
        {COMMAND_TRAIN, "--weight 8", "did you mean --weight-decay?"},
        {COMMAND_TRAIN, "--learning-rate 8", "did you mean --lr?"},
        {COMMAND_TRAIN, "--prompts x", "unknown option '--prompts'; --prompt belongs to: generate"},
        {COMMAND_TRAIN, "--batch-size 8", "did you mean --batch?"},
        {COMMAND_TRAIN, "--num-heads 8", "did you mean --heads?"},
        {COMMAND_GENERATE, "--max-new-tokens 8", "did you mean --max-tokens?"},
        {COMMAND_TRAIN, "--output x", "did you mean --out?"},
        {COMMAND_TRAIN, "--=8", "unknown option '--'"},
        {COMMAND_TRAIN, "-batch 8", "unknown option '-batch'; did you mean --batch?"},
        {COMMAND_TRAIN, "-x", "two dashes"},
        {COMMAND_TRAIN, "--batch 8 --batch=8", "--batch is given twice"},
        {COMMAND_TRAIN, "--batch", "--batch needs a value: a number, 1 to 1M"},
        {COMMAND_TRAIN, "--batch --seq 8", "--batch needs a value"},
        {COMMAND_TRAIN, "--out", "--out needs a value: PATH"},
        {COMMAND_TRAIN, "--dtype", "--dtype needs a value, such as auto"},
        {COMMAND_TRAIN, "--batch=", "--batch ''"},
        {COMMAND_TRAIN, "--batch 0", "--batch '0': outside its limits, auto or 1 to 1M"},
        {COMMAND_TRAIN, "--steps 0", "--steps 0: must be above 0"},
        {COMMAND_TRAIN, "--epochs 0.0", "--epochs 0: must be above 0"},
        {COMMAND_TRAIN, "--global-batch 0", "--global-batch 0: must be above 0"},
        {COMMAND_TRAIN, "--steps 8", "train needs --data DATA"},
        {COMMAND_TRAIN, "--config=", "--config needs the name of a file"},
        {COMMAND_TRAIN, "--config /nonexistent/c.yaml", "/nonexistent/c.yaml: cannot read"},
        {COMMAND_TRAIN, "--repeats 3", "--repeats is not an option of train"},
        {COMMAND_TRAIN, "--repeats 3", "belongs to: bench step, bench ops"},
        {COMMAND_DATA_PREPARE, "f.txt", "data prepare needs --out PATH"},
        {COMMAND_MODELS, "--batch 8", "belongs to: train, plan, bench step, bench ops"},
        {COMMAND_PLAN, "--quiet --verbose", "exclude each other"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (parse(&cfg, cases[i].command, cases[i].line, &rest, NULL) != ERR_INPUT) {
            fail_msg("accepted: %s", cases[i].line);
        }
        assert_says(cases[i].says);
        config_free(&cfg);
    }
}

/* An option that is the last word is refused for its missing value, a flag for an impossible
 * one; an option of other commands for that. */
static void test_config__every_command_knows_its_options(void **state)
{
    (void)state;
    const Option *options = config_options();
    int known = 0;
    for (int command = 0; command < COMMAND_COUNT; command++) {
        for (size_t i = 0; options[i].name != NULL; i++) {
            bool flag = options[i].type == OPTION_BOOL;
            bool taken = (options[i].commands & 1u << command) != 0;
            char word[96], expected[96];
            snprintf(word, sizeof word, "--%s%s", options[i].name, flag ? "=perhaps" : "");
            snprintf(expected, sizeof expected,
                     taken && flag ? "--%s 'perhaps': must be on or off"
                     : taken       ? "--%s needs a value"
                                   : "--%s is not an option of",
                     options[i].name);
            char *words[] = {word};
            Config cfg;
            config_init(&cfg, (Command)command);
            if (strcmp(options[i].name, "help") != 0) {
                assert_int_equal(config_parse(&cfg, 1, words), ERR_INPUT);
                assert_says(expected);
                known += taken;
            }
            config_free(&cfg);
        }
    }
    assert_true(known > 300);
}

static void test_config__one_answer_per_question(void **state)
{
    (void)state;
    Config cfg;
    int rest;
    char origin[CONFIG_ORIGIN_SIZE];
    static const struct {
        const char *line, *says;
    } refused[] = {
        {"--steps 10 --tokens 1M", "--tokens and steps (command line) are both given"},
        {"--epochs 2 --steps 10", "--epochs and steps"},
        {"--accum 2 --global-batch 16", "--global-batch and accum"},
        {"--batch 6 --global-batch 16", "--global-batch 16: not a multiple of batch 6"},
        {"--batch 1 --global-batch 1G", "needs accum 1000000000"},
        {"--lr 1e-4 --min-lr 1e-3", "--min-lr 0.001: above lr 0.0001"},
        {"--steps 10 --warmup 11", "--warmup 11: longer than the whole run of 10 steps"},
        {"--warmup 1001", "longer than the whole run of 1000 steps"},
    };
    for (size_t i = 0; i < COUNT(refused); i++) {
        if (parse(&cfg, COMMAND_PLAN, refused[i].line, &rest, NULL) != ERR_INPUT) {
            fail_msg("accepted: %s", refused[i].line);
        }
        assert_says(refused[i].says);
        config_free(&cfg);
    }

    assert_int_equal(parse(&cfg, COMMAND_PLAN, "", &rest, NULL), 0);
    assert_true(cfg.steps == 1000 && cfg.tokens == 0 && cfg.epochs == 0);
    assert_false(config_is_set(&cfg, "steps"));
    assert_int_equal(config_set(&cfg, "tokens", "1M"), 0);
    assert_int_equal(config_check(&cfg), 0);
    assert_true(cfg.steps == 0 && cfg.tokens == 1000000);
    config_free(&cfg);

    assert_int_equal(parse(&cfg, COMMAND_PLAN, "--batch 4 --global-batch 64", &rest, NULL), 0);
    assert_true(cfg.accum == 16);
    assert_string_equal(config_origin(&cfg, "accum", origin), "derived");
    assert_int_equal(config_set(&cfg, "batch", "8"), 0);
    assert_int_equal(config_check(&cfg), 0);
    assert_true(cfg.accum == 8);
    config_free(&cfg);

    char *folder = data_files_folder();
    /* The command line beats the file, also by another name for the same thing. */
    char *path = io_join(folder, "run.yaml"),
         *line = mem_format("--config %s --tokens 5k --accum 3 --seed 5", path);
    const char text[] = "steps: 7\nglobal-batch: 80\nseed: 9\nbatch: 2\n";
    assert_int_equal(io_write_atomic(path, text, strlen(text)), 0);
    assert_int_equal(parse(&cfg, COMMAND_PLAN, line, &rest, NULL), 0);
    assert_true(cfg.steps == 0 && cfg.tokens == 5000 && cfg.accum == 3 && cfg.global_batch == 0);
    assert_true(cfg.seed == 5 && cfg.batch == 2);
    config_free(&cfg);
    free(line);
    free(path);
    data_files_remove(folder);
}

static void test_config__inherits_what_was_given(void **state)
{
    (void)state;
    Config demo, train;
    int rest;
    assert_int_equal(parse(&demo, COMMAND_DEMO, "--threads 3 --out d --quiet", &rest, NULL), 0);
    config_init(&train, COMMAND_TRAIN);
    assert_int_equal(config_set(&train, "threads", "7"), 0);
    assert_int_equal(config_set(&train, "batch", "2"), 0);
    config_inherit(&train, &demo);
    config_free(&demo);
    assert_int_equal(config_check(&train), 0);
    assert_true(train.threads == 3 && train.batch == 2 && train.quiet);
    assert_string_equal(train.out, "d");
    assert_true(config_is_set(&train, "out") && !config_is_set(&train, "model"));
    assert_int_equal(train.command, COMMAND_TRAIN);
    config_free(&train);
}

static void test_config__values_that_follow(void **state)
{
    (void)state;
    Config cfg;
    config_init(&cfg, COMMAND_TRAIN);
    assert_int_equal(config_check(&cfg), 0);
    assert_true(cfg.lr == config_start("tiny")->lr && cfg.batch == config_start("tiny")->batch);
    assert_true(config_min_lr(&cfg) == cfg.lr / 10);
    assert_int_equal(config_set(&cfg, "model", "gpt2-124m"), 0); /* what was derived follows */
    assert_int_equal(config_check(&cfg), 0);
    assert_true(cfg.lr == config_start("gpt2-124m")->lr && cfg.lr < config_start("tiny")->lr);
    assert_int_equal(config_set(&cfg, "init", "folder"), 0);
    assert_int_equal(config_check(&cfg), 0);
    assert_true(cfg.lr == 1e-4);
    assert_int_equal(config_set(&cfg, "lr", "7e-3"), 0); /* what was given stays */
    assert_int_equal(config_check(&cfg), 0);
    assert_true(cfg.lr == 7e-3);
    assert_true(config_warmup(&cfg, 1000) == 50 && config_warmup(&cfg, 19) == 0);
    cfg.min_lr = 0;
    cfg.warmup = 3;
    assert_true(config_min_lr(&cfg) == 0 && config_warmup(&cfg, 1000) == 3);
    cfg.steps = 12;
    assert_true(config_total_steps(&cfg, 100, 1000) == 12);
    cfg.steps = 0;
    cfg.tokens = 1000;
    assert_true(config_total_steps(&cfg, 100, 0) == 10 && config_total_steps(&cfg, 300, 0) == 4);
    assert_true(config_total_steps(&cfg, 5000, 0) == 1);
    cfg.tokens = 0;
    cfg.epochs = 0.29;
    assert_true(config_total_steps(&cfg, 1, 100) == 29);
    cfg.epochs = 2.5;
    assert_true(config_total_steps(&cfg, 100, 1010) == 25 &&
                config_total_steps(&cfg, 9999, 3) == 1);
    config_free(&cfg);
}

static void test_config__nearest_name(void **state)
{
    (void)state;
    static const char *const names[] = {"train", "plan", "models", "data", "version", "nm", NULL};
    static const struct {
        const char *text, *nearest; /* NULL: none is near */
    } cases[] = {
        {"tarin", "train"},  {"TRAIN", "train"}, {"pln", "plan"},      {"vers", "version"},
        {"modls", "models"}, {"dta", "data"},    {"data-dir", "data"}, {"datasets", NULL},
        {"planner", "plan"}, {"zzzzzzzz", NULL}, {"", NULL},           {"datatatata", NULL},
        {"no-more", "nm"},   {"xq", NULL},       {"foo", NULL},        {"detail", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *found = config_nearest(cases[i].text, names);
        if (cases[i].nearest == NULL) {
            assert_null(found);
        } else {
            assert_non_null(found);
            assert_string_equal(found, cases[i].nearest);
        }
    }
    static const char *const swapped[] = {"cd", "ab", NULL}; /* a swap is one slip, not two */
    assert_string_equal(config_nearest("ba", swapped), "ab");
    static const char *const equal[] = {"flops", "propt", NULL}; /* then what begins alike */
    assert_string_equal(config_nearest("prop", equal), "propt");
    char longest[500];
    memset(longest, 't', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_null(config_nearest(longest, names));
    assert_null(config_nearest("x", names + COUNT(names) - 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config__switches_in_every_form),
        cmocka_unit_test(test_config__choices_flags_and_text),
        cmocka_unit_test(test_config__table_is_sound),
        cmocka_unit_test(test_config__command_line_forms),
        cmocka_unit_test(test_config__every_command_knows_its_options),
        cmocka_unit_test(test_config__one_answer_per_question),
        cmocka_unit_test(test_config__inherits_what_was_given),
        cmocka_unit_test(test_config__values_that_follow),
        cmocka_unit_test(test_config__nearest_name),
    };
    log_setup(LOG_ERROR, 0, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
