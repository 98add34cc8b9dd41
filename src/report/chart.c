#include "report/chart.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "report/chart_data.h"

#include <string.h>

#define MAX_SERIES 40
#define MAX_CATEGORIES 200
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

static const char *text_of(const cJSON *entry, const char *name)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, name));
}

static bool is_true(const cJSON *entry, const char *name)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(entry, name));
}

static int read_kind(const cJSON *entry, Chart *chart)
{
    static const char *const kinds[] = {"bars", "lines", "stack", "curves"};
    const char *kind = text_of(entry, "kind");
    for (int i = 0; kind != NULL && i < 4; i++) {
        if (strcmp(kind, kinds[i]) == 0) {
            chart->kind = (ChartKind)i;
            return 0;
        }
    }
    return err_set(ERR_INPUT,
                   "chart %s: its kind is \"%.40s\", and not bars, lines, stack or curves",
                   chart->name, kind != NULL ? kind : "");
}

/* y: one name or a list of them. */
static int read_values(const cJSON *entry, Chart *chart)
{
    const cJSON *y = cJSON_GetObjectItemCaseSensitive(entry, "y");
    int count = 0;
    if (cJSON_IsString(y)) {
        chart->y[count++] = y->valuestring;
    }
    const cJSON *items = cJSON_IsArray(y) ? y->child : NULL;
    for (const cJSON *item = items; item != NULL; item = item->next) {
        if (count == 15 || !cJSON_IsString(item)) {
            return err_set(ERR_INPUT, "chart %s: y is not a list of up to 15 names", chart->name);
        }
        chart->y[count++] = item->valuestring;
    }
    if (count == 0 && chart->kind == CHART_CURVES) {
        chart->y[count++] = "train_loss";
    }
    return count > 0 ? 0 : err_set(ERR_INPUT, "chart %s: y names no quantity", chart->name);
}

static int check_curves(const Chart *chart)
{
    for (int i = 0; chart->y[i] != NULL; i++) {
        if (strcmp(chart->y[i], "train_loss") != 0 && strcmp(chart->y[i], "val_loss") != 0) {
            return err_set(ERR_INPUT, "chart %s: curves show train_loss and val_loss, not %.40s",
                           chart->name, chart->y[i]);
        }
    }
    bool known = strcmp(chart->x, "tokens") == 0 || strcmp(chart->x, "seconds") == 0 ||
                 strcmp(chart->x, "step") == 0;
    return known ? 0
                 : err_set(ERR_INPUT,
                           "chart %s: curves go over step, tokens or seconds, not over %.40s",
                           chart->name, chart->x);
}

static int check_metrics(const Chart *chart)
{
    Metric first, metric;
    int code = metric_find(chart->x, &metric);
    if (code == 0 && chart->kind == CHART_LINES && metric.unit == UNIT_TEXT) {
        return err_set(ERR_INPUT, "chart %s: %s is no number, and lines go over numbers",
                       chart->name, chart->x);
    }
    for (int i = 0; code == 0 && chart->y[i] != NULL; i++) {
        code = metric_find(chart->y[i], i == 0 ? &first : &metric);
        if (code == 0 && (i == 0 ? first : metric).unit == UNIT_TEXT) {
            return err_set(ERR_INPUT, "chart %s: %s is no number", chart->name, chart->y[i]);
        }
        if (code == 0 && i > 0 && metric.unit != first.unit) {
            return err_set(ERR_INPUT, "chart %s: %s and %s have no unit in common", chart->name,
                           chart->y[0], chart->y[i]);
        }
    }
    return code != 0 ? err_wrap(code, "chart %s", chart->name) : 0;
}

int chart_read(const cJSON *entry, Chart *chart)
{
    *chart = (Chart){.name = text_of(entry, "name"),
                     .title = text_of(entry, "title"),
                     .x = text_of(entry, "x"),
                     .series = text_of(entry, "series"),
                     .where = cJSON_GetObjectItemCaseSensitive(entry, "where"),
                     .log_x = is_true(entry, "logx"),
                     .log_y = is_true(entry, "logy"),
                     .ideal = is_true(entry, "ideal")};
    const char *name = chart->name;
    if (name == NULL || name[0] == '\0' || strlen(name) > 60 ||
        name[strspn(name, NAME_LETTERS)] != '\0') {
        return err_set(ERR_INPUT,
                       "a chart's name is \"%.60s\"; it needs one of letters, digits, - and _",
                       name != NULL ? name : "");
    }
    chart->title = chart->title != NULL ? chart->title : name;
    int code = read_kind(entry, chart);
    if (code == 0 && chart->x == NULL) {
        chart->x = chart->kind == CHART_CURVES ? "step" : "configuration";
    }
    code = code != 0 ? code : read_values(entry, chart);
    if (code == 0) {
        code = chart->kind == CHART_CURVES ? check_curves(chart) : check_metrics(chart);
    }
    Metric metric;
    if (code == 0 && chart->series != NULL && metric_find(chart->series, &metric) != 0) {
        code = err_wrap(ERR_INPUT, "chart %s", name);
    }
    return code;
}

int chart_draw(const Chart *chart, const Results *results, const char *folder, bool *drawn)
{
    static const PlotKind kinds[] = {[CHART_BARS] = PLOT_BARS,
                                     [CHART_LINES] = PLOT_LINES,
                                     [CHART_STACK] = PLOT_STACK,
                                     [CHART_CURVES] = PLOT_LINES};
    Plot plot = {.kind = kinds[chart->kind],
                 .title = mem_strdup(chart->title),
                 .log_x = chart->log_x && chart->kind != CHART_BARS && chart->kind != CHART_STACK,
                 .log_y = chart->log_y && chart->kind != CHART_STACK};
    if (chart->kind == CHART_CURVES) {
        chart_collect_curves(chart, results, &plot);
    } else {
        chart_collect(chart, results, &plot);
    }
    int code = 0;
    *drawn = false;
    if (plot.series_count > MAX_SERIES || plot.category_count > MAX_CATEGORIES) {
        log_warn("chart %s: %d series and %d categories are too many to draw (%d and %d are not)",
                 chart->name, plot.series_count, plot.category_count, MAX_SERIES, MAX_CATEGORIES);
    } else if (plot_has_values(&plot)) {
        code = plot_draw(&plot, folder, chart->name);
        *drawn = code == 0;
    }
    plot_free(&plot);
    return code;
}
