/* What the report is to show: the keys tables and charts of a recipe, in the form that
 * experiment.json has. */
#include "study/recipe_reader.h"

#include "base/err.h"
#include "base/json.h"

#include <string.h>
#include <strings.h>

static int check_metric(const RecipeReader *reader, const RecipeKey *key, const yaml_node_t *node,
                        const char *text)
{
    return reader->metric == NULL || reader->metric(text) == 0
               ? 0
               : err_wrap(ERR_INPUT, "%s:%d: %s", reader->input.path,
                          yaml_input_line(node->start_mark), key->name);
}

/* A list of columns, or one, as an array. */
static int put_metrics(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *object)
{
    bool single = node->type == YAML_SCALAR_NODE;
    int code = single ? 0 : reader_want_sequence(reader, node, key->name);
    cJSON *array = json_array();
    yaml_node_t *item = node;
    for (int i = 0; code == 0 && (single ? i == 0 : reader_item(reader, node, i, &item)); i++) {
        const char *text = reader_text(reader, item, key->name);
        code = text == NULL ? ERR_INPUT : 0;
        code = code != 0 ? code : check_metric(reader, key, item, text);
        if (code == 0) {
            json_append_text(array, text);
        }
    }
    json_put_item(object, key->name, array);
    return code;
}

static int put_choice(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *object)
{
    int choice, code = reader_choice(reader, node, key->name, key->choices, &choice);
    json_put_text(object, key->name, code == 0 ? key->choices[choice] : NULL);
    return code;
}

static int put_text(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *object)
{
    const char *text = reader_text(reader, node, key->name);
    json_put_text(object, key->name, text);
    return text == NULL ? ERR_INPUT : 0;
}

static int put_metric(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *object)
{
    int code = put_text(reader, key, node, object);
    return code != 0 ? code : check_metric(reader, key, node, json_text(object, key->name));
}

static int put_flag(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *object)
{
    static const char *const on[] = {"true", "on", "yes"}, *const off[] = {"false", "off", "no"};
    const char *text = reader_text(reader, node, key->name);
    for (int i = 0; text != NULL && i < 3; i++) {
        if (strcasecmp(text, on[i]) == 0 || strcasecmp(text, off[i]) == 0) {
            json_put_bool(object, key->name, strcasecmp(text, on[i]) == 0);
            return 0;
        }
    }
    return text == NULL ? ERR_INPUT
                        : reader_fault(reader, node, "%s '%.60s': on or off", key->name, text);
}

static int put_settings(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *object)
{
    SettingList list = {0};
    int code = reader_settings(reader, node, key->name, &list);
    json_put_item(object, key->name, setting_json(&list));
    setting_free(&list);
    return code;
}

static int read_table(RecipeReader *reader, yaml_node_t *node, cJSON *table)
{
    static const char *const pers[] = {"configuration", "run", "rank", NULL};
    static const RecipeKey keys[] = {{.name = "title", .read = put_text, .needed = true},
                                     {.name = "per", .read = put_choice, .choices = pers},
                                     {.name = "columns", .read = put_metrics, .needed = true},
                                     {.name = NULL}};
    int code = reader_mapping(reader, node, "a table", keys, table);
    if (code == 0 && json_get(table, "per") == NULL) {
        json_put_text(table, "per", pers[0]);
    }
    return code;
}

/* What x may be depends on the kind, which may come behind it: read_chart puts it last. */
static int find_x(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *object)
{
    (void)key, (void)object;
    reader->x = node;
    return 0;
}

static int read_chart(RecipeReader *reader, yaml_node_t *node, cJSON *chart)
{
    static const char *const kinds[] = {"bars", "lines", "stack", "curves", NULL};
    static const char *const curve_xs[] = {"tokens", "seconds", "step", NULL};
    static const RecipeKey keys[] = {
        {.name = "name", .read = put_text, .needed = true},
        {.name = "title", .read = put_text, .needed = true},
        {.name = "kind", .read = put_choice, .choices = kinds, .needed = true},
        {.name = "x", .read = find_x, .needed = true},
        {.name = "y", .read = put_metrics, .needed = true},
        {.name = "series", .read = put_metric},
        {.name = "where", .read = put_settings},
        {.name = "logx", .read = put_flag},
        {.name = "logy", .read = put_flag},
        {.name = "ideal", .read = put_flag},
        {.name = NULL}};
    int code = reader_mapping(reader, node, "a chart", keys, chart);
    if (code != 0) {
        return code;
    }
    const char *name = json_text(chart, "name");
    if (strchr(name, '/') != NULL || name[0] == '.') {
        return reader_fault(reader, node, "name '%.60s': becomes a file; no slash, no dot in front",
                            name);
    }
    const RecipeKey x = {.name = "x", .choices = curve_xs};
    bool curves = strcmp(json_text(chart, "kind"), "curves") == 0;
    return (curves ? put_choice : put_metric)(reader, &x, reader->x, chart);
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
