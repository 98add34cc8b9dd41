/* Configurations in the order of a number that varies. */
#include "report/findings.h"

#include "base/mem.h"
#include "report/scaling.h"

#include <stdlib.h>
#include <string.h>

/* Whether its numbers give an order; attention kinds, for one, have none. */
static bool gives_order(const Results *results, const char *option)
{
    bool differ = false;
    for (int i = 0; i < results->count; i++) {
        double value = result_setting_number(&results->runs[i], option);
        if (!(value > 0)) {
            return false;
        }
        differ = differ || value != result_setting_number(&results->runs[0], option);
    }
    return differ;
}

static char *other_settings(const Results *results, const Result *result, int without)
{
    Page page = {0};
    for (int i = 0; i < results->varying_count; i++) {
        const Varying *varying = &results->varying[i];
        const char *value = result_setting(result, varying->option);
        if (varying->axis != without) {
            page_put(&page, "%s%s %s", page.size == 0 ? " (" : ", ", varying->option,
                     value != NULL ? value : "unknown");
        }
    }
    page_put(&page, "%s", page.size > 0 ? ")" : "");
    return page.text;
}

/* In its order, unless that value is there. */
static void insert_value(Series *series, int configuration, double value)
{
    for (int i = 0; i < series->count; i++) {
        if (series->values[i] == value) {
            return;
        }
    }
    int at = series->count++;
    for (; at > 0 && series->values[at - 1] > value; at--) {
        series->values[at] = series->values[at - 1];
        series->configurations[at] = series->configurations[at - 1];
    }
    series->values[at] = value;
    series->configurations[at] = configuration;
}

static void free_series(Series *series)
{
    free(series->where);
    free(series->configurations);
    free(series->values);
}

/* The series that configuration `from` begins; those of lower numbers are in others. */
static void add_series(const Results *results, const Varying *varying, int from, bool *taken,
                       SeriesList *list)
{
    size_t most = (size_t)results->configurations;
    const Result *first = results_first(results, from);
    Series series = {.axis = varying->axis,
                     .option = varying->option,
                     .where = other_settings(results, first, varying->axis),
                     .configurations = mem_zalloc(most, sizeof *series.configurations),
                     .values = mem_zalloc(most, sizeof *series.values)};
    for (int i = from; i < results->configurations; i++) {
        const Result *result = results_first(results, i);
        if (result == NULL || taken[i] ||
            !results_equal_but(results, first, result, varying->axis)) {
            continue;
        }
        insert_value(&series, i, result_setting_number(result, varying->option));
        taken[i] = true;
    }
    if (series.count < 2) {
        free_series(&series);
        return;
    }
    list->items = mem_realloc(list->items, (size_t)list->count + 1, sizeof *list->items);
    list->items[list->count++] = series;
}

void series_make(const Results *results, SeriesList *list)
{
    *list = (SeriesList){0};
    bool *taken = mem_zalloc((size_t)results->configurations + 1, sizeof *taken);
    int done = -1; /* with this axis: its first ordering option decides */
    for (int k = 0; k < results->varying_count; k++) {
        const Varying *varying = &results->varying[k];
        if (varying->axis == done || !gives_order(results, varying->option)) {
            continue;
        }
        done = varying->axis;
        memset(taken, 0, (size_t)results->configurations * sizeof *taken);
        for (int i = 0; i < results->configurations; i++) {
            if (!taken[i] && results_first(results, i) != NULL) {
                add_series(results, varying, i, taken, list);
            }
        }
    }
    free(taken);
}

void series_free(SeriesList *list)
{
    for (int i = 0; i < list->count; i++) {
        free_series(&list->items[i]);
    }
    free(list->items);
    *list = (SeriesList){0};
}
