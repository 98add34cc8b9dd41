/* Records as CSV and as TensorBoard events, with the record of a run that never was and its
 * oddities. */
#include "report/report.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "report/csv.h"
#include "report/results.h"
#include "support/event_file.h"
#include "support/experiment_record.h"
#include "support/json_assert.h"
#include "support/own_folder.h"
#include "support/run_record.h"
#include "support/says.h"

#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static char *read_text(const char *folder, const char *name)
{
    char *path = io_join(folder, name), *text;
    size_t size;
    must(io_read_all(path, (size_t)1 << 30, &text, &size));
    free(path);
    return text;
}

/* --- a reader of RFC 4180 --- */

typedef struct {
    char **cells;
    int rows, columns;
} CsvTable;

/* Takes the cell at *at apart; true when it was the last of its row. */
static bool take_cell(const char **at, char **cell)
{
    const char *from = *at;
    char *to = *cell = mem_alloc(strlen(from) + 1);
    bool quoted = *from == '"';
    from += quoted;
    while (quoted ? !(from[0] == '"' && from[1] != '"') : *from != ',' && *from != '\n') {
        assert_int_not_equal(*from, '\0');
        from += quoted && *from == '"';
        *to++ = *from++;
    }
    *to = '\0';
    from += quoted;
    bool last = *from == '\n';
    assert_true(last || *from == ',');
    *at = from + 1;
    return last;
}

/* Every row has as many cells as the first. */
static CsvTable read_table(const char *folder, const char *name)
{
    char *text = read_text(folder, name);
    CsvTable table = {0};
    int count = 0;
    for (const char *at = text; *at != '\0';) {
        table.cells = mem_realloc(table.cells, (size_t)count + 1, sizeof *table.cells);
        if (take_cell(&at, &table.cells[count++])) {
            table.columns = table.rows == 0 ? count : table.columns;
            assert_int_equal(count, ++table.rows * table.columns);
        }
    }
    free(text);
    return table;
}

static void free_table(CsvTable *table)
{
    for (int i = 0; i < table->rows * table->columns; i++) {
        free(table->cells[i]);
    }
    free(table->cells);
}

/* Rows are counted from 1, the first below the names. */
static const char *cell(const CsvTable *table, int row, const char *column)
{
    for (int i = 0; i < table->columns; i++) {
        if (strcmp(table->cells[i], column) == 0) {
            assert_in_range(row, 1, table->rows - 1);
            return table->cells[row * table->columns + i];
        }
    }
    fail_msg("no column %s", column);
    return NULL;
}

static int row_of(const CsvTable *table, const char *column, const char *text)
{
    for (int row = 1; row < table->rows; row++) {
        if (strcmp(cell(table, row, column), text) == 0) {
            return row;
        }
    }
    fail_msg("no row with %s %s", column, text);
    return 0;
}

/* --- runs --- */

static void test_export_csv__tables_of_a_run(void **state)
{
    (void)state;
    char *dir = io_join(own_folder, "run"), *out = io_join(own_folder, "deep/er");
    run_record_write(dir, 2);
    run_record_edit(dir, "run.json", "message", "\"say \\\"a, b\\\"\\nand c\"");
    run_record_edit(dir, "run.json", "summary.tok_s", "0.10000000000000001");
    run_record_edit_line(dir, 1, "loss", "9.1234567890123461");
    run_record_edit_line(dir, 2, "odd", "{\"x\": [1, \"two, 2\"]}");
    must(export_csv(dir, out));

    char *lines = read_text(dir, "metrics.jsonl");
    CsvTable metrics = read_table(out, "metrics.csv");
    int count = 0;
    for (const char *at = lines; *at != '\0'; at = strchr(at, '\n') + 1) {
        cJSON *line = cJSON_Parse(at);
        const cJSON *item;
        count++;
        cJSON_ArrayForEach(item, line)
        {
            if (cJSON_IsNumber(item)) {
                assert_true(strtod(cell(&metrics, count, item->string), NULL) == item->valuedouble);
            }
        }
        assert_true(cJSON_HasObjectItem(line, "val_loss") ==
                    (cell(&metrics, count, "val_loss")[0] != '\0'));
        cJSON_Delete(line);
    }
    free(lines);
    assert_int_equal(metrics.rows, 1 + count);
    assert_string_equal(metrics.cells[0], "step");
    assert_string_equal(metrics.cells[8], "val_loss");
    assert_string_equal(cell(&metrics, 1, "odd.x.1"), "");
    assert_string_equal(cell(&metrics, 2, "odd.x.1"), "two, 2");
    assert_true(strtod(cell(&metrics, 1, "loss"), NULL) == 9.1234567890123461);
    free_table(&metrics);

    CsvTable summary = read_table(out, "summary.csv");
    assert_int_equal(summary.columns, 2);
#define VALUE(name) cell(&summary, row_of(&summary, "name", name), "value")
    assert_string_equal(VALUE("message"), "say \"a, b\"\nand c");
    assert_string_equal(VALUE("status"), "done");
    assert_string_equal(VALUE("config.batch"), "4");
    assert_string_equal(VALUE("summary.steps"), "100");
    assert_string_equal(VALUE("summary.tok_s"), "0.1");
    assert_string_equal(VALUE("memory_plan.0.kind"), "parameters");
#undef VALUE
    free_table(&summary);

    CsvTable ranks = read_table(out, "ranks.csv");
    assert_int_equal(ranks.rows, 1 + 2);
    assert_string_equal(ranks.cells[0], "rank");
    assert_string_equal(cell(&ranks, 2, "host"), "node1");
    assert_string_equal(cell(&ranks, 2, "gpu.used_bytes.max"), "900");
    assert_string_equal(cell(&ranks, 1, "timers.forward.total_s"), "2.5");
    assert_string_equal(cell(&ranks, 1, "timers.unattributed.count"), "");
    free_table(&ranks);

    CsvTable phases = read_table(out, "phases.csv");
    int row = row_of(&phases, "name", "forward");
    assert_string_equal(cell(&phases, row, "rank"), "");
    assert_string_equal(cell(&phases, row, "kind"), "phase");
    assert_string_equal(cell(&phases, row, "exclusive_s"), "2.5");
    row = row_of(&phases, "kind", "span");
    assert_string_equal(cell(&phases, row, "rank"), "0");
    assert_string_equal(cell(&phases, row, "name"), "total");
    assert_string_equal(cell(&phases, row, "total_s"), "10");
    free_table(&phases);

    char *before = read_text(out, "metrics.csv");
    must(export_csv(dir, out)); /* files of these names are replaced */
    char *after = read_text(out, "metrics.csv");
    assert_string_equal(before, after);
    free(before);
    free(after);
    free(out);
    free(dir);
}

static void append_text(const char *dir, const char *name, const char *text)
{
    char *path = io_join(dir, name);
    FILE *file = fopen(path, "a");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    free(path);
}

static void test_export_csv__runs_under_way_and_damaged_ones(void **state)
{
    (void)state;
    char *dir = io_join(own_folder, "torn"), *out = io_join(own_folder, "torn-out");
    char *ranks = io_join(dir, "ranks"), *lines = io_join(dir, "metrics.jsonl");
    assert_int_equal(export_csv(dir, out), ERR_INPUT); /* nothing there */
    assert_non_null(strstr(err_message(), "neither a run"));
    assert_int_equal(export_events(dir, out), ERR_INPUT);
    assert_false(io_exists(out));
    run_record_write(dir, 1);
    must(io_remove_tree(ranks));
    run_record_edit(dir, "run.json", "summary", NULL);
    run_record_edit(dir, "run.json", "status", "\"running\"");
    must(export_csv(dir, out));
    CsvTable whole = read_table(out, "metrics.csv"), none = read_table(out, "ranks.csv"),
             phases = read_table(out, "phases.csv");
    assert_int_equal(none.rows, 1);
    assert_int_equal(phases.rows, 1);
    append_text(dir, "metrics.jsonl", "{\"step\":101,\"lo");
    must(export_csv(dir, out));
    must(export_events(dir, out));
    CsvTable torn = read_table(out, "metrics.csv");
    assert_int_equal(torn.rows, whole.rows);
    append_text(dir, "metrics.jsonl", "\n");
    char *before = read_text(out, "metrics.csv");
    assert_int_equal(export_csv(dir, out), ERR_INPUT);
    assert_non_null(strstr(err_message(), "metrics.jsonl:"));
    assert_int_equal(export_events(dir, out), ERR_INPUT);
    char *after = read_text(out, "metrics.csv"); /* the old one stays */
    assert_string_equal(before, after);
    must(io_remove_tree(lines)); /* a run that was refused has none */
    must(export_csv(dir, out));
    run_record_edit(dir, "run.json", "schema", "7");
    assert_int_equal(export_csv(dir, out), ERR_INPUT);
    assert_non_null(strstr(err_message(), "written by a newer pacer: \"schema\" 7"));
    assert_int_equal(export_events(dir, out), ERR_INPUT);
    free(before);
    free(after);
    free_table(&whole);
    free_table(&none);
    free_table(&phases);
    free_table(&torn);
    free(lines);
    free(ranks);
    free(out);
    free(dir);
}

/* Spreadsheets compute cells that begin so; a number stays one. */
static void test_export_csv__no_text_is_a_formula(void **state)
{
    (void)state;
    static const char *const texts[][2] = {{"=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"},
                                           {"+1+1", "'+1+1"},
                                           {"-1+1", "'-1+1"},
                                           {"-inf", "'-inf"},
                                           {"-", "'-"},
                                           {"@SUM(A1)", "'@SUM(A1)"},
                                           {"\t=1", "'\t=1"},
                                           {"\r=1", "'\r=1"},
                                           {"=1,\"2\"", "'=1,\"2\""},
                                           {"-1.5", "-1.5"},
                                           {"+2e-3", "+2e-3"},
                                           {"a=b", "a=b"},
                                           {"-0x1", "'-0x1"}};
    Csv csv = {0};
    csv_column(&csv, "text");
    csv_column(&csv, "=column");
    csv_open(&csv, own_folder, "formulas.csv");
    cJSON *number = cJSON_CreateNumber(-2.5);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        csv_put_text(&csv, "text", texts[i][0]);
        csv_put(&csv, "=column", number);
        csv_end_row(&csv);
    }
    cJSON_Delete(number);
    must(csv_close(&csv));
    CsvTable table = read_table(own_folder, "formulas.csv");
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        assert_string_equal(cell(&table, (int)i + 1, "text"), texts[i][1]);
        assert_string_equal(cell(&table, (int)i + 1, "'=column"), "-2.5");
    }
    free_table(&table);
}

static void test_export_csv__too_many_names_are_refused(void **state)
{
    (void)state;
    char *dir = io_join(own_folder, "names"), *out = io_join(own_folder, "names-out");
    run_record_write(dir, 1);
    for (int i = 0; i <= CSV_MAX_COLUMNS / 64; i++) {
        char *line = mem_strdup("{\"step\":1");
        for (int k = 0; k < 64; k++) {
            char *longer = mem_format("%s,\"n%d\":1", line, 64 * i + k);
            free(line);
            line = longer;
        }
        append_text(dir, "metrics.jsonl", line);
        append_text(dir, "metrics.jsonl", "}\n");
        free(line);
    }
    assert_int_equal(export_csv(dir, out), ERR_INPUT);
    assert_non_null(strstr(err_message(), "different names"));
    free(out);
    free(dir);
}

/* --- experiments --- */

static void test_export_csv__one_row_per_run_of_an_experiment(void **state)
{
    (void)state;
    PlantedExperiment planted;
    char *out = io_join(own_folder, "runs");
    planted_begin(&planted, "{\"axes\": [[\"batch\"], [\"model\", \"lr\"]]}");
    planted_run(&planted, &(PlantedRun){.settings = "{\"batch\": \"8\", \"seed\": \"3\"}",
                                        .tokens = 1000,
                                        .training_s = 10,
                                        .val_loss = 4.5});
    planted_run(&planted, &(PlantedRun){.configuration = 1,
                                        .settings = "{\"batch\": \"16\", \"seed\": \"3\"}",
                                        .state = "failed",
                                        .reason = "no, \"not\" this",
                                        .without_files = 1});
    planted_save(&planted);
    must(export_csv(planted.dir, out));
    CsvTable runs = read_table(out, "runs.csv");
    assert_int_equal(runs.rows, 1 + 2);
    assert_string_equal(cell(&runs, 1, "id"), "0-0");
    assert_string_equal(cell(&runs, 1, "batch"), "8");
    assert_string_equal(cell(&runs, 1, "seed"), "3");
    assert_string_equal(cell(&runs, 1, "lr"), "0.0003"); /* from the run's own options */
    assert_string_equal(cell(&runs, 1, "summary.tok_s"), "100");
    assert_string_equal(cell(&runs, 1, "summary.val_loss"), "4.5");
    assert_string_equal(cell(&runs, 2, "batch"), "16");
    assert_string_equal(cell(&runs, 2, "state"), "failed");
    assert_string_equal(cell(&runs, 2, "reason"), "no, \"not\" this");
    assert_string_equal(cell(&runs, 2, "summary.tok_s"), "");
    free_table(&runs);
    must(export_events(planted.dir, out));
    char *made = io_join(out, "0-0"), *not_made = io_join(out, "1-0");
    assert_true(io_is_folder(made));
    assert_false(io_exists(not_made));
    cJSON_ReplaceItemInObject(planted.json, "format", cJSON_CreateNumber(9));
    planted_save(&planted);
    assert_int_equal(export_csv(planted.dir, out), ERR_INPUT);
    assert_non_null(strstr(err_message(), "written by a newer pacer: \"format\" 9"));
    free(not_made);
    free(made);
    free(out);
    planted_end(&planted);
}

static int count_files(const char *dir, char *last, size_t size)
{
    DIR *entries = opendir(dir);
    int count = 0;
    assert_non_null(entries);
    for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
        if (entry->d_name[0] != '.') {
            count++;
            snprintf(last, size, "%s", entry->d_name);
        }
    }
    closedir(entries);
    return count;
}

/* A second export replaces the file of the first. */
static void test_export_csv__events_have_a_name_of_their_run(void **state)
{
    (void)state;
    char *dir = io_join(own_folder, "named"), *out = io_join(own_folder, "named-out"), name[512];
    run_record_write(dir, 1);
    run_record_edit(dir, "run.json", "started", "\"2026-01-31T12:00:00Z\"");
    run_record_edit(dir, "run.json", "machine.host", "\"../odd host\"");
    must(export_events(dir, out));
    must(export_events(dir, out));
    assert_int_equal(count_files(out, name, sizeof name), 1);
    assert_string_equal(name, "events.out.tfevents.1769860800..._odd_host.0.0");
    char *path = io_join(out, name);
    SeenFile file;
    event_file_read(path, &file);
    /* version, configuration, 11 lines, 2 evaluations, end; 80 ms a step behind 1 s of init */
    assert_int_equal(file.count, 1 + 1 + 11 + 2 + 1);
    assert_true(file.events[0].time == 1769860800);
    assert_true(event_value(&file.events[2], "train/loss")->number == 9.2f);
    assert_true(fabs(file.events[2].time - 1769860801.08) < 1e-6);
    const SeenEvent *tenth = &file.events[3];
    assert_int_equal(tenth->step, 10);
    assert_true(event_value(tenth, "speed/ms_per_step")->number == 80);
    assert_true(fabs(tenth->time - 1769860801.8) < 1e-6);
    const SeenEvent *last = &file.events[file.count - 1];
    assert_int_equal(last->step, RUN_RECORD_STEPS);
    assert_true(event_value(last, "phases/forward_s")->number == 2.5f);
    assert_true(event_value(&file.events[file.count - 2], "val/loss")->number == 0.09f);
    free(file.bytes);
    free(path);
    free(out);
    free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export_csv__tables_of_a_run),
        cmocka_unit_test(test_export_csv__runs_under_way_and_damaged_ones),
        cmocka_unit_test(test_export_csv__no_text_is_a_formula),
        cmocka_unit_test(test_export_csv__too_many_names_are_refused),
        cmocka_unit_test(test_export_csv__one_row_per_run_of_an_experiment),
        cmocka_unit_test(test_export_csv__events_have_a_name_of_their_run),
    };
    return cmocka_run_group_tests(tests, own_folder_make, own_folder_remove);
}
