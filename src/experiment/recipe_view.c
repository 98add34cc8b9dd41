/* What the report is to show: the keys tables and charts of a recipe, in the form that
 * experiment.json has. */
#include "experiment/recipe_reader.h"

#include "base/err.h"
#include "base/json.h"

#include <string.h>

/* A list of words, or one word, as an array under `name`. */
static int put_words(RecipeReader *reader, yaml_node_t *node, const char *name, bool metrics,
                     cJSON *object)
{
    bool single = node->type == YAML_SCALAR_NODE;
    int code = single ? 0 : reader_want_sequence(reader, node, name);
    cJSON *array = json_array();
    yaml_node_t *item = node;
    for (int i = 0; code == 0 && (single ? i == 0 : reader_item(reader, node, i, &item)); i++) {
        const char *text = reader_text(reader, item, name);
        code = text == NULL ? ERR_INPUT : 0;
        if (code == 0 && metrics && reader->metric != NULL && reader->metric(text) != 0) {
            code = err_wrap(ERR_INPUT, "%s:%d: %s", reader->input.path,
                            yaml_input_line(item->start_mark), name);
        }
        if (code == 0) {
            json_append_text(array, text);
        }
    }
    json_put_item(object, name, array);
    return code;
}

static int put_choice(RecipeReader *reader, yaml_node_t *node, const char *name,
                      const char *const *choices, cJSON *object)
{
    const char *text = reader_text(reader, node, name);
    if (text == NULL) {
        return ERR_INPUT;
    }
    for (int i = 0; choices[i] != NULL; i++) {
        if (strcmp(choices[i], text) == 0) {
            json_put_text(object, name, text);
            return 0;
        }
    }
    bool likely;
    return reader_fault(reader, node, "%s '%.60s': no such %s; the nearest is %s", name, text, name,
                        config_nearest(text, choices, &likely));
}

static int put_text(RecipeReader *reader, yaml_node_t *node, const char *name, cJSON *object)
{
    const char *text = reader_text(reader, node, name);
    json_put_text(object, name, text);
    return text == NULL ? ERR_INPUT : 0;
}

static int put_flag(RecipeReader *reader, yaml_node_t *node, const char *name, cJSON *object)
{
    bool flag;
    int code = reader_bool(reader, node, name, &flag);
    if (code == 0) {
        json_put_bool(object, name, flag);
    }
    return code;
}

static int put_metric(RecipeReader *reader, yaml_node_t *node, const char *name, cJSON *object)
{
    int code = put_text(reader, node, name, object);
    if (code == 0 && reader->metric != NULL &&
        reader->metric((const char *)node->data.scalar.value) != 0) {
        code = err_wrap(ERR_INPUT, "%s:%d: %s", reader->input.path,
                        yaml_input_line(node->start_mark), name);
    }
    return code;
}

/* Fails unless every name of `needed` has come. */
static int want_keys(RecipeReader *reader, yaml_node_t *node, const char *const *names,
                     unsigned seen, unsigned needed, const char *what)
{
    for (int i = 0; names[i] != NULL; i++) {
        if ((needed & ~seen) & 1u << i) {
            return reader_fault(reader, node, "%s needs the key %s", what, names[i]);
        }
    }
    return 0;
}

static int read_table(RecipeReader *reader, yaml_node_t *node, cJSON *table)
{
    enum { TITLE, PER, COLUMNS };
    static const char *const names[] = {"title", "per", "columns", NULL};
    static const char *const pers[] = {"configuration", "run", "rank", NULL};
    unsigned seen = 0;
    yaml_node_t *key, *value;
    int code = reader_want_mapping(reader, node, "a table");
    for (int i = 0; code == 0 && reader_pair(reader, node, i, &key, &value); i++) {
        switch (reader_key(reader, key, names, &seen)) {
        case TITLE:
            code = put_text(reader, value, "title", table);
            break;
        case PER:
            code = put_choice(reader, value, "per", pers, table);
            break;
        case COLUMNS:
            code = put_words(reader, value, "columns", true, table);
            break;
        default:
            code = ERR_INPUT;
        }
    }
    code = code != 0 ? code
                     : want_keys(reader, node, names, seen, 1u << TITLE | 1u << COLUMNS, "a table");
    if (code == 0 && !(seen & 1u << PER)) {
        json_put_text(table, "per", "configuration");
    }
    return code;
}

static int put_settings(RecipeReader *reader, yaml_node_t *node, const char *name, cJSON *object)
{
    SettingList list = {0};
    int code = reader_settings(reader, node, name, &list);
    json_put_item(object, name, setting_json(&list));
    setting_free(&list);
    return code;
}

static int read_chart(RecipeReader *reader, yaml_node_t *node, cJSON *chart)
{
    enum { NAME, TITLE, KIND, X_AXIS, Y_AXIS, SERIES, WHERE, LOG_X, LOG_Y, IDEAL };
    static const char *const names[] = {"name",  "title", "kind", "x",     "y", "series",
                                        "where", "logx",  "logy", "ideal", NULL};
    static const char *const kinds[] = {"bars", "lines", "stack", "curves", NULL};
    static const char *const curve_xs[] = {"tokens", "seconds", "step", NULL};
    unsigned seen = 0;
    yaml_node_t *key, *value, *x = NULL;
    int code = reader_want_mapping(reader, node, "a chart");
    for (int i = 0; code == 0 && reader_pair(reader, node, i, &key, &value); i++) {
        int which = reader_key(reader, key, names, &seen);
        switch (which) {
        case NAME:
        case TITLE:
            code = put_text(reader, value, names[which], chart);
            break;
        case KIND:
            code = put_choice(reader, value, "kind", kinds, chart);
            break;
        case X_AXIS:
            x = value;
            break;
        case Y_AXIS:
            code = put_words(reader, value, "y", true, chart);
            break;
        case SERIES:
            code = put_metric(reader, value, "series", chart);
            break;
        case WHERE:
            code = put_settings(reader, value, "where", chart);
            break;
        case LOG_X:
        case LOG_Y:
        case IDEAL:
            code = put_flag(reader, value, names[which], chart);
            break;
        default:
            code = ERR_INPUT;
        }
    }
    code = code != 0
               ? code
               : want_keys(reader, node, names, seen,
                           1u << NAME | 1u << TITLE | 1u << KIND | 1u << X_AXIS | 1u << Y_AXIS,
                           "a chart");
    if (code != 0) {
        return code;
    }
    const char *name = json_text(chart, "name");
    if (strchr(name, '/') != NULL || name[0] == '.') {
        return reader_fault(reader, node, "name '%.60s': becomes a file; no slash, no dot in front",
                            name);
    }
    bool curves = strcmp(json_text(chart, "kind"), "curves") == 0;
    return curves ? put_choice(reader, x, "x", curve_xs, chart) : put_metric(reader, x, "x", chart);
}

static int read_list(RecipeReader *reader, yaml_node_t *node, const char *what, cJSON **list,
                     int (*read)(RecipeReader *, yaml_node_t *, cJSON *))
{
    *list = json_array();
    yaml_node_t *item;
    int code = reader_want_sequence(reader, node, what);
    for (int i = 0; code == 0 && reader_item(reader, node, i, &item); i++) {
        cJSON *entry = json_object();
        json_append(*list, entry);
        code = read(reader, item, entry);
    }
    return code;
}

int reader_tables(RecipeReader *reader, yaml_node_t *node, cJSON **tables)
{
    return read_list(reader, node, "tables", tables, read_table);
}

int reader_charts(RecipeReader *reader, yaml_node_t *node, cJSON **charts)
{
    return read_list(reader, node, "charts", charts, read_chart);
}
