#include "report/series.h"

#include "base/mem.h"
#include "report/metric_scaling.h"
#include "report/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The option whose numbers give the order; NULL: the axis has none, such as attention kinds. */
static const char *ordering_option(const Results *results, const Axis *axis)
{
    for (int i = 0; i < axis->count; i++) {
        double first = NAN;
        bool good = true, differ = false;
        for (int run = 0; run < results->count && good; run++) {
            double value = result_setting_number(&results->runs[run], axis->options[i]);
            good = value > 0;
            differ = differ || (run > 0 && value != first);
            first = run == 0 ? value : first;
        }
        if (good && differ) {
            return axis->options[i];
        }
    }
    return NULL;
}

static char *other_settings(const Results *results, const Result *result, int without)
{
    Page page = {0};
    for (int axis = 0; axis < results->axis_count; axis++) {
        for (int i = 0; axis != without && i < results->axes[axis].count; i++) {
            const char *option = results->axes[axis].options[i];
            char text[RESULT_SETTING_SIZE];
            const char *value = result_setting(result, option, text);
            page_put(&page, "%s%s %s", page.size == 0 ? " (" : ", ", option,
                     value != NULL ? value : "unknown");
        }
    }
    page_put(&page, "%s", page.size > 0 ? ")" : "");
    return page.text;
}

static void insert(Series *series, int configuration, double value)
{
    int at = series->count++;
    for (; at > 0 && series->values[at - 1] > value; at--) {
        series->values[at] = series->values[at - 1];
        series->configurations[at] = series->configurations[at - 1];
    }
    series->values[at] = value;
    series->configurations[at] = configuration;
}

static bool has(const Series *series, double value)
{
    for (int i = 0; i < series->count; i++) {
        if (series->values[i] == value) {
            return true;
        }
    }
    return false;
}

static void free_one(Series *series)
{
    free(series->where);
    free(series->configurations);
    free(series->values);
}

/* The series that configuration `from` begins; those of lower numbers are in others. */
static void add_series(const Results *results, int axis, const char *option, int from, bool *taken,
                       SeriesList *list)
{
    size_t most = (size_t)results->configurations;
    const Result *first = results_first(results, from);
    Series series = {.axis = axis,
                     .option = option,
                     .where = other_settings(results, first, axis),
                     .configurations = mem_zalloc(most, sizeof *series.configurations),
                     .values = mem_zalloc(most, sizeof *series.values)};
    for (int i = from; i < results->configurations; i++) {
        const Result *result = results_first(results, i);
        if (result == NULL || taken[i] || !results_equal_but(results, first, result, axis)) {
            continue;
        }
        double value = result_setting_number(result, option);
        if (!has(&series, value)) {
            insert(&series, i, value);
        }
        taken[i] = true;
    }
    if (series.count < 2) {
        free_one(&series);
        return;
    }
    list->items = mem_realloc(list->items, (size_t)list->count + 1, sizeof *list->items);
    list->items[list->count++] = series;
}

void series_make(const Results *results, SeriesList *list)
{
    *list = (SeriesList){0};
    bool *taken = mem_zalloc((size_t)results->configurations + 1, sizeof *taken);
    for (int axis = 0; axis < results->axis_count; axis++) {
        const char *option = ordering_option(results, &results->axes[axis]);
        memset(taken, 0, (size_t)results->configurations * sizeof *taken);
        for (int i = 0; option != NULL && i < results->configurations; i++) {
            if (!taken[i] && results_first(results, i) != NULL) {
                add_series(results, axis, option, i, taken, list);
            }
        }
    }
    free(taken);
}

void series_free(SeriesList *list)
{
    for (int i = 0; i < list->count; i++) {
        free_one(&list->items[i]);
    }
    free(list->items);
    *list = (SeriesList){0};
}
