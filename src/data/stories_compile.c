#include "data/stories_compiler.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define SLOT_MAX 64

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
    StoryArray table_of_role;  /* uint32_t by role: its table */
    StoryArray phrases;        /* StoryPhrase: what is to be put in other words */
    uint32_t phrase_from[256]; /* by first character: 1 + a phrase, the head of a chain; 0: none */
    bool rephrase;             /* whether to do so in the template being compiled */
    const StoryLine *at;       /* what is being compiled, for messages */
    bool *rule_used;           /* by rule: something refers to it */
    bool set[STORY_FACTS_MAX], asked[STORY_FACTS_MAX]; /* facts that something sets, needs */
    /* What becomes the StoryGrammar. */
    StoryArray text, ops, alternatives, list, cells, choices, guards, picks, plots;
} StoryCompiler;

/* The table that a role picks from. */
static const StoryTableInfo *role_table(const StoryCompiler *c, uint32_t role)
{
    uint32_t table = ((const uint32_t *)c->table_of_role.data)[role];
    return (const StoryTableInfo *)c->table_info.data + table;
}

/* ---- The inside of a template ----
 *
 * A sequence of texts, slots and choices becomes a program of ops. Nested
 * sequences are gathered in a list of their own and appended when complete, so that each program
 * and each choice is one contiguous range. */

/* The number of a fact, new or known. */
static uint32_t compile_fact(StoryCompiler *c, const char *name, size_t length)
{
    uint32_t number = story_names_add(&c->facts, name, length);
    PACER_ASSERT(number < STORY_FACTS_MAX, "too many facts, at %.*s", (int)length, name);
    return number;
}

static void fact_set(StoryFacts *facts, uint32_t number)
{
    facts->bit[number / 64] |= UINT64_C(1) << (number % 64);
}

/* Parses "rain !home +wet". A role other than "" goes in front of the facts that are set, which is
 * how one table serves several roles. */
static StoryGuard compile_guard(StoryCompiler *c, const char *text, size_t length, const char *role)
{
    StoryGuard guard = {0};
    for (size_t i = 0; i < length;) {
        size_t end = i + strcspn(text + i, " >");
        end = end < length ? end : length;
        char sign = text[i];
        size_t begin = i + (sign == '!' || sign == '+');
        PACER_ASSERT(end > begin, "%s:%u: empty fact", c->at->file, c->at->line);
        char name[2 * SLOT_MAX];
        bool plain = sign != '+' || *role == '\0' || strncmp(text + begin, "any_", 4) == 0;
        size_t prefix = plain ? 0 : strlen(role) + 1;
        size_t size = prefix + end - begin;
        PACER_ASSERT(size < sizeof name, "%s:%u: fact too long", c->at->file, c->at->line);
        if (!plain) {
            memcpy(name, role, prefix - 1);
            name[prefix - 1] = '.';
        }
        memcpy(name + prefix, text + begin, end - begin);
        uint32_t number = compile_fact(c, name, size);
        if (sign == '+') {
            fact_set(&guard.set, number);
            c->set[number] = true;
        } else {
            fact_set(sign == '!' ? &guard.forbid : &guard.need, number);
            c->asked[number] = true;
        }
        i = end + strspn(text + end, " ");
    }
    return guard;
}

/* The same without a role, kept: returns the number of the guard, 0 for an empty one. */
static uint32_t keep_guard(StoryCompiler *c, const char *text, size_t length)
{
    if (length == 0) {
        return 0;
    }
    StoryGuard guard = compile_guard(c, text, length, "");
    story_array_push(&c->guards, &guard, 1, sizeof guard);
    return c->guards.count - 1;
}

/* The column that "" (the first one) or a dot and a name stands for; UINT32_MAX: there is none. */
static uint32_t find_column(const StoryCompiler *c, uint32_t role, const char *tail)
{
    const StoryItem *table = role_table(c, role)->source;
    uint32_t column = 0;
    while (*tail != '\0' && column < table->columns &&
           strcmp(story_lines(&c->source, table)[column].text, tail + 1) != 0) {
        column++;
    }
    return column < table->columns ? column : UINT32_MAX;
}

static StoryOp resolve_slot(StoryCompiler *c, const char *slot, size_t length)
{
    char name[SLOT_MAX];
    PACER_ASSERT(length > 0 && length < sizeof name, "%s:%u: bad slot", c->at->file, c->at->line);
    memcpy(name, slot, length);
    name[length] = '\0';
    uint8_t flags = 0;
    if (name[0] >= 'A' && name[0] <= 'Z') {
        flags = STORY_CAPITAL;
        name[0] = (char)(name[0] - 'A' + 'a');
    }
    uint32_t text = story_names_find(&c->texts, name, length);
    if (text != UINT32_MAX) {
        return (StoryOp){STORY_OP_BOUND, flags, 0, text};
    }
    uint32_t rule = story_names_find(&c->rules, name, length);
    size_t role_length = strcspn(name, ".");
    uint32_t role = story_names_find(&c->roles, name, role_length);
    uint32_t column = role == UINT32_MAX ? UINT32_MAX : find_column(c, role, name + role_length);
    if (rule != UINT32_MAX) {
        PACER_ASSERT(column == UINT32_MAX, "%s:%u: {%s} is a rule and a column of a role",
                     c->at->file, c->at->line, name);
        c->rule_used[rule] = true;
        return (StoryOp){STORY_OP_CHOICE, flags, 0, rule};
    }
    PACER_ASSERT(role != UINT32_MAX, "%s:%u: unknown {%s}", c->at->file, c->at->line, name);
    PACER_ASSERT(column != UINT32_MAX, "%s:%u: unknown column {%s}", c->at->file, c->at->line,
                 name);
    return (StoryOp){STORY_OP_CELL, flags, (uint16_t)column, role};
}

static uint32_t parse_sequence(StoryCompiler *c, const char **cursor, bool nested);

/* Parses "<guard>x", where the guard may be missing. */
static uint32_t parse_alternative(StoryCompiler *c, const char **cursor, bool nested)
{
    StoryAlternative alternative = {0};
    if (**cursor == '<') {
        size_t length = strcspn(*cursor, ">");
        PACER_ASSERT((*cursor)[length] == '>', "%s:%u: guard without end", c->at->file,
                     c->at->line);
        alternative.guard = keep_guard(c, *cursor + 1, length - 1);
        *cursor += length + 1;
    }
    alternative.program = parse_sequence(c, cursor, nested);
    story_array_push(&c->alternatives, &alternative, 1, sizeof alternative);
    return c->alternatives.count - 1;
}

/* Parses "x|y|z]" behind an opening bracket. */
static uint32_t parse_choice(StoryCompiler *c, const char **cursor)
{
    StoryArray numbers = {0};
    do {
        uint32_t number = parse_alternative(c, cursor, true);
        story_array_push(&numbers, &number, 1, sizeof number);
    } while (*(*cursor)++ == '|');
    StoryChoice choice = {c->list.count, numbers.count};
    story_array_push(&c->list, numbers.data, numbers.count, sizeof(uint32_t));
    story_array_push(&c->choices, &choice, 1, sizeof choice);
    free(numbers.data);
    return c->choices.count - 1;
}

static bool is_word(char c)
{
    return story_is_lower(c) || (c >= 'A' && c <= 'Z') || c == '\'' || c == '-';
}

/* Appends text with capitals where sentences start inside it: behind a full stop and a space, and
 * behind an opening quote. Its own first letter is decided when the story is told. */
static void add_text(StoryCompiler *c, StoryArray *ops, const char *text, size_t length)
{
    if (length == 0) {
        return;
    }
    StoryOp op = {STORY_OP_TEXT, 0, (uint16_t)length, c->text.count};
    story_array_push(&c->text, text, (uint32_t)length, 1);
    char *copy = (char *)c->text.data + op.arg;
    for (size_t i = 1; i < length; i++) {
        bool sentence = i > 1 && copy[i - 1] == ' ' && story_ends_sentence(copy[i - 2]);
        bool quote = copy[i - 1] == '"'; /* a closing one is followed by no letter */
        if ((sentence || quote) && story_is_lower(copy[i])) {
            copy[i] = (char)(copy[i] - 'a' + 'A');
        }
    }
    story_array_push(ops, &op, 1, sizeof op);
}

static bool is_capital(char c)
{
    return c >= 'A' && c <= 'Z' && c != 'I'; /* I is a word of its own, never lowered */
}

/* The longer of best and the longest phrase of the chain that starts at text, but for its first
 * character, which the chain stands for. limit: bytes of text. */
static const StoryPhrase *search_chain(const StoryCompiler *c, uint32_t chain, const char *text,
                                       size_t limit, const StoryPhrase *best)
{
    while (chain != 0) {
        const StoryPhrase *phrase = (const StoryPhrase *)c->phrases.data + chain - 1;
        size_t length = phrase->length;
        chain = phrase->next;
        if (length <= limit && (best == NULL || length > best->length) &&
            memcmp(phrase->text + 1, text + 1, length - 1) == 0 &&
            (length == limit || !is_word(text[length - 1]) || !is_word(text[length]))) {
            best = phrase;
        }
    }
    return best;
}

/* The longest phrase to put in other words that starts at text; NULL if there is none. A capital in
 * the text matches a small letter too; a capital in the phrase only one that no quote is before. */
static const StoryPhrase *find_phrase(const StoryCompiler *c, const char *text, size_t limit,
                                      char before)
{
    const StoryPhrase *best = NULL;
    if (!is_capital(text[0]) || before != '"') {
        best = search_chain(c, c->phrase_from[(unsigned char)text[0]], text, limit, best);
    }
    if (is_capital(text[0])) {
        best = search_chain(c, c->phrase_from[text[0] - 'A' + 'a'], text, limit, best);
    }
    return best;
}

/* Bytes of an article, with its space, at the end of text. */
static size_t article_before(const char *text, size_t length)
{
    static const char *const articles[] = {"a ", "an ", "A ", "An "};
    for (size_t i = 0; i < 4; i++) {
        size_t size = strlen(articles[i]);
        if (length >= size && memcmp(text + length - size, articles[i], size) == 0 &&
            (length == size || !is_word(text[length - size - 1]))) {
            return size;
        }
    }
    return 0;
}

/* Flags of a slot or choice behind text: what an article there asks for, and no capital behind a
 * closing quote of this template, as in `"{wow}!" {he} said`. *article: bytes to take off text. */
static uint8_t flags_behind(const char *text, size_t length, size_t *article)
{
    *article = article_before(text, length);
    if (*article > 0) {
        return STORY_ARTICLE | (text[length - *article] == 'A' ? STORY_CAPITAL : 0);
    }
    bool quoted = length >= 2 && text[length - 1] == ' ' && text[length - 2] == '"' &&
                  (length == 2 || story_ends_sentence(text[length - 3]));
    return quoted ? STORY_LOWER : 0;
}

/* Appends a stretch of a template without slots, with its phrases turned into choices. */
static void add_words(StoryCompiler *c, StoryArray *ops, const char *text, size_t length)
{
    size_t done = 0;
    for (size_t i = 0; c->rephrase && i < length; i++) {
        if (i > 0 && is_word(text[i]) && is_word(text[i - 1])) {
            continue;
        }
        const StoryPhrase *phrase =
            find_phrase(c, text + i, length - i, i > 0 ? text[i - 1] : '\0');
        if (phrase == NULL) {
            continue;
        }
        size_t article;
        StoryOp op = {STORY_OP_CHOICE, 0, 0, phrase->rule};
        c->rule_used[phrase->rule] = true;
        op.flags = flags_behind(text + done, i - done, &article);
        if (is_capital(text[i])) {
            op.flags = STORY_CAPITAL;
        }
        add_text(c, ops, text + done, i - done - article);
        story_array_push(ops, &op, 1, sizeof op);
        i += phrase->length - 1;
        done = i + 1;
    }
    add_text(c, ops, text + done, length - done);
}

/* Compiles up to the end of text, or, nested, up to | or ]. Returns the first op. */
static uint32_t parse_sequence(StoryCompiler *c, const char **cursor, bool nested)
{
    StoryArray ops = {0};
    const char *p = *cursor;
    for (;;) {
        size_t length = strcspn(p, "{[]|<>}");
        size_t article;
        uint8_t flags = flags_behind(p, length, &article);
        bool open = p[length] == '{' || p[length] == '[';
        add_words(c, &ops, p, length - (open ? article : 0));
        p += length;
        if (*p == '{') {
            size_t size = strcspn(p, "}");
            PACER_ASSERT(p[size] == '}', "%s:%u: slot without end", c->at->file, c->at->line);
            StoryOp op = resolve_slot(c, p + 1, size - 1);
            op.flags |= flags;
            story_array_push(&ops, &op, 1, sizeof op);
            p += size + 1;
        } else if (*p == '[') {
            p++;
            StoryOp op = {STORY_OP_CHOICE, flags, 0, parse_choice(c, &p)};
            story_array_push(&ops, &op, 1, sizeof op);
        } else {
            break;
        }
    }
    PACER_ASSERT(nested ? *p == '|' || *p == ']' : *p == '\0', "%s:%u: unexpected '%c' in \"%s\"",
                 c->at->file, c->at->line, *p, c->at->text);
    StoryOp end = {STORY_OP_END, 0, 0, 0};
    story_array_push(&ops, &end, 1, sizeof end);
    uint32_t first = c->ops.count;
    story_array_push(&c->ops, ops.data, ops.count, sizeof end);
    free(ops.data);
    *cursor = p;
    return first;
}

/* Compiles a template; returns its first op. */
static uint32_t compile_text(StoryCompiler *c, const StoryLine *line)
{
    const char *text = line->text;
    c->at = line;
    return parse_sequence(c, &text, false);
}

/* Compiles a template that may begin with a <guard>; returns the number of the alternative. */
static uint32_t compile_line(StoryCompiler *c, const StoryLine *line)
{
    const char *text = line->text;
    c->at = line;
    return parse_alternative(c, &text, false);
}

/* ---- Rules, tables and plots ----
 *
 * Two passes. The first gives a number to every name: rules, tables, and the roles and bound texts
 * that plots pick. The second compiles what stands under the names, all names resolved. */

static void compile_rule(StoryCompiler *c, uint32_t rule)
{
    const StoryItem *source = (const StoryItem *)c->source.rules.data + rule;
    const StoryLine *lines = story_lines(&c->source, source);
    StoryArray numbers = {0};
    c->rephrase = source->name.text[0] != '~';
    for (uint32_t i = 0; i < source->lines; i++) {
        uint32_t number = compile_line(c, &lines[i]);
        story_array_push(&numbers, &number, 1, sizeof number);
    }
    StoryChoice choice = {c->list.count, numbers.count};
    story_array_push(&c->list, numbers.data, numbers.count, sizeof(uint32_t));
    ((StoryChoice *)c->choices.data)[rule] = choice;
    free(numbers.data);
}

/* Guard and cells of a row. */
static const StoryLine *row_lines(const StoryCompiler *c, const StoryTableInfo *table, uint32_t row)
{
    return story_lines(&c->source, table->source) + table->source->columns + row * table->width;
}

/* Rows become alternatives first and cells after, so that the rows of a table are neighbours. */
static void compile_table(StoryCompiler *c, StoryTableInfo *table)
{
    table->first_row = c->alternatives.count;
    for (uint32_t row = 0; row < table->rows; row++) {
        c->at = row_lines(c, table, row);
        StoryAlternative alternative = {row * (table->width - 1) + c->cells.count,
                                        keep_guard(c, c->at->text, strlen(c->at->text))};
        story_array_push(&c->alternatives, &alternative, 1, sizeof alternative);
    }
    for (uint32_t row = 0; row < table->rows; row++) {
        for (uint32_t i = 1; i < table->width; i++) {
            c->rephrase = i > 1; /* names stay as they are */
            uint32_t program = compile_text(c, row_lines(c, table, row) + i);
            story_array_push(&c->cells, &program, 1, sizeof program);
        }
    }
}

static void register_picks(StoryCompiler *c, const StoryItem *plot)
{
    c->at = story_lines(&c->source, plot);
    StoryPickCursor cursor = {c->at->text, NULL};
    for (StoryPickText pick; story_next_pick(&c->source, c->at, &cursor, &pick);) {
        if (pick.kind == '=') {
            uint32_t text = story_names_add(&c->texts, pick.name, pick.name_length);
            PACER_ASSERT(text < STORY_TEXTS_MAX, "too many bound texts");
        } else if (pick.kind == ':') {
            uint32_t table = story_names_find(&c->tables, pick.from, pick.from_length);
            PACER_ASSERT(table != UINT32_MAX, "%s:%u: no table for %s", c->at->file, c->at->line,
                         pick.name);
            uint32_t role = story_names_add(&c->roles, pick.name, pick.name_length);
            PACER_ASSERT(role < STORY_ROLES_MAX, "too many roles");
            if (role == c->table_of_role.count) {
                story_array_push(&c->table_of_role, &table, 1, sizeof table);
            }
            PACER_ASSERT(((uint32_t *)c->table_of_role.data)[role] == table,
                         "%s:%u: role %s has another table elsewhere", c->at->file, c->at->line,
                         pick.name);
        }
    }
}

/* The rows whose guard sets all wanted tags and none that is refused. */
static StoryChoice rows_with_tags(StoryCompiler *c, const StoryTableInfo *table,
                                  const StoryPickText *pick)
{
    StoryGuard wanted = compile_guard(c, pick->tags, pick->tags_length, "");
    StoryChoice choice = {c->list.count, 0};
    for (uint32_t row = 0; row < table->rows; row++) {
        uint32_t number = table->first_row + row;
        uint32_t guard = ((StoryAlternative *)c->alternatives.data)[number].guard;
        StoryFacts set = guard == 0 ? (StoryFacts){0} : ((StoryGuard *)c->guards.data)[guard].set;
        if (story_facts_within(&wanted.need, &set) && !story_facts_meet(&wanted.forbid, &set)) {
            story_array_push(&c->list, &number, 1, sizeof number);
            choice.count++;
        }
    }
    PACER_ASSERT(choice.count > 0, "%s:%u: no row of table %s fits %.*s", c->at->file, c->at->line,
                 table->source->name.text, (int)pick->tags_length, pick->tags);
    return choice;
}

static void compile_plot(StoryCompiler *c, const StoryItem *source)
{
    const StoryLine *lines = story_lines(&c->source, source);
    StoryPlot plot = {.first_pick = c->picks.count};
    c->at = &lines[0];
    StoryPickCursor cursor = {lines[0].text, NULL};
    for (StoryPickText text; story_next_pick(&c->source, c->at, &cursor, &text);) {
        StoryPick pick = {0};
        if (text.kind == '+') {
            pick.kind = STORY_PICK_FACT;
            pick.target = compile_fact(c, text.name, text.name_length);
            c->set[pick.target] = true;
        } else if (text.kind == '=') {
            uint32_t rule = story_names_find(&c->rules, text.from, text.from_length);
            PACER_ASSERT(rule != UINT32_MAX, "%s:%u: no rule for %s", c->at->file, c->at->line,
                         text.name);
            c->rule_used[rule] = true;
            pick.kind = STORY_PICK_TEXT;
            pick.target = story_names_find(&c->texts, text.name, text.name_length);
            pick.choice = ((StoryChoice *)c->choices.data)[rule];
        } else {
            pick.kind = STORY_PICK_ROW;
            pick.target = story_names_find(&c->roles, text.name, text.name_length);
            pick.choice = rows_with_tags(c, role_table(c, pick.target), &text);
        }
        story_array_push(&c->picks, &pick, 1, sizeof pick);
        plot.picks++;
    }
    c->rephrase = true;
    plot.program = compile_text(c, &lines[1]);
    story_array_push(&c->plots, &plot, 1, sizeof plot);
}

static void compile_roles(StoryCompiler *c, StoryGrammar *g)
{
    g->roles = mem_zalloc(c->roles.count, sizeof *g->roles);
    for (uint32_t role = 0; role < c->roles.count; role++) {
        const StoryTableInfo *table = role_table(c, role);
        bool plain = strcmp(c->roles.name[role], table->source->name.text) == 0;
        StoryFacts *sets = mem_zalloc(table->rows, sizeof *sets);
        for (uint32_t row = 0; row < table->rows; row++) {
            c->at = row_lines(c, table, row);
            const char *name = plain ? "" : c->roles.name[role];
            sets[row] = compile_guard(c, c->at->text, strlen(c->at->text), name).set;
        }
        g->roles[role] = (StoryRole){table->first_row, sets};
    }
    g->roles_count = c->roles.count;
}

static void register_name(StoryNames *names, const StoryItem *item, const char *kind)
{
    uint32_t count = names->count;
    uint32_t number = story_names_add(names, item->name.text, strlen(item->name.text));
    PACER_ASSERT(number == count, "%s:%u: %s %s is there twice", item->name.file, item->name.line,
                 kind, item->name.text);
}

static void register_phrase(StoryCompiler *c, uint32_t rule, const char *text)
{
    uint32_t *head = &c->phrase_from[(unsigned char)text[0]];
    StoryPhrase phrase = {rule, *head, strlen(text), text};
    *head = c->phrases.count + 1;
    story_array_push(&c->phrases, &phrase, 1, sizeof phrase);
}

static void register_source(StoryCompiler *c)
{
    const StorySource *s = &c->source;
    for (uint32_t i = 0; i < s->rules.count; i++) {
        const StoryItem *rule = (const StoryItem *)s->rules.data + i;
        register_name(&c->rules, rule, "rule");
        if (rule->name.text[0] == '~') {
            register_phrase(c, i, rule->name.text + 1);
        }
    }
    for (uint32_t i = 0; i < s->tables.count; i++) {
        const StoryItem *table = (const StoryItem *)s->tables.data + i;
        register_name(&c->tables, table, "table");
        StoryTableInfo info = {.source = table, .width = table->columns + 1};
        info.rows = (table->lines - table->columns) / info.width;
        story_array_push(&c->table_info, &info, 1, sizeof info);
    }
    for (uint32_t i = 0; i < s->plots.count; i++) {
        const StoryItem *plot = (const StoryItem *)s->plots.data + i;
        register_name(&c->plot_names, plot, "plot");
        register_picks(c, plot);
    }
}

static void compile_source(StoryCompiler *c)
{
    StoryGuard none = {0};
    story_array_push(&c->guards, &none, 1, sizeof none);
    c->rule_used = mem_zalloc(c->rules.count, sizeof *c->rule_used);
    for (uint32_t i = 0; i < c->rules.count; i++) {
        StoryChoice later = {0};
        story_array_push(&c->choices, &later, 1, sizeof later);
    }
    for (uint32_t i = 0; i < c->tables.count; i++) {
        compile_table(c, (StoryTableInfo *)c->table_info.data + i);
    }
    for (uint32_t i = 0; i < c->rules.count; i++) {
        compile_rule(c, i);
    }
    for (uint32_t i = 0; i < c->source.plots.count; i++) {
        compile_plot(c, (const StoryItem *)c->source.plots.data + i);
    }
}

StoryGrammar *stories_compile(const StoryText *files)
{
    StoryCompiler c = {.source = stories_parse(files)};
    register_source(&c);
    compile_source(&c);

    StoryGrammar *g = mem_zalloc(1, sizeof *g);
    compile_roles(&c, g);
    for (uint32_t i = 0; i < c.rules.count; i++) {
        const StoryLine *name = &((const StoryItem *)c.source.rules.data)[i].name;
        PACER_ASSERT(c.rule_used[i], "%s:%u: nothing refers to the rule %s", name->file, name->line,
                     name->text);
    }
    for (uint32_t i = 0; i < c.facts.count; i++) {
        PACER_ASSERT(!c.asked[i] || c.set[i], "nothing sets the fact %s", c.facts.name[i]);
    }
    g->text = c.text.data;
    g->ops = c.ops.data;
    g->alternatives = c.alternatives.data;
    g->alternatives_count = c.alternatives.count;
    g->list = c.list.data;
    g->cells = c.cells.data;
    g->choices = c.choices.data;
    g->guards = c.guards.data;
    g->picks = c.picks.data;
    g->plots = c.plots.data;
    g->plots_count = c.plots.count;
    g->rules_count = c.rules.count;
    g->facts_count = c.facts.count;
    g->texts_count = c.texts.count;
    g->rule_names = story_names_release(&c.rules);
    g->fact_names = story_names_release(&c.facts);
    g->role_names = story_names_release(&c.roles);
    g->text_names = story_names_release(&c.texts);
    g->plot_names = story_names_release(&c.plot_names);
    mem_free_list(story_names_release(&c.tables), c.table_info.count);
    free(c.phrases.data);
    free(c.rule_used);
    free(c.table_info.data);
    free(c.table_of_role.data);
    story_source_free(&c.source);
    return g;
}
