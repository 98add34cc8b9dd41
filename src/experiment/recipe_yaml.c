/* Reading a recipe. The file is one mapping; its key smoke holds a mapping of the same keys,
 * which replace the outer ones in the small version (base is replaced option by option). Both
 * are read and checked, whichever is asked for. */
#include "experiment/recipe_reader.h"

#include "base/err.h"
#include "base/mem.h"
#include "metrics/names.h"

#include <stdlib.h>
#include <string.h>

#define MAX_REPEATS 1000
#define MAX_TIMEOUT 1e9 /* seconds */

enum {
    KEY_NAME,
    KEY_TITLE,
    KEY_ABOUT,
    KEY_BASE,
    KEY_AXES,
    KEY_SKIP,
    KEY_REPEATS,
    KEY_TIMEOUT,
    KEY_BASELINE,
    KEY_TARGET_LOSS,
    KEY_LR_RULE,
    KEY_LR_PROBE,
    KEY_PEERS,
    KEY_CHECKPOINTS,
    KEY_TABLES,
    KEY_CHARTS,
    KEY_SMOKE,
};
static const char *const keys[] = {"name",    "title",    "about",   "base",        "axes",
                                   "skip",    "repeats",  "timeout", "baseline",    "target-loss",
                                   "lr-rule", "lr-probe", "peers",   "checkpoints", "tables",
                                   "charts",  "smoke",    NULL};

/* --- single values --- */

static int read_text(RecipeReader *reader, yaml_node_t *node, const char *what, char **text)
{
    const char *found = reader_text(reader, node, what);
    if (found == NULL) {
        return ERR_INPUT;
    }
    *text = mem_strdup(found);
    size_t length = strlen(*text);
    while (length > 0 && (*text)[length - 1] == '\n') { /* of a folded text */
        (*text)[--length] = '\0';
    }
    return 0;
}

static int read_name(RecipeReader *reader, yaml_node_t *node, char **name)
{
    int code = read_text(reader, node, "name", name);
    if (code == 0 && ((*name)[0] == '.' || (*name)[0] == '\0' || strlen(*name) > 80 ||
                      strspn(*name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789-_.") != strlen(*name))) {
        code = reader_fault(
            reader, node, "name '%.60s': becomes a folder; letters, digits, - _ and . only", *name);
    }
    return code;
}

/* 90, 90s, 10m, 2h */
static int read_timeout(RecipeReader *reader, yaml_node_t *node, double *seconds)
{
    const char *text = reader_text(reader, node, "timeout");
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

static int read_repeats(RecipeReader *reader, yaml_node_t *node, int *repeats)
{
    double number;
    int code = reader_real(reader, node, "repeats", &number);
    if (code == 0 && !(number >= 1 && number <= MAX_REPEATS && number == (int)number)) {
        return reader_fault(reader, node, "repeats: a whole number from 1 to %d", MAX_REPEATS);
    }
    *repeats = code == 0 ? (int)number : 1;
    return code;
}

static int read_choice(RecipeReader *reader, yaml_node_t *node, const char *what,
                       const char *const *choices, int *choice)
{
    const char *text = reader_text(reader, node, what);
    for (*choice = 0; text != NULL && choices[*choice] != NULL; ++*choice) {
        if (strcmp(choices[*choice], text) == 0) {
            return 0;
        }
    }
    bool likely;
    return text == NULL ? ERR_INPUT
                        : reader_fault(reader, node, "%s '%.60s': the nearest there is is %s", what,
                                       text, config_nearest(text, choices, &likely));
}

static int read_lr_rule(RecipeReader *reader, yaml_node_t *node, Recipe *recipe)
{
    static const char *const names[] = {"rule", "at", NULL};
    static const char *const rules[] = {"none", "linear", "sqrt", NULL};
    int code = reader_want_mapping(reader, node, "lr-rule"), rule = LR_RULE_NONE;
    unsigned seen = 0;
    yaml_node_t *key, *value;
    for (int i = 0; code == 0 && reader_pair(reader, node, i, &key, &value); i++) {
        int which = reader_key(reader, key, names, &seen);
        code = which < 0    ? ERR_INPUT
               : which == 0 ? read_choice(reader, value, "rule", rules, &rule)
                            : reader_real(reader, value, "at", &recipe->lr_at);
    }
    recipe->lr_rule = (LrRule)rule;
    if (code == 0 && rule != LR_RULE_NONE && !(recipe->lr_at >= 1)) {
        code = reader_fault(reader, node,
                            "lr-rule needs `at`, the global batch that lr is meant for, 1 or more");
    }
    return code;
}

/* One name or a list of them; none: no peers. */
static int read_peers(RecipeReader *reader, yaml_node_t *node, unsigned *peers)
{
    const char *names[8] = {"none"};
    for (int i = 0; peer_name(i) != NULL && i < 6; i++) {
        names[i + 1] = peer_name(i);
    }
    bool single = node->type == YAML_SCALAR_NODE;
    int code = single ? 0 : reader_want_sequence(reader, node, "peers");
    yaml_node_t *item = node;
    *peers = 0;
    for (int i = 0; code == 0 && (single ? i == 0 : reader_item(reader, node, i, &item)); i++) {
        int choice;
        code = read_choice(reader, item, "peers", names, &choice);
        if (code == 0 && choice == 0 && !single) {
            code = reader_fault(reader, item, "peers: none stands alone");
        } else if (code == 0 && choice > 0) {
            *peers |= 1u << (choice - 1);
        }
    }
    return code;
}

/* --- the whole --- */

static int read_part(RecipeReader *reader, yaml_node_t *node, bool inner, Recipe *recipe,
                     unsigned *seen, yaml_node_t **smoke)
{
    static const char *const checkpoints[] = {"keep", "remove", NULL};
    int code = reader_want_mapping(reader, node, inner ? "smoke" : "a recipe"), choice;
    yaml_node_t *key, *value;
    for (int i = 0; code == 0 && reader_pair(reader, node, i, &key, &value); i++) {
        int which = reader_key(reader, key, keys, seen);
        if (inner && (which == KEY_NAME || which == KEY_SMOKE)) {
            return reader_fault(reader, key, "%s does not belong into smoke", keys[which]);
        }
        switch (which) {
        case KEY_NAME:
            code = read_name(reader, value, &recipe->name);
            break;
        case KEY_TITLE:
            code = read_text(reader, value, "title", &recipe->title);
            break;
        case KEY_ABOUT:
            code = read_text(reader, value, "about", &recipe->about);
            break;
        case KEY_BASE:
            code = reader_settings(reader, value, "base", &recipe->base);
            break;
        case KEY_AXES:
            code = reader_axes(reader, value, recipe);
            break;
        case KEY_SKIP:
            code = reader_skips(reader, value, recipe);
            break;
        case KEY_REPEATS:
            code = read_repeats(reader, value, &recipe->repeats);
            break;
        case KEY_TIMEOUT:
            code = read_timeout(reader, value, &recipe->timeout_s);
            break;
        case KEY_BASELINE:
            code = reader_settings(reader, value, "baseline", &recipe->baseline);
            break;
        case KEY_TARGET_LOSS:
            recipe->target_loss.known = true;
            code = reader_real(reader, value, "target-loss", &recipe->target_loss.number);
            break;
        case KEY_LR_RULE:
            code = read_lr_rule(reader, value, recipe);
            break;
        case KEY_LR_PROBE:
            code = reader_lr_probe(reader, value, &recipe->probe);
            break;
        case KEY_PEERS:
            code = read_peers(reader, value, &recipe->peers);
            break;
        case KEY_CHECKPOINTS:
            code = read_choice(reader, value, "checkpoints", checkpoints, &choice);
            recipe->drop_checkpoints = choice == 1;
            break;
        case KEY_TABLES:
            code = reader_tables(reader, value, &recipe->tables);
            break;
        case KEY_CHARTS:
            code = reader_charts(reader, value, &recipe->charts);
            break;
        case KEY_SMOKE:
            *smoke = value;
            break;
        default:
            code = ERR_INPUT;
        }
    }
    return code;
}

/* Puts base of the small version over the other. Of options that answer one question the new one
 * stands. */
static void replace_base(SettingList *base, const SettingList *over)
{
    static const char *const groups[][3] = {{"steps", "tokens", "epochs"},
                                            {"accum", "global-batch", "accum"}};
    for (int i = 0; i < over->count; i++) {
        const Setting *new = &over->items[i];
        setting_remove(base, new->option);
        for (int g = 0; g < 2; g++) {
            bool member = strcmp(groups[g][0], new->option) == 0 ||
                          strcmp(groups[g][1], new->option) == 0 ||
                          strcmp(groups[g][2], new->option) == 0;
            for (int k = 0; member && k < 3; k++) {
                if (setting_find(over, groups[g][k]) == NULL) {
                    setting_remove(base, groups[g][k]);
                }
            }
        }
    }
    for (int i = 0; i < over->count; i++) {
        setting_add(base, over->items[i].option, over->items[i].value, over->items[i].line);
    }
}

#define TAKE(field)                             \
    do {                                        \
        __typeof__(to->field) kept = to->field; \
        to->field = from->field;                \
        from->field = kept;                     \
    } while (0)

/* Replaces what `from` has by the keys in `seen`; from then holds what was there before. */
static void replace_parts(Recipe *to, Recipe *from, unsigned seen)
{
    if (seen & 1u << KEY_TITLE) {
        TAKE(title);
    }
    if (seen & 1u << KEY_ABOUT) {
        TAKE(about);
    }
    if (seen & 1u << KEY_BASE) {
        replace_base(&to->base, &from->base);
    }
    if (seen & 1u << KEY_AXES) {
        TAKE(axes);
        TAKE(axis_count);
    }
    if (seen & 1u << KEY_SKIP) {
        TAKE(skips);
        TAKE(skip_count);
    }
    if (seen & 1u << KEY_REPEATS) {
        TAKE(repeats);
    }
    if (seen & 1u << KEY_TIMEOUT) {
        TAKE(timeout_s);
    }
    if (seen & 1u << KEY_BASELINE) {
        TAKE(baseline);
    }
    if (seen & 1u << KEY_TARGET_LOSS) {
        TAKE(target_loss);
    }
    if (seen & 1u << KEY_LR_RULE) {
        TAKE(lr_rule);
        TAKE(lr_at);
    }
    if (seen & 1u << KEY_LR_PROBE) {
        TAKE(probe);
    }
    if (seen & 1u << KEY_PEERS) {
        TAKE(peers);
    }
    if (seen & 1u << KEY_CHECKPOINTS) {
        TAKE(drop_checkpoints);
    }
    if (seen & 1u << KEY_TABLES) {
        TAKE(tables);
    }
    if (seen & 1u << KEY_CHARTS) {
        TAKE(charts);
    }
}

static int read_root(RecipeReader *reader, yaml_node_t *root, bool smoke, Recipe *recipe)
{
    unsigned seen = 0, seen_inside = 0;
    yaml_node_t *small = NULL;
    int code = read_part(reader, root, false, recipe, &seen, &small);
    if (code == 0 && recipe->name == NULL) {
        code = reader_fault(reader, root, "a recipe needs the key name");
    }
    if (code == 0 && small != NULL) {
        Recipe inside = {.repeats = 1};
        yaml_node_t *none = NULL;
        code = read_part(reader, small, true, &inside, &seen_inside, &none);
        if (code == 0 && smoke) {
            replace_parts(recipe, &inside, seen_inside);
        }
        recipe_free(&inside);
    } else if (code == 0 && smoke) {
        code = err_set(ERR_INPUT, "%s: has no key smoke, so there is no small version to run",
                       reader->input.path);
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
    *recipe = (Recipe){.path = mem_strdup(path), .smoke = smoke, .repeats = 1};
    config_init(&reader.scratch, COMMAND_TRAIN);
    code = read_document(&reader, smoke, recipe);
    config_free(&reader.scratch);
    yaml_input_close(&reader.input);
    if (code != 0) {
        recipe_free(recipe);
    }
    return code;
}
