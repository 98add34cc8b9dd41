#pragma once
/* The kinds of models that config.json describes, and what is particular to each. */
#include "model/spec.h"

typedef struct {
    const char *type, *architecture;
    const char *preset; /* one of these models: what config.json does not say is as there */
    const char *activation_field;
    struct {
        FfnKind kind;
        const char *names[4]; /* the first is written; transformers' default comes first */
    } activations[3];
    /* What a file that leaves them out means; 0: they must be there, or follow from others. */
    int64_t context, kv_heads, head_dim;
    double norm_eps, rope_base;
    bool tied;
    /* Options, by name, that its files can say beside those with a name of their own in the table
     * of fields; else they are as the preset has them. */
    const char *says[8];
    /* "sliding_window" counts only where the field of this name is true; NULL: it counts. */
    const char *window_switch;
    /* Every so many layers have no window, unless the field of this name or "layer_types" says
     * something else. */
    int64_t full_every;
    const char *pattern_field;
} Family;

extern const Family hf_families[];
extern const int hf_family_count;

#define HF_WINDOW 4096 /* "sliding_window" where a file leaves it out */

/* Whether its files can say the option's field. */
bool hf_family_says(const Family *family, const char *option);

/* What a model has for a field of which nothing is said, from fields that come before it. */
double hf_family_initial(const Family *family, const ModelSpec *spec, const SpecField *field);

/* Name of the field in the family's files; NULL: none. */
const char *hf_field_name(const Family *family, const SpecField *field);
