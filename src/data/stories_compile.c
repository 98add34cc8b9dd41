#include "data/stories_compiler.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Two passes. The first gives a number to every name: rules, tables, and the roles and bound texts
 * that plots pick. The second compiles what stands under the names, all names resolved. */

static void compile_rule(StoryCompiler *c, uint32_t rule)
{
    const StoryItem *source = (const StoryItem *)c->source.rules.data + rule;
    const StoryLine *lines = story_lines(&c->source, source);
    StoryArray numbers = {0};
    c->rephrase = source->name.text[0] != '~';
    for (uint32_t i = 0; i < source->lines; i++) {
        uint32_t number = story_compile_line(c, &lines[i]);
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
                                        story_keep_guard(c, c->at->text, strlen(c->at->text))};
        story_array_push(&c->alternatives, &alternative, 1, sizeof alternative);
    }
    for (uint32_t row = 0; row < table->rows; row++) {
        for (uint32_t i = 1; i < table->width; i++) {
            c->rephrase = i > 1; /* names stay as they are */
            uint32_t program = story_compile_text(c, row_lines(c, table, row) + i);
            story_array_push(&c->cells, &program, 1, sizeof program);
        }
    }
}

/* One word of a plot's picks, split: name, then ':', '=' or '+', then what it is picked from. */
typedef struct {
    const char *name, *from, *tags;
    size_t name_length, from_length, tags_length;
    char kind;
} PickText;

/* Where the next pick begins, and where to go on behind a list that the plot names with @. */
typedef struct {
    const char *next, *after;
} PickCursor;

/* Steps into a list of picks, or out of one at its end. */
static void follow_lists(const StoryCompiler *c, PickCursor *cursor)
{
    for (;;) {
        cursor->next += strspn(cursor->next, " ");
        if (*cursor->next == '\0' && cursor->after != NULL) {
            *cursor = (PickCursor){cursor->after, NULL};
            continue;
        }
        if (*cursor->next != '@') {
            return;
        }
        const char *name = cursor->next + 1, *picks = NULL;
        size_t length = strcspn(name, " ");
        for (uint32_t i = 0; i < c->source.picks.count; i++) {
            const StoryItem *list = (const StoryItem *)c->source.picks.data + i;
            if (strncmp(list->name.text, name, length) == 0 && list->name.text[length] == '\0') {
                picks = story_lines(&c->source, list)->text;
            }
        }
        PACER_ASSERT(picks != NULL && cursor->after == NULL, "%s:%u: no picks @%.*s", c->at->file,
                     c->at->line, (int)length, name);
        *cursor = (PickCursor){picks, name + length};
    }
}

static bool next_pick(const StoryCompiler *c, PickCursor *cursor, PickText *pick)
{
    follow_lists(c, cursor);
    const char *p = cursor->next;
    if (*p == '\0') {
        return false;
    }
    *pick = (PickText){.name = p + (*p == '+'), .tags = ""};
    pick->kind = *p == '+' ? '+' : p[strcspn(p, ":=")];
    pick->name_length = strcspn(pick->name, ":= ");
    p = pick->name + pick->name_length;
    if (pick->kind != '+') {
        PACER_ASSERT(*p == ':' || *p == '=', "%s:%u: bad pick %s", c->at->file, c->at->line,
                     pick->name);
        pick->from = p + 1;
        pick->from_length = strcspn(pick->from, "< ");
        p = pick->from + pick->from_length;
    }
    if (*p == '<') {
        pick->tags = p + 1;
        pick->tags_length = strcspn(pick->tags, ">");
        PACER_ASSERT(pick->tags[pick->tags_length] == '>', "%s:%u: bad pick %s", c->at->file,
                     c->at->line, pick->name);
        p = pick->tags + pick->tags_length + 1;
    }
    cursor->next = p;
    return true;
}

static void register_picks(StoryCompiler *c, const StoryItem *plot)
{
    c->at = story_lines(&c->source, plot);
    PickCursor cursor = {c->at->text, NULL};
    for (PickText pick; next_pick(c, &cursor, &pick);) {
        if (pick.kind == '=') {
            uint32_t text = story_names_add(&c->texts, pick.name, pick.name_length);
            PACER_ASSERT(text < STORY_TEXTS_MAX, "too many bound texts");
        } else if (pick.kind == ':') {
            uint32_t table = story_names_find(&c->tables, pick.from, pick.from_length);
            PACER_ASSERT(table != UINT32_MAX, "%s:%u: no table for %s", c->at->file, c->at->line,
                         pick.name);
            uint32_t role = story_names_add(&c->roles, pick.name, pick.name_length);
            PACER_ASSERT(role < STORY_ROLES_MAX, "too many roles");
            if (role == c->role_table.count) {
                story_array_push(&c->role_table, &table, 1, sizeof table);
            }
            PACER_ASSERT(((uint32_t *)c->role_table.data)[role] == table,
                         "%s:%u: role %s has another table elsewhere", c->at->file, c->at->line,
                         pick.name);
        }
    }
}

/* The rows whose guard sets all wanted tags and none that is refused. */
static StoryChoice rows_with_tags(StoryCompiler *c, const StoryTableInfo *table,
                                  const PickText *pick)
{
    StoryGuard wanted = story_compile_guard(c, pick->tags, pick->tags_length, "");
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
    PickCursor cursor = {lines[0].text, NULL};
    for (PickText text; next_pick(c, &cursor, &text);) {
        StoryPick pick = {0};
        if (text.kind == '+') {
            pick.kind = STORY_PICK_FACT;
            pick.target = story_compile_fact(c, text.name, text.name_length);
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
            pick.choice = rows_with_tags(c, story_role_table(c, pick.target), &text);
        }
        story_array_push(&c->picks, &pick, 1, sizeof pick);
        plot.picks++;
    }
    c->rephrase = true;
    plot.program = story_compile_text(c, &lines[1]);
    story_array_push(&c->plots, &plot, 1, sizeof plot);
}

static void compile_roles(StoryCompiler *c, StoryGrammar *g)
{
    g->roles = mem_zalloc(c->roles.count, sizeof *g->roles);
    for (uint32_t role = 0; role < c->roles.count; role++) {
        const StoryTableInfo *table = story_role_table(c, role);
        bool plain = strcmp(c->roles.name[role], table->source->name.text) == 0;
        StoryFacts *sets = mem_zalloc(table->rows, sizeof *sets);
        for (uint32_t row = 0; row < table->rows; row++) {
            c->at = row_lines(c, table, row);
            const char *name = plain ? "" : c->roles.name[role];
            sets[row] = story_compile_guard(c, c->at->text, strlen(c->at->text), name).set;
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
    story_strings_free(story_names_release(&c.tables), c.table_info.count);
    free(c.phrases.data);
    free(c.rule_used);
    free(c.table_info.data);
    free(c.role_table.data);
    story_source_free(&c.source);
    return g;
}

void stories_grammar_free(StoryGrammar *g)
{
    for (uint32_t i = 0; i < g->roles_count; i++) {
        free(g->roles[i].row_sets);
    }
    void *const owned[] = {g->roles, g->text,    g->ops,    g->alternatives, g->list,
                           g->cells, g->choices, g->guards, g->picks,        g->plots};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        free(owned[i]);
    }
    story_strings_free(g->rule_names, g->rules_count);
    story_strings_free(g->fact_names, g->facts_count);
    story_strings_free(g->role_names, g->roles_count);
    story_strings_free(g->text_names, g->texts_count);
    story_strings_free(g->plot_names, g->plots_count);
    free(g);
}
