/* Options from YAML and JSON, run ids, and arbitrary bytes instead of any of them. */
#include "config/config.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"

#include <inttypes.h>
#include "support/config_difference.h"
#include "support/own_folder.h"
#include "support/says.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static int load(Config *cfg, const char *text, size_t size)
{
    remove(own_file); /* cheaper than truncating, which some file systems flush */
    FILE *file = fopen(own_file, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    fclose(file);
    config_init(cfg, COMMAND_TRAIN);
    return config_load_yaml(cfg, own_file);
}

static void test_config_files__yaml_sets_values_and_lines(void **state)
{
    (void)state;
    static const char text[] = "# a run\n"
                               "model: llama-22m\n"
                               "batch: 16   # sequences\n"
                               "\n"
                               "lr: 1e-3\n"
                               "tokens: \"20M\"\n"
                               "quiet: true\n"
                               "tied: on\n"
                               "warmup: auto\n"
                               "out: \"\"\n"
                               "d-model: 1Ki\n"
                               "data: 'a dir/x'\n";
    Config cfg;
    char origin[CONFIG_ORIGIN_SIZE];
    assert_int_equal(load(&cfg, text, strlen(text)), 0);
    assert_string_equal(cfg.model, "llama-22m");
    assert_string_equal(cfg.data, "a dir/x");
    assert_true(cfg.batch == 16 && cfg.lr == 1e-3 && cfg.tokens == 20000000 &&
                cfg.fields.width == 1024);
    assert_true(cfg.quiet && cfg.fields.tied == 2 && cfg.warmup == -1);
    assert_string_equal(cfg.config, own_file);
    char *expected = mem_format("%s:5", own_file);
    assert_string_equal(config_origin(&cfg, "lr", origin), expected);
    free(expected);
    assert_true(config_is_set(&cfg, "out") && !config_is_set(&cfg, "accum"));
    config_free(&cfg);

    static const char *const same[] = {"{batch: 16, lr: 1e-3}", "---\nbatch: 16\nlr: 1e-3\n...\n",
                                       "\357\273\277batch: 16\r\nlr: 1e-3\r\n",
                                       "\"batch\": '16'\n? lr\n: 1e-3\n"};
    for (size_t i = 0; i < COUNT(same); i++) {
        must(load(&cfg, same[i], strlen(same[i])));
        assert_true(cfg.batch == 16 && cfg.lr == 1e-3);
        config_free(&cfg);
    }
    static const char *const nothing[] = {"", "\n\n", "# only words\n", "---\n", "{}", "--- {}\n"};
    for (size_t i = 0; i < COUNT(nothing); i++) {
        Config initial;
        config_init(&initial, COMMAND_TRAIN);
        must(load(&cfg, nothing[i], strlen(nothing[i])));
        assert_null(config_first_difference(&cfg, &initial, 0));
        config_free(&cfg);
        config_free(&initial);
    }
}

static void test_config_files__yaml_refuses_by_line(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int line;
        const char *says;
    } cases[] = {
        {"batch: 8\nlerning: 3\n", 2, "unknown option 'lerning'"},
        {"batch: 8\nsteps: 1\nsped: 3\n", 3, "did you mean seed?"},
        {"batch: 8\nzzzzz: 3\n", 2, "unknown option 'zzzzz'; `pacer train --help` lists them"},
        {"batch: 8\nbatch: 8\n", 2, "batch is given twice (first in line 1)"},
        {"\n\nbatch: 0\n", 3, "batch '0': outside its limits, auto or 1 to 1M"},
        {"batch: many\n", 1, "batch 'many': not a number"},
        {"batch: 1.5\n", 1, "not a whole number"},
        {"steps: 0\n", 1, "must be above 0"},
        {"schedule: cosin\n", 1, "did you mean cosine"},
        {"batch:\n", 1, "batch has no value"},
        {"batch: ~\n", 1, "batch has no value"},
        {"out: null\n", 1, "out has no value"},
        {"batch: [8]\n", 1, "batch: one plain value"},
        {"batch:\n  - 8\n", 2, "batch: one plain value"},
        {"batch:\n  size: 8\n", 2, "batch: one plain value"},
        {"lr: 1\nbatch: {size: 8}\n", 2, "batch: one plain value"},
        {"- batch\n", 1, "must be lines of"},
        {"just words\n", 1, "must be lines of"},
        {"? [a]\n: 1\n", 1, "option name: one plain value"},
        {"batch: &b 8\n", 1, "anchors and tags"},
        {"batch: *b\n", 1, "one plain value"},
        {"batch: !!int 8\n", 1, "anchors and tags"},
        {"&top\nbatch: 8\n", 1, "anchors and tags"},
        {"<<: {batch: 8}\n", 1, "unknown option '<<'"},
        {"batch: 8\n---\nseq: 8\n", 2, "second document"},
        {"batch: 8\nseq: [8\n", 2, ""},
        {"batch: 8\n  seq: 8\n", 1, "batch '8 seq': ' seq' does not belong to a number"},
        {"\tbatch: 8\n", 1, "not YAML"},
        {"batch: \"8\n", 0, "not YAML"},
        {"batch: 8\nout: \"a\\0b\"\n", 2, "zero byte"},
        {"batch: 8\nout: \"a\\nb\"\n", 2, "control character"},
        {"batch: 8\nout: \xff\n", 2, "not UTF-8"},
        {"batch: 8\nout: \x01\n", 2, "not UTF-8 text"},
        {"config: other.yaml\n", 1, "config can be given on the command line only"},
        {"help: on\n", 1, "command line only"},
        {"lr: 1\nrepeats: 3\n", 2, "repeats is not an option of train"},
    };
    Config cfg;
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (load(&cfg, cases[i].text, strlen(cases[i].text)) != ERR_INPUT) {
            fail_msg("accepted: %s", cases[i].text);
        }
        char *place =
            cases[i].line > 0 ? mem_format("%s:%d: ", own_file, cases[i].line) : mem_strdup("");
        if (strncmp(err_message(), place, strlen(place)) != 0) {
            fail_msg("message \"%s\" does not start with \"%s\"", err_message(), place);
        }
        assert_says(cases[i].says);
        free(place);
        config_free(&cfg);
    }
    config_init(&cfg, COMMAND_TRAIN);
    assert_int_equal(config_load_yaml(&cfg, own_folder), ERR_INPUT);
    assert_says(own_folder);
    config_free(&cfg);
}

static void test_config_files__yaml_is_bounded(void **state)
{
    (void)state;
    Config cfg;
    size_t size = (1 << 20) - 1;
    char *text = mem_alloc(size + 2);
    static const char openers[] = "[{-?\"'!&*:# \n";
    for (size_t i = 0; i < strlen(openers); i++) {
        memset(text, openers[i], size);
        int code = load(&cfg, text, size);
        assert_true(code == ERR_INPUT || openers[i] == '#' || openers[i] == '\n' ||
                    openers[i] == ' ');
        config_free(&cfg);
    }
    memset(text, '\n', size + 2);
    assert_int_equal(load(&cfg, text, size + 2), ERR_INPUT);
    assert_says("larger than");
    config_free(&cfg);
    free(text);
}

/* A random valid value of the option, as text. */
static char *random_value(const Option *option, uint64_t seed, uint64_t index)
{
    double unit = rng_uniform(seed, 1, index);
    switch (option->type) {
    case OPTION_BOOL:
        return mem_strdup(unit < 0.5 ? "on" : "off");
    case OPTION_CHOICE: {
        uint64_t count = 0;
        while (option->choices[count] != NULL) {
            count++;
        }
        return mem_strdup(option->choices[rng_below(seed, 2, index, count)]);
    }
    case OPTION_TEXT:
        return mem_format("t\"\\ /%" PRIx64 "\xc3\xbc", rng_below(seed, 3, index, 1000));
    default:
        if ((option->flags & (OPTION_AUTO | OPTION_NONE)) && unit < 0.2) {
            return mem_strdup(option->flags & OPTION_AUTO ? "auto" : "none");
        }
        double value = option->min + unit * (option->max - option->min);
        return option->type == OPTION_REAL ? mem_format("%.17g", value) : mem_format("%.0f", value);
    }
}

static void test_config_files__json_there_and_back(void **state)
{
    (void)state;
    const Option *options = config_options();
    int compared = 0;
    for (uint64_t round = 0; round < 800; round++) {
        Config a, b;
        Command command = (Command)rng_below(5, 9, round, COMMAND_COUNT);
        config_init(&a, command);
        config_init(&b, command);
        for (size_t i = 0; options[i].name != NULL; i++) {
            bool taken = (options[i].commands & 1u << command) != 0;
            if (taken && !(options[i].flags & OPTION_NO_RECORD) && rng_below(5, i, round, 2) == 0) {
                char *text = random_value(&options[i], 7 + i, round);
                assert_int_equal(config_set(&a, options[i].name, text), 0);
                free(text);
            }
        }
        if (config_check(&a) == 0) {
            cJSON *object = config_to_json(&a);
            char *text = round % 2 == 0 ? cJSON_Print(object) : cJSON_PrintUnformatted(object);
            cJSON *again = cJSON_Parse(text);
            assert_non_null(again);
            if (config_from_json(&b, again, "run.json") != 0) {
                fail_msg("%s\n%s", err_message(), text);
            }
            const Option *different = config_first_difference(&a, &b, 0);
            if (different != NULL) {
                fail_msg("%s differs in round %" PRIu64, different->name, round);
            }
            assert_true(a.lr == b.lr && a.eps == b.eps && a.val_fraction == b.val_fraction);
            assert_true(a.seed == b.seed && a.memory_limit == b.memory_limit);
            cJSON_Delete(again);
            cJSON_Delete(object);
            free(text);
            compared++;
        }
        config_free(&a);
        config_free(&b);
    }
    assert_true(compared > 300);
}

static void test_config_files__json_has_types_and_names(void **state)
{
    (void)state;
    Config cfg;
    config_init(&cfg, COMMAND_TRAIN);
    assert_int_equal(config_set(&cfg, "global-batch", "64"), 0);
    assert_int_equal(config_check(&cfg), 0);
    cJSON *object = config_to_json(&cfg);
    assert_true(cJSON_GetObjectItem(object, "batch")->valuedouble == 32);
    assert_true(cJSON_GetObjectItem(object, "accum")->valuedouble == 2);
    assert_true(cJSON_GetObjectItem(object, "steps")->valuedouble == 1000);
    assert_true(cJSON_GetObjectItem(object, "lr")->valuedouble == config_start("tiny")->lr);
    assert_string_equal(cJSON_GetObjectItem(object, "schedule")->valuestring, "cosine");
    assert_string_equal(cJSON_GetObjectItem(object, "warmup")->valuestring, "auto");
    assert_string_equal(cJSON_GetObjectItem(object, "model")->valuestring, "tiny");
    assert_null(cJSON_GetObjectItem(object, "config"));
    assert_null(cJSON_GetObjectItem(object, "repeats"));
    cJSON_Delete(object);
    config_free(&cfg);
}

static void test_config_files__json_is_strict(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"[]", "run.json: the config must be an object"},
        {"8", "must be an object"},
        {"{\"bach\": 8}", "run.json: unknown option 'bach'; did you mean batch?"},
        {"{\"batch\": 8, \"batch\": 8}", "batch is given twice"},
        {"{\"batch\": \"8\"}", "run.json: batch must be a number"},
        {"{\"batch\": null}", "batch must be a number"},
        {"{\"batch\": [8]}", "batch must be a number"},
        {"{\"batch\": true}", "batch must be a number"},
        {"{\"batch\": 8.5}", "not a whole number"},
        {"{\"batch\": 0}", "outside its limits, auto or 1 to 1M"},
        {"{\"batch\": 1e999}", "not a number"},
        {"{\"warmup\": \"never\"}", "a number or \"auto\""},
        {"{\"model\": 3}", "model must be a string"},
        {"{\"schedule\": \"cosin\"}", "did you mean cosine"},
        {"{\"quiet\": true}", "quiet does not belong into a record"},
        {"{\"repeats\": 3}", "repeats is not an option of train"},
        {"{\"steps\": 3, \"tokens\": 3}", "run.json: tokens and steps (record) are both given"},
        {"{\"accum\": 3, \"global-batch\": 64}", "run.json: global-batch and accum"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        Config cfg;
        config_init(&cfg, COMMAND_TRAIN);
        cJSON *object = cJSON_Parse(cases[i].text);
        assert_non_null(object);
        if (config_from_json(&cfg, object, "run.json") != ERR_INPUT) {
            fail_msg("accepted: %s", cases[i].text);
        }
        assert_says(cases[i].says);
        cJSON_Delete(object);
        config_free(&cfg);
    }
}

static void test_config_files__run_id_follows_what_matters(void **state)
{
    (void)state;
    const Option *options = config_options();
    Config a;
    char id[CONFIG_ID_SIZE], other[CONFIG_ID_SIZE];
    config_init(&a, COMMAND_TRAIN);
    config_run_id(&a, id);
    assert_int_equal(strspn(id, "0123456789abcdef"), 16);
    int differing = 0;
    for (size_t i = 0; options[i].name != NULL; i++) {
        if (!(options[i].commands & 1u << COMMAND_TRAIN)) {
            continue;
        }
        Config b;
        config_copy(&b, &a);
        char *before = config_value_text(&a, &options[i]), *after = NULL;
        uint64_t draw = 0;
        do {
            free(after);
            after = random_value(&options[i], i, draw++);
        } while (strcmp(before, after) == 0);
        assert_int_equal(config_set(&b, options[i].name, after), 0);
        config_run_id(&b, other);
        bool matters = (options[i].flags & (OPTION_RESULT | OPTION_ROUNDING)) != 0;
        assert_int_equal(strcmp(id, other) != 0, matters);
        assert_ptr_equal(config_first_difference(&a, &b, 0),
                         options[i].flags & OPTION_NO_RECORD ? NULL : &options[i]);
        assert_ptr_equal(config_first_difference(&a, &b, OPTION_RESULT),
                         options[i].flags & OPTION_RESULT ? &options[i] : NULL);
        differing += matters;
        free(before);
        free(after);
        config_free(&b);
    }
    assert_true(differing > 25);
    static const char *const no_matter[] = {"out",        "resume", "log-every", "eval-every",
                                            "save-every", "keep",   "quiet",     "global-batch"};
    for (size_t i = 0; i < COUNT(no_matter); i++) {
        assert_int_equal(config_find(no_matter[i])->flags & (OPTION_RESULT | OPTION_ROUNDING), 0);
    }

    /* The same training asked for in another way is the same run. */
    Config b;
    config_init(&b, COMMAND_PLAN);
    assert_int_equal(config_set(&a, "global-batch", "64"), 0);
    assert_int_equal(config_set(&b, "accum", "2"), 0);
    assert_int_equal(config_set(&b, "steps", "1k"), 0);
    assert_int_equal(config_check(&a), 0);
    assert_int_equal(config_check(&b), 0);
    config_run_id(&a, id);
    config_run_id(&b, other);
    assert_string_equal(id, other);
    config_free(&a);
    config_free(&b);
}

static void test_config_files__arbitrary_bytes_are_survived(void **state)
{
    (void)state;
    static const char *const parts[] = {
        "batch", ": ",   "8",   "\n",   "lr", "1e-3", "k",   "- ",   "{",  "}",   "[",
        "]",     "\"",   "'",   "&a ",  "*a", "!!x ", "---", "...",  "? ", "# ",  "\t",
        "\xc3",  "\xa9", "|\n", ">\n ", "~",  ",",    "seq", "%TAG", "\r", "\xef"};
    int accepted = 0;
    for (uint64_t round = 0; round < 3000; round++) {
        char text[256] = "";
        size_t size = 0;
        uint64_t pieces = rng_below(11, 0, round, 24);
        for (uint64_t i = 0; i < pieces; i++) {
            if (round % 3 == 0) {
                text[size++] = (char)rng_below(11, 100 + i, round, 256);
            } else {
                const char *part = parts[rng_below(11, 100 + i, round, COUNT(parts))];
                memcpy(text + size, part, strlen(part));
                size += strlen(part);
            }
        }
        Config cfg;
        int code = load(&cfg, text, size);
        assert_true(code == 0 || code == ERR_INPUT);
        assert_true(code == 0 || strstr(err_message(), own_file) == err_message());
        accepted += code == 0;
        text[size < sizeof text ? size : sizeof text - 1] = '\0';
        static const char *const names[] = {"seed", "lr", "memory-limit", "warmup", "out", "tied"};
        for (size_t i = 0; i < COUNT(names); i++) {
            code = config_set(&cfg, names[i], text);
            assert_true(code == 0 || code == ERR_INPUT);
        }
        config_free(&cfg);
    }
    assert_true(accepted > 10 && accepted < 1500);
}

static void test_config_files__accepted_numbers_read_back(void **state)
{
    (void)state;
    static const char alphabet[] = "0123456789012345678900..+-eEkKMGTiB ";
    static const char *const names[] = {"seed", "lr", "memory-limit", "epochs"};
    int accepted = 0;
    Config a, b;
    config_init(&a, COMMAND_TRAIN);
    config_init(&b, COMMAND_TRAIN);
    for (uint64_t round = 0; round < 40000; round++) {
        char text[80];
        size_t length = rng_below(13, 0, round, round % 50 == 0 ? 79 : 9);
        for (size_t i = 0; i < length; i++) {
            text[i] = alphabet[rng_below(13, i + 1, round, sizeof alphabet - 1)];
        }
        text[length] = '\0';
        const char *name = names[round % COUNT(names)];
        if (config_set(&a, name, text) != 0) {
            continue;
        }
        accepted++;
        const Option *option = config_find(name);
        char *canonical = config_value_text(&a, option);
        assert_int_equal(config_set(&b, name, canonical), 0);
        char *again = config_value_text(&b, option);
        assert_string_equal(canonical, again);
        /* Without a suffix the C library must agree. */
        if (strpbrk(text, "kKMGTB") == NULL) {
            double expected = strtod(text, NULL), value = strtod(canonical, NULL);
            double difference = expected - value;
            assert_true(difference <= 1e-14 * expected && -difference <= 1e-14 * expected);
        }
        free(canonical);
        free(again);
    }
    assert_true(accepted > 2000);
    assert_true(a.lr == b.lr && a.epochs == b.epochs && a.seed == b.seed);
    config_free(&a);
    config_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_files__yaml_sets_values_and_lines),
        cmocka_unit_test(test_config_files__yaml_refuses_by_line),
        cmocka_unit_test(test_config_files__yaml_is_bounded),
        cmocka_unit_test(test_config_files__json_there_and_back),
        cmocka_unit_test(test_config_files__json_has_types_and_names),
        cmocka_unit_test(test_config_files__json_is_strict),
        cmocka_unit_test(test_config_files__run_id_follows_what_matters),
        cmocka_unit_test(test_config_files__arbitrary_bytes_are_survived),
        cmocka_unit_test(test_config_files__accepted_numbers_read_back),
    };
    log_setup(LOG_ERROR, 0, 1);
    return cmocka_run_group_tests(tests, own_folder_make, own_folder_remove);
}
