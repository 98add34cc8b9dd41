#include "report/run_report.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "metrics/json.h"
#include "report/curve.h"
#include "report/gnuplot.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SVG_BYTES ((size_t)16 << 20)

/* Text that grows. */
typedef struct {
    char *text;
    size_t size, capacity;
} Page;

__attribute__((format(printf, 2, 3))) static void put(Page *page, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (page->size + (size_t)length + 1 > page->capacity) {
        page->capacity = 2 * (page->size + (size_t)length + 1);
        page->text = mem_realloc(page->text, page->capacity, 1);
    }
    vsnprintf(page->text + page->size, (size_t)length + 1, format, again);
    va_end(again);
    page->size += (size_t)length;
}

static int save(Page *page, const char *folder, const char *name)
{
    char *path = io_join(folder, name);
    int code = io_write_atomic(path, page->text, page->size);
    free(path);
    free(page->text);
    *page = (Page){0};
    return code;
}

/* --- the chart --- */

static void put_points(Page *script, const char *name, const CurvePoint *points, size_t count)
{
    put(script, "$%s << EOD\n", name);
    for (size_t i = 0; i < count; i++) {
        put(script, "%lld %.6g\n", (long long)points[i].step, points[i].loss);
    }
    put(script, "EOD\n");
}

static void put_plot(Page *script, const Curve *curve, const char *terminal, const char *path)
{
    put(script, "set terminal %s\nset output \"%s\"\n", terminal, path);
    put(script, "plot $train using 1:2 with lines lw 2 lc rgb \"#1f77b4\" title \"training\"");
    if (curve->validation_count > 0) {
        put(script, ", $validation using 1:2 with linespoints pt 7 lw 2 lc rgb \"#d62728\" title "
                    "\"validation\"");
    }
    put(script, "\nset output\n");
}

static int draw(const Curve *curve, const char *out)
{
    if (strpbrk(out, "\"\\\n") != NULL) {
        return err_set(ERR_INPUT, "%s: a folder's name with \" or \\ in it cannot be drawn into",
                       out);
    }
    Page script = {0};
    put(&script, "set encoding utf8\nset xlabel \"step\"\nset ylabel \"loss (nats per token)\"\n"
                 "set grid ytics lc rgb \"#dddddd\"\nset key top right\nset border 3\n"
                 "set tics nomirror\n");
    put_points(&script, "train", curve->train, curve->train_count);
    put_points(&script, "validation", curve->validation, curve->validation_count);
    char *svg = io_join(out, "loss.svg"), *png = io_join(out, "loss.png");
    put_plot(&script, curve, "svg size 760,380 font \"sans,13\" background rgb \"white\"", svg);
    put_plot(&script, curve, "png size 760,380", png);
    int code = gnuplot_run(script.text);
    free(svg);
    free(png);
    free(script.text);
    return code;
}

/* --- the pages --- */

typedef struct {
    const char *label, *value; /* the value is owned */
} Fact;

#define MAX_FACTS 24
typedef struct {
    Fact facts[MAX_FACTS];
    int count;
} Facts;

static void add_fact(Facts *facts, const char *label, char *value)
{
    if (value != NULL) {
        facts->facts[facts->count++] = (Fact){label, value};
    }
}

static const cJSON *member(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static char *text_of(const cJSON *object, const char *name)
{
    const cJSON *item = member(object, name);
    return cJSON_IsString(item) ? mem_strdup(item->valuestring) : NULL;
}

static char *number_of(const cJSON *object, const char *name, double scale, const char *format)
{
    const cJSON *item = member(object, name);
    if (!cJSON_IsNumber(item)) {
        return NULL;
    }
    char text[64];
    snprintf(text, sizeof text, format, item->valuedouble * scale);
    return mem_strdup(text);
}

static void collect(const cJSON *run, Facts *facts)
{
    const cJSON *model = member(run, "model"), *machine = member(run, "machine");
    const cJSON *summary = member(run, "summary"), *config = member(run, "config");
    add_fact(facts, "Model", text_of(model, "name"));
    add_fact(facts, "Parameters", number_of(model, "parameters", 1, "%.0f"));
    add_fact(facts, "Data", text_of(config, "data"));
    add_fact(facts, "Updates", number_of(summary, "steps", 1, "%.0f"));
    add_fact(facts, "Tokens", number_of(summary, "tokens", 1, "%.0f"));
    add_fact(facts, "Training loss at the end", number_of(summary, "train_loss", 1, "%.4f"));
    add_fact(facts, "Validation loss at the end", number_of(summary, "val_loss", 1, "%.4f"));
    add_fact(facts, "Tokens per second", number_of(summary, "tok_s", 1, "%.0f"));
    add_fact(facts, "Seconds in training steps", number_of(summary, "train_s", 1, "%.1f"));
    add_fact(facts, "Seconds in all", number_of(summary, "wall_s", 1, "%.1f"));
    add_fact(facts, "Peak memory planned and used, MiB",
             number_of(summary, "peak_bytes", 1.0 / (1 << 20), "%.1f"));
    add_fact(facts, "Processor", text_of(machine, "cpu"));
    add_fact(facts, "Threads", number_of(machine, "ceiling_threads", 1, "%.0f"));
    add_fact(facts, "Started", text_of(run, "started"));
    add_fact(facts, "Commit", text_of(member(run, "pacer"), "commit"));
    add_fact(facts, "Status", text_of(run, "status"));
}

static void put_html(Page *page, const char *text)
{
    for (; *text != '\0'; text++) {
        const char *entity = *text == '<'   ? "&lt;"
                             : *text == '>' ? "&gt;"
                             : *text == '&' ? "&amp;"
                                            : NULL;
        if (entity != NULL) {
            put(page, "%s", entity);
        } else {
            put(page, "%c", *text);
        }
    }
}

static int write_markdown(const Facts *facts, bool drawn, const char *out)
{
    Page page = {0};
    put(&page, "# %s\n\n", facts->count > 0 ? facts->facts[0].value : "run");
    put(&page, "%s| | |\n| --- | --- |\n", drawn ? "![Loss over the steps](loss.svg)\n\n" : "");
    for (int i = 0; i < facts->count; i++) {
        put(&page, "| %s | %s |\n", facts->facts[i].label, facts->facts[i].value);
    }
    return save(&page, out, "report.md");
}

/* The chart is part of the page; an SVG file's first lines (declaration, doctype) are not. */
static int put_chart(Page *page, const char *out)
{
    char *path = io_join(out, "loss.svg"), *svg;
    size_t size;
    int code = io_read_all(path, MAX_SVG_BYTES, &svg, &size);
    if (code == 0) {
        const char *start = strstr(svg, "<svg");
        put(page, "<figure>%s</figure>\n", start != NULL ? start : "");
        free(svg);
    }
    free(path);
    return code;
}

static int write_html(const Facts *facts, bool drawn, const char *out)
{
    Page page = {0};
    const char *name = facts->count > 0 ? facts->facts[0].value : "run";
    put(&page, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
    put_html(&page, name);
    put(&page,
        "</title>\n<style>\n:root{color-scheme:light dark}\n"
        "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}\n"
        "table{border-collapse:collapse}td{padding:.2rem 1rem .2rem 0;border-bottom:1px solid "
        "#8884}\n"
        "figure{margin:1rem 0;background:#fff;border-radius:.5rem}svg{width:100%%;height:auto}\n"
        "</style></head><body>\n<h1>");
    put_html(&page, name);
    put(&page, "</h1>\n");
    int code = drawn ? put_chart(&page, out) : 0;
    put(&page, "<table>\n");
    for (int i = 0; i < facts->count; i++) {
        put(&page, "<tr><td>%s</td><td>", facts->facts[i].label);
        put_html(&page, facts->facts[i].value);
        put(&page, "</td></tr>\n");
    }
    put(&page, "</table>\n</body></html>\n");
    if (code != 0) {
        free(page.text);
        return code;
    }
    return save(&page, out, "report.html");
}

int run_report(const char *run_dir, const char *out)
{
    char *path = io_join(run_dir, "run.json");
    cJSON *run = NULL;
    Curve curve = {0};
    int code = json_load(path, &run);
    free(path);
    code = code != 0 ? code : curve_read(&curve, run_dir);
    code = code != 0 ? code : io_make_folders(out);
    if (code == 0) {
        Facts facts = {.count = 0};
        collect(run, &facts);
        bool drawn = draw(&curve, out) == 0;
        if (!drawn) {
            log_warn("%s", err_message());
        }
        code = write_markdown(&facts, drawn, out);
        code = code != 0 ? code : write_html(&facts, drawn, out);
        for (int i = 0; i < facts.count; i++) {
            free((char *)facts.facts[i].value);
        }
    }
    curve_free(&curve);
    cJSON_Delete(run);
    return code;
}
