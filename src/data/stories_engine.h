#pragma once
/* The compiled form of what stories are made of, and the two functions over it: stories_compile
 * turns templates into short programs once, stories_tell runs them for one story. Programs refer to
 * everything by number: telling costs a random number per choice and a copy per piece of text.
 *
 * The engine knows nothing of children, kites or storms: everything told is in the text files of
 * stories/, whose README.md describes them. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORY_FACT_WORDS 2
#define STORY_FACTS_MAX (64 * STORY_FACT_WORDS)
#define STORY_ROLES_MAX 96
#define STORY_TEXTS_MAX 64
#define STORY_AVOID_FROM 3 /* a choice of fewer alternatives may repeat itself */

typedef struct {
    uint64_t bit[STORY_FACT_WORDS];
} StoryFacts;

typedef struct {
    StoryFacts need, forbid, set;
} StoryGuard;

typedef enum {
    STORY_OP_END,
    STORY_OP_TEXT,   /* arg: offset in text, length */
    STORY_OP_BOUND,  /* arg: bound text */
    STORY_OP_CELL,   /* arg: role, length: column */
    STORY_OP_CHOICE, /* arg: choice */
} StoryOpKind;

/* Apply to the next text that appears: a capital in any case, a or an in front, or no capital in
 * spite of what stands before (a slot behind a closing quote of its own template). */
enum { STORY_CAPITAL = 1, STORY_ARTICLE = 2, STORY_LOWER = 4 };

typedef struct {
    uint8_t kind;
    uint8_t flags; /* STORY_CAPITAL, STORY_ARTICLE, STORY_LOWER */
    uint16_t length;
    uint32_t arg;
} StoryOp;

/* A line, an inline alternative or a row. Its number is also its place in the set of used ones. */
typedef struct {
    uint32_t program; /* first op; of a row: first entry in cells */
    uint32_t guard;   /* 0: none */
} StoryAlternative;

/* Candidates are alternatives in list[first .. first + count). */
typedef struct {
    uint32_t first, count;
} StoryChoice;

typedef enum { STORY_PICK_ROW, STORY_PICK_TEXT, STORY_PICK_FACT } StoryPickKind;

typedef struct {
    StoryPickKind kind;
    uint32_t target;    /* role, bound text, or fact */
    StoryChoice choice; /* rows that have the wanted tags, or what the bound text becomes */
} StoryPick;

/* The table of one role: its first row among the alternatives, and the facts that each row sets. */
typedef struct {
    uint32_t first_row;
    StoryFacts *row_sets;
} StoryRole;

typedef struct {
    uint32_t first_pick, picks;
    uint32_t program;
} StoryPlot;

typedef struct {
    char *text;
    StoryOp *ops;
    StoryAlternative *alternatives;
    uint32_t alternatives_count;
    uint32_t *list;  /* numbers of alternatives */
    uint32_t *cells; /* programs of the cells of all rows */
    StoryChoice *choices;
    StoryGuard *guards;
    StoryRole *roles;
    StoryPick *picks;
    StoryPlot *plots;
    uint32_t plots_count;
    uint32_t rules_count; /* choices below this are rules, the others are inline */
    uint32_t facts_count, texts_count, roles_count;
    char **fact_names, **text_names, **role_names, **rule_names, **plot_names;
} StoryGrammar;

/* A file of content; lists of them end with one whose name is NULL. */
typedef struct {
    const char *name, *text;
} StoryText;

/* The files of stories/, which the build puts into the program (cmake/Embed.cmake). */
extern const StoryText stories_texts[];

/* Compiles files. Content is part of the program: an unknown name, a rule that nothing refers to, a
 * fact that nothing sets or a row of the wrong length is a broken contract. The grammar is kept. */
StoryGrammar *stories_compile(const StoryText *files);

/* Tells one story drawn from the random state into out. Returns its bytes, newline included. facts,
 * if not NULL, receives what was true at the end; which, if not NULL, the number of the plot. */
size_t stories_tell(const StoryGrammar *grammar, uint64_t state, char *out, size_t capacity,
                    StoryFacts *facts, uint32_t *which);

/* The compiled built-in content, made on first use and kept. */
const StoryGrammar *stories_grammar(void);

static inline bool story_ends_sentence(char c)
{
    return c == '.' || c == '!' || c == '?';
}

static inline bool story_is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static inline bool story_facts_within(const StoryFacts *part, const StoryFacts *all)
{
    uint64_t missing = 0;
    for (int i = 0; i < STORY_FACT_WORDS; i++) {
        missing |= part->bit[i] & ~all->bit[i];
    }
    return missing == 0;
}

static inline bool story_facts_meet(const StoryFacts *a, const StoryFacts *b)
{
    uint64_t common = 0;
    for (int i = 0; i < STORY_FACT_WORDS; i++) {
        common |= a->bit[i] & b->bit[i];
    }
    return common != 0;
}

static inline void story_facts_join(StoryFacts *all, const StoryFacts *part)
{
    for (int i = 0; i < STORY_FACT_WORDS; i++) {
        all->bit[i] |= part->bit[i];
    }
}
