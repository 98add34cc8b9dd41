/* Charts as the entries of experiment.json ask for them. */
#include "report/chart.h"

#include "base/err.h"

#include <string.h>

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

static int read_kind(const cJSON *entry, Chart *chart, bool *curves)
{
    static const char *const kinds[] = {
        [PLOT_LINES] = "lines", [PLOT_BARS] = "bars", [PLOT_STACK] = "stack"};
    const char *kind = json_text_or(entry, "kind", "");
    *curves = strcmp(kind, "curves") == 0;
    chart->kind = PLOT_LINES;
    for (int i = 0; i < 3 && !*curves; i++) {
        if (strcmp(kind, kinds[i]) == 0) {
            chart->kind = (PlotKind)i;
            return 0;
        }
    }
    return *curves
               ? 0
               : err_set(ERR_INPUT,
                         "chart %s: its kind is \"%.40s\", and not bars, lines, stack or curves",
                         chart->name, kind);
}

/* y: one name or a list of them. */
static int read_names(const cJSON *entry, bool curves, Chart *chart,
                      const char *names[CHART_MAX_VALUES])
{
    const cJSON *y = json_get(entry, "y");
    const cJSON *items = cJSON_IsArray(y) ? y->child : NULL;
    if (cJSON_IsString(y) || (curves && items == NULL)) {
        names[chart->y_count++] = cJSON_IsString(y) ? y->valuestring : "train_loss";
    }
    for (const cJSON *item = items; item != NULL; item = item->next) {
        if (chart->y_count == CHART_MAX_VALUES || !cJSON_IsString(item)) {
            return err_set(ERR_INPUT, "chart %s: y is not a list of up to 15 names", chart->name);
        }
        names[chart->y_count++] = item->valuestring;
    }
    return chart->y_count > 0 ? 0
                              : err_set(ERR_INPUT, "chart %s: y names no quantity", chart->name);
}

static int read_curves(const cJSON *entry, const char *const *names, Chart *chart)
{
    const char *x = json_text_or(entry, "x", "step");
    for (int i = 0; i < chart->y_count; i++) {
        if (strcmp(names[i], "train_loss") != 0 && strcmp(names[i], "val_loss") != 0) {
            return err_set(ERR_INPUT, "chart %s: curves show train_loss and val_loss, not %.40s",
                           chart->name, names[i]);
        }
        chart->y[i] = metric_named(names[i]);
    }
    chart->along = strcmp(x, "tokens") == 0    ? curve_tokens
                   : strcmp(x, "seconds") == 0 ? curve_seconds
                   : strcmp(x, "step") == 0    ? curve_step
                                               : NULL;
    return chart->along != NULL
               ? 0
               : err_set(ERR_INPUT,
                         "chart %s: curves go over step, tokens or seconds, not over %.40s",
                         chart->name, x);
}

static int read_metrics(const cJSON *entry, const char *const *names, Chart *chart)
{
    int code = metric_find(json_text_or(entry, "x", "configuration"), &chart->x);
    if (code == 0 && chart->kind == PLOT_LINES && chart->x.unit == UNIT_TEXT) {
        return err_set(ERR_INPUT, "chart %s: %s is no number, and lines go over numbers",
                       chart->name, chart->x.name);
    }
    for (int i = 0; code == 0 && i < chart->y_count; i++) {
        code = metric_find(names[i], &chart->y[i]);
        if (code == 0 && chart->y[i].unit == UNIT_TEXT) {
            return err_set(ERR_INPUT, "chart %s: %s is no number", chart->name, names[i]);
        }
        if (code == 0 && chart->y[i].unit != chart->y[0].unit) {
            return err_set(ERR_INPUT, "chart %s: %s and %s have no unit in common", chart->name,
                           names[0], names[i]);
        }
    }
    return code != 0 ? err_wrap(code, "chart %s", chart->name) : 0;
}

int chart_read(const cJSON *entry, Chart *chart)
{
    const char *name = json_text_or(entry, "name", ""), *series = json_text(entry, "series");
    *chart = (Chart){.name = name,
                     .title = json_text_or(entry, "title", name),
                     .where = json_get(entry, "where"),
                     .log_x = json_is_true(entry, "logx"),
                     .log_y = json_is_true(entry, "logy"),
                     .ideal = json_is_true(entry, "ideal")};
    if (name[0] == '\0' || strlen(name) > 60 || name[strspn(name, NAME_LETTERS)] != '\0') {
        return err_set(ERR_INPUT,
                       "a chart's name is \"%.60s\"; it needs one of letters, digits, - and _",
                       name);
    }
    const char *names[CHART_MAX_VALUES];
    bool curves;
    int code = read_kind(entry, chart, &curves);
    code = code != 0 ? code : read_names(entry, curves, chart, names);
    if (code == 0) {
        code = curves ? read_curves(entry, names, chart) : read_metrics(entry, names, chart);
    }
    if (code == 0 && series != NULL && metric_find(series, &chart->series) != 0) {
        code = err_wrap(ERR_INPUT, "chart %s", name);
    }
    return code;
}
