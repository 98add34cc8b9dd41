#pragma once
/* Inside the compiler of story content: stories_parse.c reads the text files into items,
 * stories_compile.c makes programs of them. */
#include "data/stories_engine.h"
#include "text/word_table.h"

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
    uint32_t count;
    size_t capacity;
    WordTable *numbers; /* 1 + the number; NULL: no name yet */
} StoryNames;

/* The number of the name, which need not end with a NUL; UINT32_MAX when it is not there. */
uint32_t story_names_find(const StoryNames *names, const char *name, size_t length);

/* The number of the name, added if it is new. */
uint32_t story_names_add(StoryNames *names, const char *name, size_t length);

/* Frees the index and hands the strings to the caller. */
char **story_names_release(StoryNames *names);

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

/* One word of a plot's picks, split: name, then ':', '=' or '+', then what it is picked from. */
typedef struct {
    const char *name, *from, *tags;
    size_t name_length, from_length, tags_length;
    char kind;
} StoryPickText;

/* Where the next pick begins, and where to go on behind a list that the plot names with @. */
typedef struct {
    const char *next, *after;
} StoryPickCursor;

/* The next one of the plot at `at`, in its own list or one that it names; false behind the last. */
bool story_next_pick(const StorySource *source, const StoryLine *at, StoryPickCursor *cursor,
                     StoryPickText *pick);
