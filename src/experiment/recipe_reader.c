/* Walking a YAML document. A node that several places share (an alias) is refused when the
 * document is opened, so that what is read is never more than what was written. */
#include "experiment/recipe_reader.h"

#include "base/err.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int reader_fault(const RecipeReader *reader, const yaml_node_t *node, const char *format, ...)
{
    char message[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return err_set(ERR_INPUT, "%s:%d: %s", reader->input.path, yaml_input_line(node->start_mark),
                   message);
}

yaml_node_t *reader_node(RecipeReader *reader, int index)
{
    return yaml_document_get_node(&reader->document, index);
}

const char *reader_text(RecipeReader *reader, const yaml_node_t *node, const char *what)
{
    if (node->type != YAML_SCALAR_NODE) {
        reader_fault(reader, node, "%s: one plain value must stand here", what);
        return NULL;
    }
    const char *text = (const char *)node->data.scalar.value;
    bool plain = node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (strlen(text) != node->data.scalar.length) {
        reader_fault(reader, node, "%s: has a zero byte", what);
        return NULL;
    }
    if (plain && (text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0)) {
        reader_fault(reader, node, "%s has no value", what);
        return NULL;
    }
    return text;
}

bool reader_pair(RecipeReader *reader, const yaml_node_t *mapping, int i, yaml_node_t **key,
                 yaml_node_t **value)
{
    const yaml_node_pair_t *pair = mapping->data.mapping.pairs.start + i;
    if (pair >= mapping->data.mapping.pairs.top) {
        return false;
    }
    *key = reader_node(reader, pair->key);
    *value = reader_node(reader, pair->value);
    return true;
}

bool reader_item(RecipeReader *reader, const yaml_node_t *sequence, int i, yaml_node_t **item)
{
    const yaml_node_item_t *at = sequence->data.sequence.items.start + i;
    if (at >= sequence->data.sequence.items.top) {
        return false;
    }
    *item = reader_node(reader, *at);
    return true;
}

int reader_want_mapping(const RecipeReader *reader, const yaml_node_t *node, const char *what)
{
    return node->type == YAML_MAPPING_NODE
               ? 0
               : reader_fault(reader, node, "%s: must be lines of `name: value`", what);
}

int reader_want_sequence(const RecipeReader *reader, const yaml_node_t *node, const char *what)
{
    bool filled = node->type == YAML_SEQUENCE_NODE &&
                  node->data.sequence.items.top > node->data.sequence.items.start;
    return filled
               ? 0
               : reader_fault(reader, node, "%s: must be a list such as [a, b], not empty", what);
}

int reader_key(RecipeReader *reader, const yaml_node_t *key, const char *const *names,
               unsigned *seen)
{
    const char *text = reader_text(reader, key, "key");
    if (text == NULL) {
        return -1;
    }
    for (int i = 0; names[i] != NULL; i++) {
        if (strcmp(names[i], text) == 0) {
            if (*seen & 1u << i) {
                reader_fault(reader, key, "%s is given twice", text);
                return -1;
            }
            *seen |= 1u << i;
            return i;
        }
    }
    bool likely;
    const char *nearest = config_nearest(text, names, &likely);
    reader_fault(reader, key, "unknown key '%.60s'; %s %s%s", text,
                 likely ? "did you mean" : "the nearest is", nearest, likely ? "?" : "");
    return -1;
}

int reader_real(RecipeReader *reader, const yaml_node_t *node, const char *what, double *number)
{
    const char *text = reader_text(reader, node, what);
    if (text == NULL) {
        return ERR_INPUT;
    }
    char *end;
    *number = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*number)
               ? 0
               : reader_fault(reader, node, "%s '%.60s': not a number", what, text);
}

int reader_bool(RecipeReader *reader, const yaml_node_t *node, const char *what, bool *flag)
{
    const char *text = reader_text(reader, node, what);
    if (text == NULL) {
        return ERR_INPUT;
    }
    *flag = strcasecmp(text, "true") == 0 || strcasecmp(text, "on") == 0 ||
            strcasecmp(text, "yes") == 0;
    bool off = strcasecmp(text, "false") == 0 || strcasecmp(text, "off") == 0 ||
               strcasecmp(text, "no") == 0;
    return *flag || off ? 0 : reader_fault(reader, node, "%s '%.60s': on or off", what, text);
}
