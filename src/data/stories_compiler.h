#pragma once
/* What the two halves of the compiler of story content share: stories_compile.c, which knows rules,
 * tables and plots, and stories_template.c, which knows the inside of a line. */
#include "data/stories_engine.h"
#include "data/stories_names.h"

typedef struct {
    const StoryTable *source;
    StoryNames columns;
    uint32_t first_row, rows, width; /* width: cells of a row, guard included */
} StoryTableInfo;

typedef struct {
    uint32_t rule;
    uint32_t next; /* 1 + the next phrase with the same first character; 0: none */
    size_t length;
    const char *text;
} StoryPhrase;

typedef struct {
    StoryNames rules, tables, roles, texts, facts, scripts;
    StoryArray rule_lines;     /* const StoryRule * by rule */
    StoryArray table_info;     /* StoryTableInfo by table */
    StoryArray plots;          /* const StoryPlot * by script */
    StoryArray role_table;     /* uint32_t by role: its table */
    StoryArray phrases;        /* StoryPhrase: what is to be put in other words */
    uint32_t phrase_from[256]; /* by first character: 1 + a phrase, the head of a chain; 0: none */
    bool rephrase;             /* whether to do so in the template being compiled */
    const char *where;         /* template being compiled, for messages */
    StoryArray rule_used;      /* bool by rule: something refers to it */
    bool set[STORY_FACTS_MAX], asked[STORY_FACTS_MAX]; /* facts that something sets, needs */
    /* What becomes the StoryGrammar. */
    StoryArray text, ops, alternatives, list, cells, choices, guards, picks, scripts_out;
} StoryCompiler;

/* The number of a fact, new or known. */
uint32_t story_compile_fact(StoryCompiler *c, const char *name, size_t length);

/* Parses "rain !home +wet". A role other than "" goes in front of the facts that are set, which is
 * how one table serves several roles. */
StoryGuard story_compile_guard(StoryCompiler *c, const char *text, size_t length, const char *role);

/* The same without a role, kept: returns the number of the guard, 0 for an empty one. */
uint32_t story_keep_guard(StoryCompiler *c, const char *text, size_t length);

/* Compiles a template; returns its first op. */
uint32_t story_compile_text(StoryCompiler *c, const char *text);

/* Compiles a template that may begin with a <guard>; returns the number of the alternative. */
uint32_t story_compile_line(StoryCompiler *c, const char *text);

/* The table that a role picks from. */
static inline const StoryTableInfo *story_role_table(const StoryCompiler *c, uint32_t role)
{
    uint32_t table = ((const uint32_t *)c->role_table.data)[role];
    return (const StoryTableInfo *)c->table_info.data + table;
}
