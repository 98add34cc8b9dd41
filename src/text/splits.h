#pragma once
/* Pre-tokenizers of a tokenizer.json one after the other: each takes apart what the one before it
 * has left, and sees nothing beyond it. Some also rewrite their piece. */
#include "text/byte_list.h"
#include "text/pretok.h"

/* What becomes of a match of a pattern and of what lies between two. */
typedef enum {
    SPLIT_ISOLATED,      /* each is a piece */
    SPLIT_CONTIGUOUS,    /* matches that touch are one */
    SPLIT_WITH_PREVIOUS, /* a match belongs to what lies before it */
    SPLIT_WITH_NEXT,
} SplitBehavior;

typedef enum {
    STEP_SPLIT,     /* by a pattern */
    STEP_SPACE,     /* a space before what does not begin with one */
    STEP_METASPACE, /* spaces become a sign, which begins pieces */
    STEP_ALPHABET,  /* bytes as characters of the byte alphabet, until the end of all steps */
} StepKind;

typedef enum { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS } PrependScheme;

typedef struct {
    StepKind kind;
    Pretok *pretok; /* STEP_SPLIT: owned */
    SplitBehavior behavior;
    bool inverted;        /* matches and what lies between change roles */
    uint32_t sign;        /* STEP_METASPACE: a character */
    PrependScheme scheme; /* STEP_METASPACE: where the sign comes first */
    bool parts;           /* STEP_METASPACE: the sign begins a piece */
} SplitStep;

typedef struct {
    SplitStep *steps;
    size_t count;
} Splits;

void splits_add(Splits *splits, SplitStep step); /* takes the pattern */
void splits_free(Splits *splits);                /* no-op on zeroed ones */

/* What is asked to find places to cut. */
bool splits_part_words(const Splits *splits); /* a letter and what does not go on behind it always
                                                 are in two pieces, whatever is around them */
bool splits_rewrite_starts(const Splits *splits); /* the first step may put something before a text
                                                   */
const SplitStep *splits_metaspace(const Splits *splits); /* the first step; NULL: it is none */

/* What one thread needs. */
typedef struct SplitWalk SplitWalk;
SplitWalk *split_walk_open(const Splits *splits);
void split_walk_close(SplitWalk *walk); /* NULL is fine */

/* Gets the pieces of a text in order, none of them empty; `readable` bytes can be read from each
 * on. */
typedef void (*SplitSink)(void *context, const uint8_t *piece, size_t size, size_t readable);

/* `opens`: the text begins here, and does not go on from what came before; `first`: it is the first
 * of its document. */
void split_walk_run(SplitWalk *walk, const uint8_t *text, size_t size, bool opens, bool first,
                    SplitSink sink, void *context);

/* As pretok_walk_cut, where splits_rewrite_starts is false. */
size_t split_walk_cut(SplitWalk *walk, const uint8_t *text, size_t size);
