#pragma once
/* Shared by the files that read a recipe: nodes of a YAML document, with faults that name file
 * and line. */
#include "config/config.h"
#include "config/yaml_input.h"
#include "experiment/recipe.h"

typedef struct {
    YamlInput input;
    yaml_document_t document;
    RecipeMetricCheck metric;
    Config scratch; /* takes every value once, to be checked and written in one way */
} RecipeReader;

int reader_fault(const RecipeReader *reader, const yaml_node_t *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

yaml_node_t *reader_node(RecipeReader *reader,
                         int index); /* a node by its number in the document */

/* The node's text, owned by the document; NULL and a fault when it is no single value. `what`
 * names it. */
const char *reader_text(RecipeReader *reader, const yaml_node_t *node, const char *what);

/* Entry i of a mapping or a sequence; its key is NULL in the latter. False behind the end. */
bool reader_pair(RecipeReader *reader, const yaml_node_t *mapping, int i, yaml_node_t **key,
                 yaml_node_t **value);
bool reader_item(RecipeReader *reader, const yaml_node_t *sequence, int i, yaml_node_t **item);

/* Fails unless the node is a mapping, or a sequence with at least one entry. */
int reader_want_mapping(const RecipeReader *reader, const yaml_node_t *node, const char *what);
int reader_want_sequence(const RecipeReader *reader, const yaml_node_t *node, const char *what);

/* Index of key among names (ends at NULL); -1 and a fault that names the nearest one. A key that
 * stands twice in its mapping is a fault too: *seen has a bit for each name that has come. */
int reader_key(RecipeReader *reader, const yaml_node_t *key, const char *const *names,
               unsigned *seen);

int reader_real(RecipeReader *reader, const yaml_node_t *node, const char *what, double *number);
int reader_bool(RecipeReader *reader, const yaml_node_t *node, const char *what, bool *flag);

/* recipe_view.c: the keys tables and charts, as arrays. Caller deletes. */
int reader_tables(RecipeReader *reader, yaml_node_t *node, cJSON **tables);
int reader_charts(RecipeReader *reader, yaml_node_t *node, cJSON **charts);

/* recipe_settings.c: options of train with a value each, skip, and axes. What was read stays in
 * the lists when it fails. */
int reader_settings(RecipeReader *reader, yaml_node_t *node, const char *what, SettingList *list);
int reader_skips(RecipeReader *reader, yaml_node_t *node, Recipe *recipe);
int reader_axes(RecipeReader *reader, yaml_node_t *node, Recipe *recipe);

/* recipe_probe.c: the key lr-probe. */
int reader_lr_probe(RecipeReader *reader, yaml_node_t *node, LrProbe *probe);
