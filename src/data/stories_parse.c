#include "data/stories_compiler.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* The text files of stories/ into items with their lines, as stories/README.md has it. What stands
 * inside a template is not looked at, except that a | within brackets belongs to a choice. */

#define INDENT 4

typedef enum { RULE, TABLE, PLOT, PICKS } ItemKind;

typedef struct {
    StorySource *source;
    const char *file, *next; /* next: what is not read yet */
    uint32_t line;           /* number of the line just read, from 1 */
    const char *text;        /* the line just read, without spaces around it */
    size_t length, indent;
    ItemKind kind;
    StoryItem item;        /* being read */
    bool open_end;         /* a phrase that is matched with the space behind it */
    StoryArray pending;    /* char: a line of the item with all that continues it */
    uint32_t pending_line; /* where that began */
} Parser;

/* The next line that is no comment; false behind the last. */
static bool read_line(Parser *p)
{
    do {
        if (*p->next == '\0') {
            return false;
        }
        size_t size = strcspn(p->next, "\n");
        p->line++;
        PACER_ASSERT(strcspn(p->next, "\t\r\n") == size,
                     "%s:%u: a tab or a carriage return; use spaces and plain line ends", p->file,
                     p->line);
        p->indent = strspn(p->next, " ");
        p->text = p->next + p->indent;
        p->length = size - p->indent;
        while (p->length > 0 && p->text[p->length - 1] == ' ') {
            p->length--;
        }
        p->next += size + (p->next[size] == '\n');
    } while (p->length > 0 && p->text[0] == '#');
    return true;
}

/* Keeps guard, text and end as one string. Each comes from text that has a separator behind it, so
 * that all strings take less than twice the bytes of the files. */
static StoryLine keep(Parser *p, const char *guard, size_t guard_length, const char *text,
                      size_t length, const char *end)
{
    StorySource *s = p->source;
    size_t end_length = strlen(end), size = guard_length + length + end_length + 1;
    PACER_ASSERT(size <= s->text_size - s->text_used, "%s:%u: no room", p->file, p->line);
    char *copy = s->text + s->text_used;
    memcpy(copy, guard, guard_length);
    memcpy(copy + guard_length, text, length);
    memcpy(copy + guard_length + length, end, end_length + 1);
    s->text_used += size;
    return (StoryLine){copy, p->file, p->pending_line};
}

static void add_line(Parser *p, StoryLine line)
{
    story_array_push(&p->source->lines, &line, 1, sizeof line);
    p->item.lines++;
}

/* Bytes up to a | outside of brackets, or to the end. */
static size_t piece_length(const char *text, size_t length)
{
    int depth = 0;
    for (size_t i = 0; i < length; i++) {
        depth += (text[i] == '[') - (text[i] == ']');
        if (text[i] == '|' && depth == 0) {
            return i;
        }
    }
    return length;
}

/* One alternative of a rule or one cell of a row, "-" for nothing. In front may be a <guard>: it
 * stays with the alternative, and is a line of its own in front of a row. */
static void add_piece(Parser *p, const char *text, size_t length, bool starts_row)
{
    while (length > 0 && text[0] == ' ') {
        text++;
        length--;
    }
    while (length > 0 && text[length - 1] == ' ') {
        length--;
    }
    PACER_ASSERT(length > 0, "%s:%u: nothing between two |; write - for an empty text", p->file,
                 p->pending_line);
    const char *guard = text;
    size_t guard_length = 0;
    if (text[0] == '<' && (p->kind == RULE || starts_row)) {
        const char *close = memchr(text, '>', length);
        PACER_ASSERT(close != NULL, "%s:%u: guard without end", p->file, p->pending_line);
        guard_length = (size_t)(close + 1 - text);
        text += guard_length;
        length -= guard_length;
        while (length > 0 && text[0] == ' ') {
            text++;
            length--;
        }
    }
    if (length == 1 && text[0] == '-') {
        length = 0;
    }
    if (starts_row) {
        bool none = guard_length == 0;
        add_line(p, keep(p, guard + 1, none ? 0 : guard_length - 2, "", 0, ""));
        guard_length = 0;
    }
    add_line(p, keep(p, guard, guard_length, text, length, p->open_end ? " " : ""));
}

/* The pending text is complete. */
static void end_line(Parser *p)
{
    const char *text = p->pending.data;
    size_t length = p->pending.count;
    if (p->kind == PLOT || p->kind == PICKS) {
        add_line(p, keep(p, "", 0, length > 0 ? text : "", length, ""));
    } else if (length > 0) {
        uint32_t pieces = 0;
        for (size_t begin = 0; begin <= length; pieces++) {
            size_t size = piece_length(text + begin, length - begin);
            add_piece(p, text + begin, size, p->kind == TABLE && pieces == 0);
            begin += size + 1;
        }
        PACER_ASSERT(p->kind == RULE || pieces == p->item.columns,
                     "%s:%u: a row of %u cells in table %s, which has %u columns", p->file,
                     p->pending_line, pieces, p->item.name.text, p->item.columns);
    }
    p->pending.count = 0;
}

static void add_pending(Parser *p, const char *join, const char *text, size_t length)
{
    if (p->pending.count > 0) {
        story_array_push(&p->pending, join, (uint32_t)strlen(join), 1);
    } else {
        p->pending_line = p->line;
    }
    story_array_push(&p->pending, text, (uint32_t)length, 1);
}

/* The indented lines below a heading, with blank ones between them. Returns whether another line
 * was read. In a rule or table, deeper lines go on with the one before; in a plot, all lines of a
 * paragraph do, and its first paragraph is its picks. */
static bool parse_body(Parser *p)
{
    bool more, blank = false;
    while ((more = read_line(p)) && (p->length == 0 || p->indent > 0)) {
        if (p->length == 0) {
            blank = true;
            continue;
        }
        PACER_ASSERT(p->indent >= INDENT, "%s:%u: indent by %d spaces", p->file, p->line, INDENT);
        bool prose = p->kind == PLOT || p->kind == PICKS;
        bool continues = prose ? !blank || p->item.lines > 0 : !blank && p->indent > INDENT;
        if (!continues) {
            end_line(p);
        }
        add_pending(p, blank ? "\n\n" : " ", p->text, p->length);
        blank = false;
    }
    end_line(p);
    return more;
}

/* The columns of a table, which stand behind its name. */
static void parse_columns(Parser *p, const char *text, size_t length)
{
    p->kind = RULE; /* so far, pieces without a guard */
    add_pending(p, "", text, length);
    end_line(p);
    p->kind = TABLE;
    p->item.columns = p->item.lines;
}

/* Reads "NAME: text", "table NAME: columns", "plot NAME:" or "picks NAME:" and what belongs to it.
 * Returns whether another line was read. */
static bool parse_item(Parser *p)
{
    static const char *const words[] = {[TABLE] = "table ", [PLOT] = "plot ", [PICKS] = "picks "};
    StorySource *s = p->source;
    StoryArray *const lists[] = {&s->rules, &s->tables, &s->plots, &s->picks};
    const char *colon = memchr(p->text, ':', p->length);
    PACER_ASSERT(colon != NULL && p->indent == 0,
                 "%s:%u: not a line \"NAME: ...\", nor indented below one", p->file, p->line);
    const char *name = p->text, *rest = colon + 1;
    p->kind = RULE;
    for (ItemKind kind = TABLE; kind <= PICKS; kind++) {
        if (strncmp(name, words[kind], strlen(words[kind])) == 0) {
            p->kind = kind;
            name += strlen(words[kind]);
        }
    }
    size_t length = (size_t)(colon - name);
    p->open_end = p->kind == RULE && length > 4 && memcmp(colon - 4, " ...", 4) == 0;
    length -= p->open_end ? 3 : 0;
    PACER_ASSERT(length > 0, "%s:%u: no name in front of the colon", p->file, p->line);
    p->pending_line = p->line;
    p->item = (StoryItem){keep(p, "", 0, name, length, ""), s->lines.count, 0, 0};
    rest += strspn(rest, " ");
    size_t rest_length = rest < p->text + p->length ? (size_t)(p->text + p->length - rest) : 0;
    if (p->kind == TABLE) {
        parse_columns(p, rest, rest_length);
    } else if (rest_length > 0) {
        add_pending(p, "", rest, rest_length);
    }
    bool more = parse_body(p);
    bool whole = p->kind == PLOT    ? p->item.lines == 2
                 : p->kind == PICKS ? p->item.lines == 1
                                    : p->item.lines > p->item.columns;
    PACER_ASSERT(whole, "%s:%u: %s is not complete", p->file, p->item.name.line, p->item.name.text);
    story_array_push(lists[p->kind], &p->item, 1, sizeof p->item);
    return more;
}

StorySource stories_parse(const StoryText *files)
{
    StorySource source = {0};
    for (const StoryText *file = files; file->name != NULL; file++) {
        source.text_size += 2 * strlen(file->text) + 2;
    }
    source.text = mem_alloc(source.text_size);
    for (const StoryText *file = files; file->name != NULL; file++) {
        Parser p = {.source = &source, .file = file->name, .next = file->text};
        for (bool more = read_line(&p); more;) {
            more = p.length == 0 ? read_line(&p) : parse_item(&p);
        }
        free(p.pending.data);
    }
    return source;
}

void story_source_free(StorySource *source)
{
    free(source->rules.data);
    free(source->tables.data);
    free(source->plots.data);
    free(source->picks.data);
    free(source->lines.data);
    free(source->text);
}

/* Steps into a list of picks, or out of one at its end. */
static void follow_lists(const StorySource *s, const StoryLine *at, StoryPickCursor *cursor)
{
    for (;;) {
        cursor->next += strspn(cursor->next, " ");
        if (*cursor->next == '\0' && cursor->after != NULL) {
            *cursor = (StoryPickCursor){cursor->after, NULL};
            continue;
        }
        if (*cursor->next != '@') {
            return;
        }
        const char *name = cursor->next + 1, *picks = NULL;
        size_t length = strcspn(name, " ");
        for (uint32_t i = 0; i < s->picks.count; i++) {
            const StoryItem *list = (const StoryItem *)s->picks.data + i;
            if (strncmp(list->name.text, name, length) == 0 && list->name.text[length] == '\0') {
                picks = story_lines(s, list)->text;
            }
        }
        PACER_ASSERT(picks != NULL && cursor->after == NULL, "%s:%u: no picks @%.*s", at->file,
                     at->line, (int)length, name);
        *cursor = (StoryPickCursor){picks, name + length};
    }
}

bool story_next_pick(const StorySource *s, const StoryLine *at, StoryPickCursor *cursor,
                     StoryPickText *pick)
{
    follow_lists(s, at, cursor);
    const char *p = cursor->next;
    if (*p == '\0') {
        return false;
    }
    *pick = (StoryPickText){.name = p + (*p == '+'), .tags = ""};
    pick->kind = *p == '+' ? '+' : p[strcspn(p, ":=")];
    pick->name_length = strcspn(pick->name, ":= ");
    p = pick->name + pick->name_length;
    if (pick->kind != '+') {
        PACER_ASSERT(*p == ':' || *p == '=', "%s:%u: bad pick %s", at->file, at->line, pick->name);
        pick->from = p + 1;
        pick->from_length = strcspn(pick->from, "< ");
        p = pick->from + pick->from_length;
    }
    if (*p == '<') {
        pick->tags = p + 1;
        pick->tags_length = strcspn(pick->tags, ">");
        PACER_ASSERT(pick->tags[pick->tags_length] == '>', "%s:%u: bad pick %s", at->file, at->line,
                     pick->name);
        p = pick->tags + pick->tags_length + 1;
    }
    cursor->next = p;
    return true;
}

void story_array_push(StoryArray *array, const void *items, uint32_t count, size_t size)
{
    if (array->count + count > array->capacity) {
        array->capacity = 2 * (array->count + count) + 16;
        array->data = mem_realloc(array->data, array->capacity, size);
    }
    if (count > 0) {
        memcpy((char *)array->data + array->count * size, items, count * size);
    }
    array->count += count;
}

uint32_t story_names_find(const StoryNames *names, const char *name, size_t length)
{
    uint64_t number;
    bool found = names->numbers != NULL &&
                 word_table_find(names->numbers, (const uint8_t *)name, length, length, &number);
    return found ? (uint32_t)number - 1 : UINT32_MAX;
}

uint32_t story_names_add(StoryNames *names, const char *name, size_t length)
{
    names->numbers = names->numbers == NULL ? word_table_open(0) : names->numbers;
    uint64_t *number = word_table_at(names->numbers, (const uint8_t *)name, length);
    if (*number == 0) {
        names->name = mem_grow(names->name, names->count, &names->capacity, sizeof *names->name);
        names->name[names->count] = mem_format("%.*s", (int)length, name);
        *number = ++names->count;
    }
    return (uint32_t)*number - 1;
}

char **story_names_release(StoryNames *names)
{
    char **strings = names->name;
    word_table_close(names->numbers);
    *names = (StoryNames){0};
    return strings;
}
