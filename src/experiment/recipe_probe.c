/* The key lr-probe of a recipe, and the recipe of the probe itself. */
#include "experiment/probe.h"
#include "experiment/recipe_reader.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FACTORS 32
#define MAX_FACTOR 1e6

static int read_factors(RecipeReader *reader, yaml_node_t *node, LrProbe *probe)
{
    int code = reader_want_sequence(reader, node, "factors");
    free(probe->factors);
    probe->factors = mem_zalloc(MAX_FACTORS, sizeof *probe->factors);
    probe->count = 0;
    yaml_node_t *item;
    for (int i = 0; code == 0 && reader_item(reader, node, i, &item); i++) {
        double factor;
        code = reader_real(reader, item, "factors", &factor);
        double last = probe->count > 0 ? probe->factors[probe->count - 1] : 0;
        if (code == 0 && !(factor > last && factor <= MAX_FACTOR)) {
            code = reader_fault(reader, item, "factors: positive numbers, each above the last");
        } else if (code == 0 && probe->count == MAX_FACTORS) {
            code = reader_fault(reader, item, "factors: at most %d", MAX_FACTORS);
        } else if (code == 0) {
            probe->factors[probe->count++] = factor;
        }
    }
    if (code == 0 && probe->count < 2) {
        code = reader_fault(reader, node, "factors: at least two, to choose between");
    }
    return code;
}

int reader_lr_probe(RecipeReader *reader, yaml_node_t *node, LrProbe *probe)
{
    static const char *const names[] = {"factors", "tokens", NULL};
    if (node->type == YAML_SCALAR_NODE && strcmp((char *)node->data.scalar.value, "none") == 0) {
        return 0;
    }
    int code = reader_want_mapping(reader, node, "lr-probe");
    unsigned seen = 0;
    yaml_node_t *key, *value;
    for (int i = 0; code == 0 && reader_pair(reader, node, i, &key, &value); i++) {
        int which = reader_key(reader, key, names, &seen);
        if (which == 0) {
            code = read_factors(reader, value, probe);
            continue;
        }
        const char *text = which == 1 ? reader_text(reader, value, "tokens") : NULL;
        code = text == NULL || config_parse_bytes(text, &probe->tokens) != 0 ? ERR_INPUT : 0;
        if (code != 0 && text != NULL) {
            code = reader_fault(reader, value, "tokens '%.60s': a number such as 500k or 2M", text);
        }
    }
    if (code == 0 && seen != 3) {
        code = reader_fault(reader, node,
                            "lr-probe needs factors and tokens, such as {factors: [0.5, 1, 2], "
                            "tokens: 2M}");
    }
    return code;
}

/* Whether an axis varies the option. */
static bool is_varied(const Recipe *recipe, const char *option)
{
    for (int i = 0; i < recipe->axis_count; i++) {
        for (int k = 0; k < recipe->axes[i].options; k++) {
            if (strcmp(recipe->axes[i].cells[k].option, option) == 0) {
                return true;
            }
        }
    }
    return false;
}

int recipe_check_probe(const Recipe *recipe)
{
    static const char *const fixed[] = {"lr", "steps", "tokens", "epochs"};
    for (size_t i = 0; recipe->probe.count > 0 && i < sizeof fixed / sizeof fixed[0]; i++) {
        if (is_varied(recipe, fixed[i])) {
            return err_set(ERR_INPUT,
                           "%s: lr-probe finds a rate for runs of one length; an axis over %s "
                           "leaves it nothing to find; leave one of the two out",
                           recipe->path, fixed[i]);
        }
    }
    return 0;
}

static cJSON *words(const char *const *texts, int count)
{
    return cJSON_CreateStringArray(texts, count);
}

/* What varies, then what the probe is about. */
static void show_rates(Recipe *recipe)
{
    static const char *const behind[] = {"lr", "state", "tokens", "train_loss", "val_loss"};
    const char *columns[64], *series = NULL;
    int count = 0;
    for (int i = 0; i < recipe->axis_count; i++) {
        for (int k = 0; k < recipe->axes[i].options && count < 48; k++) {
            if (recipe_axis_shows(&recipe->axes[i], k)) {
                columns[count++] = recipe->axes[i].cells[k].option;
                series = series == NULL ? columns[count - 1] : series;
            }
        }
    }
    for (size_t i = 0; i < sizeof behind / sizeof behind[0]; i++) {
        columns[count++] = behind[i];
    }
    cJSON_Delete(recipe->tables);
    cJSON_Delete(recipe->charts);
    recipe->tables = json_array();
    recipe->charts = json_array();
    cJSON *table = json_object(), *chart = json_object();
    json_put_text(table, "title", "Learning rates");
    json_put_text(table, "per", "configuration");
    json_put_item(table, "columns", words(columns, count));
    json_append(recipe->tables, table);
    json_put_text(chart, "name", "learning_rates");
    json_put_text(chart, "title", "Loss at the end of the probe");
    json_put_text(chart, "kind", "lines");
    json_put_text(chart, "x", "lr");
    json_put_item(chart, "y", words((const char *[]){"val_loss"}, 1));
    json_put_text(chart, "series", series);
    json_put_bool(chart, "logx", true);
    json_append(recipe->charts, chart);
}

void recipe_make_probe(Recipe *recipe)
{
    static const char *const lengths[] = {"steps", "tokens", "epochs", "warmup"};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        setting_remove(&recipe->base, lengths[i]);
    }
    char tokens[32];
    snprintf(tokens, sizeof tokens, "%" PRId64, recipe->probe.tokens);
    setting_add(&recipe->base, "tokens", tokens, 0);
    recipe->probe.probing = true;
    recipe->repeats = 1;
    recipe->peers = 0;
    recipe->drop_checkpoints = true;
    recipe->target_loss = (Value){0};
    setting_free(&recipe->baseline);
    free(recipe->title);
    recipe->title = mem_format("Learning rates for %s", recipe->name);
    free(recipe->about);
    recipe->about =
        mem_format("Short runs of %s tokens at several learning rates. The one with the "
                   "least validation loss is taken for the runs of the experiment.",
                   tokens);
    show_rates(recipe);
}
