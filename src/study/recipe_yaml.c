/* Reading a recipe. The file is one mapping; its key smoke holds a mapping of the same keys,
 * which replace the outer ones in the small version (base is replaced option by option). Both
 * are read and checked, whichever is asked for. */
#include "study/law.h"
#include "study/recipe_reader.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "record/names.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_REPEATS 1000
#define MAX_TIMEOUT 1e9 /* seconds */
#define MAX_FACTORS 32
#define MAX_FACTOR 1e6

/* Each reader below replaces what the recipe had of its key. */

static int read_text(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    char **text = into;
    const char *found = reader_text(reader, node, key->name);
    if (found == NULL) {
        return ERR_INPUT;
    }
    free(*text);
    *text = mem_strdup(found);
    size_t length = strlen(*text);
    while (length > 0 && (*text)[length - 1] == '\n') { /* of a folded text */
        (*text)[--length] = '\0';
    }
    return 0;
}

static int refuse_inside(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node)
{
    return reader->inside ? reader_fault(reader, node, "%s does not belong into smoke", key->name)
                          : 0;
}

static int read_name(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    char **name = into;
    int code = refuse_inside(reader, key, node);
    code = code != 0 ? code : read_text(reader, key, node, name);
    if (code == 0 && ((*name)[0] == '.' || (*name)[0] == '\0' || strlen(*name) > 80 ||
                      strspn(*name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789-_.") != strlen(*name))) {
        code = reader_fault(
            reader, node, "name '%.60s': becomes a folder; letters, digits, - _ and . only", *name);
    }
    return code;
}

static int read_base(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *base)
{
    SettingList given = {0};
    int code = reader_settings(reader, key, node, &given);
    setting_replace(base, &given);
    setting_free(&given);
    return code;
}

static int read_baseline(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *list)
{
    setting_free(list);
    return reader_settings(reader, key, node, list);
}

static int read_repeats(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    int *repeats = into;
    double number = 1;
    int code = reader_real(reader, key, node, &number);
    if (code == 0 && !(number >= 1 && number <= MAX_REPEATS && number == (int)number)) {
        return reader_fault(reader, node, "repeats: a whole number from 1 to %d", MAX_REPEATS);
    }
    *repeats = code == 0 ? (int)number : 1;
    return code;
}

/* 90, 90s, 10m, 2h */
static int read_timeout(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    double *seconds = into;
    const char *text = reader_text(reader, node, key->name);
    if (text == NULL) {
        return ERR_INPUT;
    }
    char *end;
    *seconds = strtod(text, &end);
    double unit = strcmp(end, "m") == 0 ? 60 : strcmp(end, "h") == 0 ? 3600 : 1;
    bool known = *end == '\0' || strcmp(end, "s") == 0 || unit > 1;
    *seconds *= unit;
    return end != text && known && *seconds > 0 && *seconds <= MAX_TIMEOUT
               ? 0
               : reader_fault(reader, node, "timeout '%.60s': a time such as 90s, 10m or 2h", text);
}

static int read_value(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    Value *value = into;
    value->known = true;
    return reader_real(reader, key, node, &value->number);
}

static int read_tolerance(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    Value *value = into;
    int code = read_value(reader, key, node, into);
    return code != 0 || value->number >= 0
               ? code
               : reader_fault(reader, node, "%s: nats of loss, from 0 on", key->name);
}

/* One name or a list of them; none: no peers. */
static int read_peers(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    unsigned *peers = into;
    const char *names[8] = {"none"};
    for (int i = 0; peer_name(i) != NULL && i < 6; i++) {
        names[i + 1] = peer_name(i);
    }
    const RecipeKey named = {.name = key->name, .choices = names};
    bool single = node->type == YAML_SCALAR_NODE;
    int code = single ? 0 : reader_want_sequence(reader, node, key->name);
    yaml_node_t *item = node;
    *peers = 0;
    for (int i = 0; code == 0 && (single ? i == 0 : reader_item(reader, node, i, &item)); i++) {
        int choice;
        code = reader_choice(reader, &named, item, &choice);
        if (code == 0 && choice == 0 && !single) {
            code = reader_fault(reader, item, "peers: none stands alone");
        } else if (code == 0 && choice > 0) {
            *peers |= 1u << (choice - 1);
        }
    }
    return code;
}

/* --- learning rates --- */

static int read_lr_rule(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    static const char *const rules[] = {"none", "linear", "sqrt", NULL};
    static const RecipeKey keys[] = {
        {.name = "rule", .read = reader_choice, .at = offsetof(Recipe, lr_rule), .choices = rules},
        {.name = "at", .read = reader_real, .at = offsetof(Recipe, lr_at)},
        {.name = NULL}};
    Recipe *recipe = into;
    recipe->lr_rule = LR_RULE_NONE;
    recipe->lr_at = 0;
    int code = reader_mapping(reader, node, key->name, keys, recipe);
    if (code == 0 && recipe->lr_rule != LR_RULE_NONE && !(recipe->lr_at >= 1)) {
        code = reader_fault(reader, node,
                            "lr-rule needs `at`, the global batch that lr is meant for, 1 or more");
    }
    return code;
}

static int read_factor(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    LrProbe *probe = into;
    double factor, last = probe->count > 0 ? probe->factors[probe->count - 1] : 0;
    int code = reader_real(reader, key, node, &factor);
    if (code == 0 && !(factor > last && factor <= MAX_FACTOR)) {
        code = reader_fault(reader, node, "factors: positive numbers, each above the last");
    } else if (code == 0 && probe->count == MAX_FACTORS) {
        code = reader_fault(reader, node, "factors: at most %d", MAX_FACTORS);
    } else if (code == 0) {
        probe->factors[probe->count++] = factor;
    }
    return code;
}

static int read_factors(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    LrProbe *probe = into;
    probe->factors = mem_zalloc(MAX_FACTORS, sizeof *probe->factors);
    int code = reader_each(reader, key, node, read_factor, probe);
    return code != 0 || probe->count > 1
               ? code
               : reader_fault(reader, node, "factors: at least two, to choose between");
}

static int read_tokens(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *tokens)
{
    const char *text = reader_text(reader, node, key->name);
    if (text == NULL) {
        return ERR_INPUT;
    }
    return config_parse_bytes(text, tokens) == 0
               ? 0
               : reader_fault(reader, node, "tokens '%.60s': a number such as 500k or 2M", text);
}

static int read_lr_probe(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    static const RecipeKey keys[] = {
        {.name = "factors", .read = read_factors},
        {.name = "tokens", .read = read_tokens, .at = offsetof(LrProbe, tokens)},
        {.name = NULL}};
    LrProbe *probe = into;
    free(probe->factors);
    *probe = (LrProbe){.tokens = -1};
    if (node->type == YAML_SCALAR_NODE && strcmp((char *)node->data.scalar.value, "none") == 0) {
        probe->tokens = 0;
        return 0;
    }
    int code = reader_mapping(reader, node, key->name, keys, probe);
    if (code == 0 && (probe->count == 0 || probe->tokens < 0)) {
        code = reader_fault(reader, node,
                            "lr-probe needs factors and tokens, such as {factors: [0.5, 1, 2], "
                            "tokens: 2M}");
    }
    return code;
}

/* --- tables and charts, in the form that experiment.json has --- */

static int check_metric(const RecipeReader *reader, const RecipeKey *key, const yaml_node_t *node,
                        const char *text)
{
    return reader->metric == NULL || reader->metric(text) == 0
               ? 0
               : err_wrap(ERR_INPUT, "%s:%d: %s", reader->input.path,
                          yaml_input_line(node->start_mark), key->name);
}

static int add_metric(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *array)
{
    const char *text = reader_text(reader, node, key->name);
    int code = text == NULL ? ERR_INPUT : check_metric(reader, key, node, text);
    if (code == 0) {
        json_append_text(array, text);
    }
    return code;
}

/* A list of columns, or one, as an array. */
static int put_metrics(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *object)
{
    cJSON *array = json_put_array(object, key->name);
    return node->type == YAML_SCALAR_NODE ? add_metric(reader, key, node, array)
                                          : reader_each(reader, key, node, add_metric, array);
}

static int put_choice(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *object)
{
    int choice, code = reader_choice(reader, key, node, &choice);
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
    int code = reader_settings(reader, key, node, &list);
    json_put_item(object, key->name, setting_json(&list));
    setting_free(&list);
    return code;
}

static int read_table(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *tables)
{
    (void)key;
    static const char *const pers[] = {"configuration", "run", "rank", NULL};
    static const RecipeKey keys[] = {{.name = "title", .read = put_text, .needed = true},
                                     {.name = "per", .read = put_choice, .choices = pers},
                                     {.name = "columns", .read = put_metrics, .needed = true},
                                     {.name = NULL}};
    cJSON *table = json_object();
    json_append(tables, table);
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

static int read_chart(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *charts)
{
    (void)key;
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
    cJSON *chart = json_object();
    json_append(charts, chart);
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

static int read_list(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into)
{
    cJSON **list = into;
    cJSON_Delete(*list);
    *list = json_array();
    return reader_each(reader, key, node, key->item, *list);
}

/* --- the whole --- */

static int find_smoke(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *recipe)
{
    (void)recipe;
    reader->smoke = node;
    return refuse_inside(reader, key, node);
}

static const char *const checkpoints[] = {"keep", "remove", NULL};
static const RecipeKey keys_of_recipe[] = {
    {.name = "name", .read = read_name, .at = offsetof(Recipe, name)},
    {.name = "title", .read = read_text, .at = offsetof(Recipe, title)},
    {.name = "about", .read = read_text, .at = offsetof(Recipe, about)},
    {.name = "base", .read = read_base, .at = offsetof(Recipe, base)},
    {.name = "axes", .read = reader_axes},
    {.name = "law", .read = reader_law},
    {.name = "skip", .read = reader_skips},
    {.name = "repeats", .read = read_repeats, .at = offsetof(Recipe, repeats)},
    {.name = "timeout", .read = read_timeout, .at = offsetof(Recipe, timeout_s)},
    {.name = "baseline", .read = read_baseline, .at = offsetof(Recipe, baseline)},
    {.name = "target-loss", .read = read_value, .at = offsetof(Recipe, target_loss)},
    {.name = "lr-rule", .read = read_lr_rule},
    {.name = "lr-probe", .read = read_lr_probe, .at = offsetof(Recipe, probe)},
    {.name = "trunk", .read = read_base, .at = offsetof(Recipe, trunk)},
    {.name = "tolerance", .read = read_tolerance, .at = offsetof(Recipe, tolerance)},
    {.name = "peers", .read = read_peers, .at = offsetof(Recipe, peers)},
    {.name = "checkpoints",
     .read = reader_choice,
     .at = offsetof(Recipe, drop_checkpoints),
     .choices = checkpoints},
    {.name = "tables", .read = read_list, .at = offsetof(Recipe, tables), .item = read_table},
    {.name = "charts", .read = read_list, .at = offsetof(Recipe, charts), .item = read_chart},
    {.name = "smoke", .read = find_smoke},
    {.name = NULL},
};

static int read_root(RecipeReader *reader, yaml_node_t *root, bool smoke, Recipe *recipe)
{
    int code = reader_mapping(reader, root, "a recipe", keys_of_recipe, recipe);
    if (code == 0 && recipe->name == NULL) {
        code = reader_fault(reader, root, "a recipe needs the key name");
    }
    if (code == 0 && reader->smoke != NULL) {
        Recipe unused = {.repeats = 1};
        reader->inside = true;
        code = reader_mapping(reader, reader->smoke, "smoke", keys_of_recipe,
                              smoke ? recipe : &unused);
        recipe_free(&unused);
    } else if (code == 0 && smoke) {
        code = err_set(ERR_INPUT, "%s: has no key smoke, so there is no small version to run",
                       reader->input.path);
    }
    if (code == 0 && recipe->law != NULL) {
        code = law_make_axis(recipe);
    }
    if (code == 0 && recipe->axis_count == 0) {
        code = err_set(ERR_INPUT, "%s: needs axes: what varies, such as `axes: [{batch: [8, 16]}]`",
                       reader->input.path);
    }
    return code;
}

/* A node that stands in two places came by an alias: &name and *name. */
static int refuse_aliases(RecipeReader *reader)
{
    yaml_document_t *document = &reader->document;
    int count = (int)(document->nodes.top - document->nodes.start);
    bool *seen = mem_zalloc((size_t)count + 1, sizeof *seen);
    int twice = 0;
    for (int n = 1; n <= count && twice == 0; n++) {
        const yaml_node_t *node = reader_node(reader, n);
        yaml_node_t *key, *value;
        bool mapping = node->type == YAML_MAPPING_NODE, list = node->type == YAML_SEQUENCE_NODE;
        for (int i = 0; twice == 0 && (mapping ? reader_pair(reader, node, i, &key, &value)
                                               : list && reader_item(reader, node, i, &value));
             i++) {
            int index = (int)(value - document->nodes.start);
            twice = seen[index] ? index + 1 : 0;
            seen[index] = true;
        }
    }
    free(seen);
    return twice == 0 ? 0
                      : reader_fault(reader, reader_node(reader, twice),
                                     "aliases are not used here; write the value itself");
}

static int refuse_more(RecipeReader *reader)
{
    if (!yaml_parser_load(&reader->input.parser, &reader->document)) {
        return yaml_input_fault(&reader->input);
    }
    yaml_node_t *root = yaml_document_get_root_node(&reader->document);
    int code = root != NULL ? reader_fault(reader, root, "a second document; one is allowed") : 0;
    yaml_document_delete(&reader->document);
    return code;
}

static int read_document(RecipeReader *reader, bool smoke, Recipe *recipe)
{
    if (!yaml_parser_load(&reader->input.parser, &reader->document)) {
        return yaml_input_fault(&reader->input);
    }
    yaml_node_t *root = yaml_document_get_root_node(&reader->document);
    int code = root != NULL ? refuse_aliases(reader)
                            : err_set(ERR_INPUT, "%s: is empty", reader->input.path);
    code = code != 0 ? code : read_root(reader, root, smoke, recipe);
    yaml_document_delete(&reader->document);
    if (code == 0) {
        code = refuse_more(reader);
    }
    return code;
}

int recipe_load(Recipe *recipe, const char *path, bool smoke, RecipeMetricCheck metric)
{
    RecipeReader reader = {.metric = metric};
    int code = yaml_input_open(&reader.input, path);
    if (code != 0) {
        return code;
    }
    *recipe = (Recipe){.path = mem_strdup(path),
                       .smoke = smoke,
                       .repeats = 1,
                       .tables = json_array(),
                       .charts = json_array()};
    config_init(&reader.scratch, COMMAND_TRAIN);
    code = read_document(&reader, smoke, recipe);
    config_free(&reader.scratch);
    yaml_input_close(&reader.input);
    if (code != 0) {
        recipe_free(recipe);
    }
    return code;
}
