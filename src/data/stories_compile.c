#include "data/stories_compiler.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Two passes. The first gives a number to every name: rules, tables, and the roles and bound texts
 * that plots pick. The second compiles what stands under the names, all names resolved. */

static void compile_rule(StoryCompiler *c, uint32_t rule)
{
    const StoryRule *source = ((const StoryRule **)c->rule_lines.data)[rule];
    StoryArray numbers = {0};
    c->rephrase = source->name[0] != '~';
    for (const char *const *line = source->lines; *line != NULL; line++) {
        uint32_t number = story_compile_line(c, *line);
        story_array_push(&numbers, &number, 1, sizeof number);
    }
    PACER_ASSERT(numbers.count > 0, "rule %s has no lines", source->name);
    StoryChoice choice = {c->list.count, numbers.count};
    story_array_push(&c->list, numbers.data, numbers.count, sizeof(uint32_t));
    ((StoryChoice *)c->choices.data)[rule] = choice;
    free(numbers.data);
}

/* Rows become alternatives first and cells after, so that the rows of a table are neighbours. */
static void compile_table(StoryCompiler *c, StoryTableInfo *table)
{
    const char *const *cells = table->source->cells;
    table->first_row = c->alternatives.count;
    for (uint32_t row = 0; row < table->rows; row++) {
        const char *guard = cells[row * table->width];
        c->where = guard;
        StoryAlternative alternative = {row * (table->width - 1) + c->cells.count,
                                        story_keep_guard(c, guard, strlen(guard))};
        story_array_push(&c->alternatives, &alternative, 1, sizeof alternative);
    }
    for (uint32_t i = 0; i < table->rows * table->width; i++) {
        if (i % table->width != 0) {
            c->rephrase = i % table->width != 1; /* names stay as they are */
            uint32_t program = story_compile_text(c, cells[i]);
            story_array_push(&c->cells, &program, 1, sizeof program);
        }
    }
}

static void register_table(StoryCompiler *c, const StoryTable *source)
{
    uint32_t number = story_names_add(&c->tables, source->name, strlen(source->name));
    PACER_ASSERT(number == c->table_info.count, "table %s is there twice", source->name);
    StoryTableInfo table = {.source = source};
    for (const char *p = source->columns; *p != '\0'; p += strspn(p, " ")) {
        size_t length = strcspn(p, " ");
        story_names_add(&table.columns, p, length);
        p += length;
    }
    table.width = table.columns.count + 1;
    uint32_t cells = 0;
    while (source->cells[cells] != NULL) {
        cells++;
    }
    PACER_ASSERT(cells % table.width == 0 && cells > 0,
                 "table %s: %u cells are no whole rows of %u and a guard; the last is \"%s\"",
                 source->name, cells, table.columns.count,
                 cells > 0 ? source->cells[cells - 1] : "");
    table.rows = cells / table.width;
    story_array_push(&c->table_info, &table, 1, sizeof table);
}

/* One word of a plot's picks, split: name, then ':', '=' or '+', then what it is picked from. */
typedef struct {
    const char *name, *from, *tags;
    size_t name_length, from_length, tags_length;
    char kind;
} PickText;

static bool next_pick(const char **cursor, PickText *pick)
{
    const char *p = *cursor + strspn(*cursor, " ");
    if (*p == '\0') {
        return false;
    }
    *pick = (PickText){.name = p + (*p == '+'), .tags = ""};
    pick->kind = *p == '+' ? '+' : p[strcspn(p, ":=")];
    pick->name_length = strcspn(pick->name, ":= ");
    p = pick->name + pick->name_length;
    if (pick->kind != '+') {
        pick->from = p + 1;
        pick->from_length = strcspn(pick->from, "< ");
        p = pick->from + pick->from_length;
    }
    if (*p == '<') {
        pick->tags = p + 1;
        pick->tags_length = strcspn(pick->tags, ">");
        p = pick->tags + pick->tags_length + 1;
    }
    *cursor = p;
    return true;
}

static void register_picks(StoryCompiler *c, const StoryPlot *plot)
{
    const char *cursor = plot->picks;
    for (PickText pick; next_pick(&cursor, &pick);) {
        if (pick.kind == '=') {
            uint32_t text = story_names_add(&c->texts, pick.name, pick.name_length);
            PACER_ASSERT(text < STORY_TEXTS_MAX, "too many bound texts");
        } else if (pick.kind == ':') {
            uint32_t table = story_names_find(&c->tables, pick.from, pick.from_length);
            PACER_ASSERT(table != UINT32_MAX, "plot %s: no table for %s", plot->name, pick.name);
            uint32_t role = story_names_add(&c->roles, pick.name, pick.name_length);
            PACER_ASSERT(role < STORY_ROLES_MAX, "too many roles");
            if (role == c->role_table.count) {
                story_array_push(&c->role_table, &table, 1, sizeof table);
            }
            PACER_ASSERT(((uint32_t *)c->role_table.data)[role] == table,
                         "plot %s: role %s has another table elsewhere", plot->name, pick.name);
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
    PACER_ASSERT(choice.count > 0, "no row of table %s fits %.*s", table->source->name,
                 (int)pick->tags_length, pick->tags);
    return choice;
}

static void compile_plot(StoryCompiler *c, const StoryPlot *plot)
{
    StoryScript script = {.first_pick = c->picks.count};
    const char *cursor = plot->picks;
    for (PickText text; next_pick(&cursor, &text);) {
        StoryPick pick = {0};
        if (text.kind == '+') {
            pick.kind = STORY_PICK_FACT;
            pick.target = story_compile_fact(c, text.name, text.name_length);
            c->set[pick.target] = true;
        } else if (text.kind == '=') {
            uint32_t rule = story_names_find(&c->rules, text.from, text.from_length);
            PACER_ASSERT(rule != UINT32_MAX, "plot %s: no rule for %s", plot->name, text.name);
            ((bool *)c->rule_used.data)[rule] = true;
            pick.kind = STORY_PICK_TEXT;
            pick.target = story_names_find(&c->texts, text.name, text.name_length);
            pick.choice = ((StoryChoice *)c->choices.data)[rule];
        } else {
            PACER_ASSERT(text.kind == ':', "plot %s: bad pick %s", plot->name, text.name);
            pick.kind = STORY_PICK_ROW;
            pick.target = story_names_find(&c->roles, text.name, text.name_length);
            pick.choice = rows_with_tags(c, story_role_table(c, pick.target), &text);
        }
        story_array_push(&c->picks, &pick, 1, sizeof pick);
        script.picks++;
    }
    c->rephrase = true;
    script.program = story_compile_text(c, plot->text);
    story_array_push(&c->scripts_out, &script, 1, sizeof script);
}

static void compile_roles(StoryCompiler *c, StoryGrammar *g)
{
    g->roles = mem_zalloc(c->roles.count, sizeof *g->roles);
    for (uint32_t role = 0; role < c->roles.count; role++) {
        const StoryTableInfo *table = story_role_table(c, role);
        bool plain = strcmp(c->roles.name[role], table->source->name) == 0;
        StoryFacts *sets = mem_zalloc(table->rows, sizeof *sets);
        for (uint32_t row = 0; row < table->rows; row++) {
            const char *guard = table->source->cells[row * table->width];
            sets[row] =
                story_compile_guard(c, guard, strlen(guard), plain ? "" : c->roles.name[role]).set;
        }
        g->roles[role] = (StoryRole){table->first_row, sets};
    }
    g->roles_count = c->roles.count;
}

static void register_parts(StoryCompiler *c, const StoryContent *const *parts)
{
    for (const StoryContent *const *part = parts; *part != NULL; part++) {
        for (const StoryRule *rule = (*part)->rules; rule != NULL && rule->name != NULL; rule++) {
            uint32_t number = story_names_add(&c->rules, rule->name, strlen(rule->name));
            PACER_ASSERT(number == c->rule_lines.count, "rule %s is there twice", rule->name);
            story_array_push(&c->rule_lines, &rule, 1, sizeof rule);
            if (rule->name[0] == '~') {
                uint32_t *head = &c->phrase_from[(unsigned char)rule->name[1]];
                StoryPhrase phrase = {number, *head, strlen(rule->name + 1), rule->name + 1};
                *head = c->phrases.count + 1;
                story_array_push(&c->phrases, &phrase, 1, sizeof phrase);
            }
        }
        for (const StoryTable *table = (*part)->tables; table != NULL && table->name != NULL;
             table++) {
            register_table(c, table);
        }
    }
    for (const StoryContent *const *part = parts; *part != NULL; part++) {
        for (const StoryPlot *plot = (*part)->plots; plot != NULL && plot->name != NULL; plot++) {
            uint32_t number = story_names_add(&c->scripts, plot->name, strlen(plot->name));
            PACER_ASSERT(number == c->plots.count, "plot %s is there twice", plot->name);
            story_array_push(&c->plots, &plot, 1, sizeof plot);
            register_picks(c, plot);
        }
    }
}

static void compile_parts(StoryCompiler *c)
{
    StoryGuard none = {0};
    story_array_push(&c->guards, &none, 1, sizeof none);
    for (uint32_t i = 0; i < c->rules.count; i++) {
        StoryChoice later = {0};
        bool used = false;
        story_array_push(&c->rule_used, &used, 1, sizeof used);
        story_array_push(&c->choices, &later, 1, sizeof later);
    }
    for (uint32_t i = 0; i < c->tables.count; i++) {
        compile_table(c, (StoryTableInfo *)c->table_info.data + i);
    }
    for (uint32_t i = 0; i < c->rules.count; i++) {
        compile_rule(c, i);
    }
    for (uint32_t i = 0; i < c->plots.count; i++) {
        compile_plot(c, ((const StoryPlot **)c->plots.data)[i]);
    }
}

StoryGrammar *stories_compile(const StoryContent *const *parts)
{
    StoryCompiler c = {0};
    register_parts(&c, parts);
    compile_parts(&c);

    StoryGrammar *g = mem_zalloc(1, sizeof *g);
    compile_roles(&c, g);
    for (uint32_t i = 0; i < c.rules.count; i++) {
        bool used = ((bool *)c.rule_used.data)[i];
        PACER_ASSERT(used, "nothing refers to the rule %s", c.rules.name[i]);
    }
    for (uint32_t i = 0; i < c.facts.count; i++) {
        PACER_ASSERT(!c.asked[i] || c.set[i], "nothing sets the fact %s", c.facts.name[i]);
    }
    for (uint32_t i = 0; i < c.tables.count; i++) {
        StoryTableInfo *table = (StoryTableInfo *)c.table_info.data + i;
        story_strings_free(story_names_release(&table->columns), table->width - 1);
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
    g->scripts = c.scripts_out.data;
    g->scripts_count = c.scripts_out.count;
    g->rules_count = c.rules.count;
    g->facts_count = c.facts.count;
    g->texts_count = c.texts.count;
    g->rule_names = story_names_release(&c.rules);
    g->fact_names = story_names_release(&c.facts);
    g->role_names = story_names_release(&c.roles);
    g->text_names = story_names_release(&c.texts);
    g->script_names = story_names_release(&c.scripts);
    story_strings_free(story_names_release(&c.tables), c.table_info.count);
    free(c.rule_lines.data);
    free(c.phrases.data);
    free(c.rule_used.data);
    free(c.table_info.data);
    free(c.plots.data);
    free(c.role_table.data);
    return g;
}

void stories_grammar_free(StoryGrammar *g)
{
    for (uint32_t i = 0; i < g->roles_count; i++) {
        free(g->roles[i].row_sets);
    }
    void *const owned[] = {g->roles, g->text,    g->ops,    g->alternatives, g->list,
                           g->cells, g->choices, g->guards, g->picks,        g->scripts};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        free(owned[i]);
    }
    story_strings_free(g->rule_names, g->rules_count);
    story_strings_free(g->fact_names, g->facts_count);
    story_strings_free(g->role_names, g->roles_count);
    story_strings_free(g->text_names, g->texts_count);
    story_strings_free(g->script_names, g->scripts_count);
    free(g);
}
