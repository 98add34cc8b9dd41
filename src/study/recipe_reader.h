#pragma once
/* Shared by the files that read a recipe: nodes of a YAML document, with faults that name file
 * and line. */
#include "config/config.h"
#include "config/yaml_input.h"
#include "study/recipe.h"

typedef struct {
    YamlInput input;
    yaml_document_t document;
    RecipeMetricCheck metric;
    Config scratch;     /* takes every value once, to be checked and written in one way */
    yaml_node_t *smoke; /* value of the key smoke; NULL: none so far */
    bool inside;        /* what is read is that value */
    yaml_node_t *x;     /* of the chart that is read */
} RecipeReader;

/* Reads the value of a key, or an item of its list, into what `into` is. */
typedef struct RecipeKey RecipeKey;
typedef int RecipeRead(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, void *into);

struct RecipeKey {
    const char *name;
    RecipeRead *read;
    size_t at;                  /* offset in the whole of what `read` is to fill; 0: all of it */
    const char *const *choices; /* NULL-terminated, for keys that have them */
    RecipeRead *item;           /* of a list of tables or charts */
    bool needed;
};
#define RECIPE_MAX_KEYS 32

int reader_fault(const RecipeReader *reader, const yaml_node_t *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

yaml_node_t *reader_node(RecipeReader *reader, int index); /* by its number in the document */

/* The node's text, owned by the document; NULL and a fault when it is no single value. `what`
 * names it. */
const char *reader_text(RecipeReader *reader, const yaml_node_t *node, const char *what);

/* Entry i of a mapping or a sequence. False behind the end. */
bool reader_pair(RecipeReader *reader, const yaml_node_t *mapping, int i, yaml_node_t **key,
                 yaml_node_t **value);
bool reader_item(RecipeReader *reader, const yaml_node_t *sequence, int i, yaml_node_t **item);

/* Reads a mapping into `into` key by key; keys end with a NULL name. A key that is unknown (the
 * nearest one is named), stands twice or is needed and missing is a fault. */
int reader_mapping(RecipeReader *reader, yaml_node_t *node, const char *what, const RecipeKey *keys,
                   void *into);

/* Fails unless the node is a sequence with at least one entry. */
int reader_want_sequence(const RecipeReader *reader, const yaml_node_t *node, const char *what);

/* Has every item of such a sequence read. */
int reader_each(RecipeReader *reader, const RecipeKey *key, yaml_node_t *node, RecipeRead *read,
                void *into);

/* A double; an int, which of the key's choices it is; options of train with a value each, as a
 * SettingList; skip and axes, in place of those of a Recipe. What was read stays there when it
 * fails. */
RecipeRead reader_real, reader_choice, reader_settings, reader_skips, reader_axes;

/* law.c: sizes, budgets and the largest run, into a Recipe. */
RecipeRead reader_law;
