/* docs/reference/formats.md against the writers: every field of a record that has all of them is in
 * the section of its file. */
#include "base/io.h"
#include "base/mem.h"
#include "record/checks.h"
#include "record/machine.h"
#include "record/record.h"
#include "record/watch.h"
#include "study/experiment.h"
#include "support/json_assert.h"
#include "support/own_folder.h"
#include "support/says.h"
#include "train/resume.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* --- the document --- */

static char *document;

static int read_document(void **state)
{
    size_t size;
    const char *path = PACER_GOLD_DIR "/../../docs/reference/formats.md";
    int code = io_read_all(path, 1 << 20, &document, &size);
    return code != 0 ? -1 : own_folder_make(state);
}

static int free_document(void **state)
{
    free(document);
    return own_folder_remove(state);
}

/* From a heading to the next one of its level or above; caller frees. */
static char *section(const char *heading)
{
    char *line = mem_format("\n%s", heading);
    const char *from = strstr(document, line);
    if (from == NULL) {
        fail_msg("no section \"%s\"", heading);
    }
    size_t level = strspn(heading, "#");
    const char *to = from + strlen(line);
    for (; *to != '\0'; to++) {
        size_t marks = *to == '\n' ? strspn(to + 1, "#") : 0;
        if (marks > 0 && marks <= level) {
            break;
        }
    }
    free(line);
    return strndup(from, (size_t)(to - from));
}

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Whether `name` stands between backticks, as a word. */
static bool lists(const char *text, const char *name)
{
    bool code = false;
    size_t length = strlen(name);
    for (const char *at = text; *at != '\0'; at++) {
        code = *at == '`' ? !code : code;
        bool begins = code && strncmp(at, name, length) == 0 && !in_name(at[length]);
        if (begins && at > text && !in_name(at[-1])) {
            return true;
        }
    }
    return false;
}

/* What lies under these names has its description elsewhere: options, and a recipe's own view. */
static bool is_foreign(const char *name)
{
    static const char *const names[] = {"config", "settings", "baseline", "tables", "charts"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int missing_names(const char *text, const cJSON *tree)
{
    int missing = 0;
    for (const cJSON *item = tree->child; item != NULL; item = item->next) {
        if (item->string != NULL && !lists(text, item->string)) {
            print_error("docs/reference/formats.md does not list \"%s\"\n", item->string);
            missing++;
        }
        if (item->string == NULL || !is_foreign(item->string)) {
            missing += missing_names(text, item);
        }
    }
    return missing;
}

/* --- records with every field --- */

static cJSON *full_machine(void)
{
    Machine machine = {.host = "h",
                       .cpu = "c",
                       .kernel = "k",
                       .compiler = "cc",
                       .blas = "b",
                       .simd = "v3",
                       .cores = 2,
                       .cpu_quota = value_of(2),
                       .memory_bytes = value_of(1),
                       .memory_limit = value_of(1),
                       .threads = 2,
                       .sgemm_gflops = value_of(1),
                       .copy_gbs = value_of(1),
                       .device = "d",
                       .device_matmul_gflops = value_of(1),
                       .device_copy_gbs = value_of(1),
                       .ceiling_source = "s",
                       .copy_source = "s"};
    return machine_json(&machine);
}

static cJSON *full_gpu(void)
{
    GpuWatch watch;
    gpu_watch_start(&watch, NULL);
    Spread spread = {1, 1, 1, 1};
    watch.readings = 1;
    watch.sm_mhz = watch.memory_mhz = watch.power_w = watch.temperature_c = spread;
    watch.used_bytes = spread;
    watch.power_limit_w = watch.total_bytes = watch.other_bytes = 1;
    watch.other_processes = 1;
    watch.throttle = ~0ull;
    return gpu_watch_json(&watch);
}

static cJSON *load(const char *name)
{
    char *path = io_join(own_folder, name);
    cJSON *tree;
    must(json_load(path, &tree));
    free(path);
    return tree;
}

static void write_run(void)
{
    cJSON *machine = full_machine();
    RecordMemory plan = {"state", 1, 0};
    cJSON *legs = json_array();
    ConfigChange change = {config_find("lr"), "1", "2"};
    legs_add(legs, 0, 0, "here", "[{\"at\": \"now\", \"ranks\": 2, \"rank\": 1, \"why\": \"why\"}]",
             &(LegChanges){&change, 1, false});
    RecordInfo info = {.id = "1",
                       .spec = spec_find("tiny"),
                       .total_steps = 9,
                       .flops_update = 1,
                       .legs = legs,
                       .given = legs,
                       .machine = machine,
                       .plan = &plan,
                       .plan_rows = 1};
    Record *record;
    must(record_open(own_folder, &info, -1, &record));
    record_close(record);
    must(record_open(own_folder, &info, 0, &record));
    Value one = value_of(1);
    RecordStep step = {1, 1, value_of(NAN), one, one, one, one, one, 0, one, one, one};
    must(record_step(record, &step));
    must(record_eval(record, 1, 1));
    TimerReport report = {0};
    Summary summary = {.val_loss = value_of(NAN), .phases = &report};
    Checks checks = {0};
    checks_put(&checks, "parts", CHECK_WARN, 1, 1, "rank 0");
    must(
        record_save(record, RUN_FAILED, "a message", summary_json(&summary, checks_json(&checks))));
    record_close(record);
    cJSON_Delete(machine);
    cJSON_Delete(legs);
}

static void test_formats__run_json(void **state)
{
    (void)state;
    write_run();
    char *text = section("### run.json");
    cJSON *run = load("run.json");
    /* Of a tree that has the fields which are seldom there. */
    assert_int_equal(cJSON_GetArraySize(member(run, "resumed")), 1);
    assert_text(run, "message", "a message");
    number(member(run, "machine"), "cpu_quota");
    assert_false(lists(text, "compute")); /* the reader of the document can say no */
    assert_true(cJSON_HasObjectItem(member(run, "summary"), "note"));
    cJSON_DeleteItemFromObject(cJSON_GetObjectItem(run, "summary"), "note"); /* of all files */
    assert_int_equal(missing_names(text, run), 0);
    cJSON_Delete(run);
    free(text);
}

static void test_formats__metrics_jsonl(void **state)
{
    (void)state;
    write_run();
    char *text = section("### metrics.jsonl"), *path = io_join(own_folder, "metrics.jsonl"), *lines;
    size_t size;
    must(io_read_all(path, 1 << 20, &lines, &size));
    int count = 0;
    for (const char *at = lines; *at != '\0'; at = strchr(at, '\n') + 1, count++) {
        cJSON *line = cJSON_Parse(at);
        assert_int_equal(cJSON_GetArraySize(line), count == 0 ? 12 : 2);
        assert_int_equal(missing_names(text, line), 0);
        cJSON_Delete(line);
    }
    assert_int_equal(count, 2);
    free(lines);
    free(path);
    free(text);
}

static void test_formats__rank_files(void **state)
{
    (void)state;
    cJSON *gpu = full_gpu();
    RecordMemory category = {"state", 1, 1};
    TimerReport report = {0};
    RecordRank rank = {.ranks = 1,
                       .host = "h",
                       .device = "cuda:0",
                       .uuid = "u",
                       .timers = &report,
                       .categories = &category,
                       .category_count = 1,
                       .gpu = gpu};
    must(record_rank(own_folder, &rank));
    char *own = section("### ranks/K.json"), *phases = section("### run.json");
    char *text = mem_format("%s%s", own, phases); /* timers are those of a run */
    cJSON *file = load("ranks/0.json");
    assert_true(cJSON_GetArraySize(member(file, "gpu")) >= 13);
    cJSON *timers = cJSON_DetachItemFromObject(file, "timers");
    assert_int_equal(missing_names(own, file), 0);
    assert_int_equal(missing_names(text, timers), 0);
    cJSON_Delete(timers);
    cJSON_Delete(file);
    cJSON_Delete(gpu);
    free(text);
    free(phases);
    free(own);
}

static void test_formats__experiment_json(void **state)
{
    (void)state;
    Setting setting = {"batch", "8", 1};
    double factor = 1;
    ExperimentRun run = {.id = "1", .peer = "torch", .settings = {&setting, 1}, .reason = ""};
    Experiment experiment = {.recipe = {.path = "x.yaml",
                                        .name = "x",
                                        .baseline = {&setting, 1},
                                        .target_loss = value_of(1),
                                        .repeats = 1,
                                        .peers = 3,
                                        .probe = {.factors = &factor, .count = 1}},
                             .dir = own_folder,
                             .peer_version = "2.0",
                             .peer_note = "n",
                             .runs = &run,
                             .count = 1,
                             .configurations = 1};
    must(experiment_save(&experiment));
    cJSON *tree = load("experiment.json");
    char *text = section("## Experiments: `experiment.json`");
    member(tree, "lr_probe");
    member(member(tree, "runs")->child, "lr_factor");
    member(member(tree, "runs")->child, "peer");
    assert_int_equal(cJSON_GetArraySize(member(tree, "peers")), 3);
    assert_int_equal(missing_names(text, tree), 0);
    free(text);
    cJSON_Delete(tree);
}

/* The paragraph of text that begins so; caller frees. */
static char *paragraph(const char *text, const char *beginning)
{
    char *line = mem_format("\n%s", beginning);
    const char *from = strstr(text, line);
    free(line);
    if (from == NULL) {
        fail_msg("no paragraph begins with \"%s\"", beginning);
        return NULL;
    }
    const char *to = strstr(from + 1, "\n\n");
    return strndup(from, to != NULL ? (size_t)(to - from) : strlen(from));
}

static void test_formats__resume(void **state)
{
    (void)state;
    char *text = section("### Going on from a checkpoint");
    char *refused = paragraph(text, "Refused"), *recorded = paragraph(text, "Recorded");
    const Option *options = config_options();
    for (size_t i = 0; options[i].name != NULL; i++) {
        char *name = mem_format("`%s`", options[i].name);
        if ((strstr(refused, name) != NULL) != (options[i].resume == RESUME_REFUSED) ||
            (strstr(recorded, name) != NULL) != (options[i].resume == RESUME_RECORDED)) {
            fail_msg("docs/reference/formats.md says something else of %s than its row", name);
        }
        free(name);
    }
    free(refused);
    free(recorded);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats__run_json),   cmocka_unit_test(test_formats__metrics_jsonl),
        cmocka_unit_test(test_formats__rank_files), cmocka_unit_test(test_formats__experiment_json),
        cmocka_unit_test(test_formats__resume),
    };
    return cmocka_run_group_tests(tests, read_document, free_document);
}
