#pragma once
/* Inside the compiler of story content: stories_parse.c reads the text files into items,
 * stories_compile.c knows what rules, tables and plots are, stories_template.c knows the inside of
 * a line. */
#include "data/stories_engine.h"

/* A growing list of items of one size. */
typedef struct {
    void *data;
    uint32_t count, capacity;
} StoryArray;

/* Appends count items of size bytes each. */
void story_array_push(StoryArray *array, const void *items, uint32_t count, size_t size);

/* A set of names, numbered in the order of their arrival. */
typedef struct {
    char **name;
    uint32_t count, capacity;
    uint32_t *bucket; /* 1 + number, open addressing */
    uint32_t buckets;
} StoryNames;

/* The number of the name, which need not end with a NUL; UINT32_MAX when it is not there. */
uint32_t story_names_find(const StoryNames *names, const char *name, size_t length);

/* The number of the name, added if it is new. */
uint32_t story_names_add(StoryNames *names, const char *name, size_t length);

/* Frees the index and hands the strings to the caller (story_strings_free). */
char **story_names_release(StoryNames *names);
void story_strings_free(char **strings, uint32_t count);

/* A name, a template, a guard or a list of picks, and where it was written. */
typedef struct {
    const char *text;
    const char *file;
    uint32_t line;
} StoryLine;

/* What stands under one heading. Its lines are, for a rule, what it may become; for a table its
 * columns, then row after row a guard without brackets and the cells; for a plot its picks and its
 * text; for a list of picks that list. */
typedef struct {
    StoryLine name;
    uint32_t first_line, lines;
    uint32_t columns; /* of a table */
} StoryItem;

typedef struct {
    StoryArray rules, tables, plots, picks; /* StoryItem */
    StoryArray lines;                       /* StoryLine */
    char *text;                             /* what lines and names point to */
    size_t text_used, text_size;
} StorySource;

/* Reads files in the format of stories/README.md; the last one has no name. A line that does not
 * follow it is a broken contract. */
StorySource stories_parse(const StoryText *files);
void story_source_free(StorySource *source);

static inline const StoryLine *story_lines(const StorySource *source, const StoryItem *item)
{
    return (const StoryLine *)source->lines.data + item->first_line;
}

typedef struct {
    const StoryItem *source;
    uint32_t first_row, rows, width; /* width: lines of a row, guard included */
} StoryTableInfo;

typedef struct {
    uint32_t rule;
    uint32_t next; /* 1 + the next phrase with the same first character; 0: none */
    size_t length;
    const char *text;
} StoryPhrase;

typedef struct {
    StorySource source;
    StoryNames rules, tables, roles, texts, facts, plot_names;
    StoryArray table_info;     /* StoryTableInfo by table */
    StoryArray role_table;     /* uint32_t by role: its table */
    StoryArray phrases;        /* StoryPhrase: what is to be put in other words */
    uint32_t phrase_from[256]; /* by first character: 1 + a phrase, the head of a chain; 0: none */
    bool rephrase;             /* whether to do so in the template being compiled */
    const StoryLine *at;       /* what is being compiled, for messages */
    bool *rule_used;           /* by rule: something refers to it */
    bool set[STORY_FACTS_MAX], asked[STORY_FACTS_MAX]; /* facts that something sets, needs */
    /* What becomes the StoryGrammar. */
    StoryArray text, ops, alternatives, list, cells, choices, guards, picks, plots;
} StoryCompiler;

/* The number of a fact, new or known. */
uint32_t story_compile_fact(StoryCompiler *c, const char *name, size_t length);

/* Parses "rain !home +wet". A role other than "" goes in front of the facts that are set, which is
 * how one table serves several roles. */
StoryGuard story_compile_guard(StoryCompiler *c, const char *text, size_t length, const char *role);

/* The same without a role, kept: returns the number of the guard, 0 for an empty one. */
uint32_t story_keep_guard(StoryCompiler *c, const char *text, size_t length);

/* Compiles a template; returns its first op. */
uint32_t story_compile_text(StoryCompiler *c, const StoryLine *line);

/* Compiles a template that may begin with a <guard>; returns the number of the alternative. */
uint32_t story_compile_line(StoryCompiler *c, const StoryLine *line);

/* The table that a role picks from. */
static inline const StoryTableInfo *story_role_table(const StoryCompiler *c, uint32_t role)
{
    uint32_t table = ((const uint32_t *)c->role_table.data)[role];
    return (const StoryTableInfo *)c->table_info.data + table;
}
