#include "data/stories_compiler.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

/* The inside of a template. A sequence of texts, slots and choices becomes a program of ops. Nested
 * sequences are gathered in a list of their own and appended when complete, so that each program
 * and each choice is one contiguous range. */

#define SLOT_MAX 64

uint32_t story_compile_fact(StoryCompiler *c, const char *name, size_t length)
{
    uint32_t number = story_names_add(&c->facts, name, length);
    PACER_ASSERT(number < STORY_FACTS_MAX, "too many facts, at %.*s", (int)length, name);
    return number;
}

static void fact_set(StoryFacts *facts, uint32_t number)
{
    facts->bit[number / 64] |= UINT64_C(1) << (number % 64);
}

StoryGuard story_compile_guard(StoryCompiler *c, const char *text, size_t length, const char *role)
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
        uint32_t number = story_compile_fact(c, name, size);
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

uint32_t story_keep_guard(StoryCompiler *c, const char *text, size_t length)
{
    if (length == 0) {
        return 0;
    }
    StoryGuard guard = story_compile_guard(c, text, length, "");
    story_array_push(&c->guards, &guard, 1, sizeof guard);
    return c->guards.count - 1;
}

/* The column that "" (the first one) or a dot and a name stands for; UINT32_MAX: there is none. */
static uint32_t find_column(const StoryCompiler *c, uint32_t role, const char *tail)
{
    const StoryItem *table = story_role_table(c, role)->source;
    uint32_t column = 0;
    while (*tail != '\0' && column < table->columns &&
           strcmp(story_lines(&c->source, table)[column].text, tail + 1) != 0) {
        column++;
    }
    return column < table->columns ? column : UINT32_MAX;
}

static StoryOp resolve_slot(StoryCompiler *c, const char *slot, size_t length)
{
    StoryOp op = {0};
    char name[SLOT_MAX];
    PACER_ASSERT(length > 0 && length < sizeof name, "%s:%u: bad slot", c->at->file, c->at->line);
    memcpy(name, slot, length);
    name[length] = '\0';
    if (name[0] >= 'A' && name[0] <= 'Z') {
        op.flags |= STORY_CAPITAL;
        name[0] = (char)(name[0] - 'A' + 'a');
    }
    uint32_t number = story_names_find(&c->texts, name, length);
    if (number != UINT32_MAX) {
        op.kind = STORY_OP_BOUND;
        op.arg = number;
        return op;
    }
    number = story_names_find(&c->rules, name, length);
    size_t role_length = strcspn(name, ".");
    uint32_t role = story_names_find(&c->roles, name, role_length);
    if (number != UINT32_MAX) {
        PACER_ASSERT(role == UINT32_MAX || find_column(c, role, name + role_length) == UINT32_MAX,
                     "%s:%u: {%s} is a rule and a column of a role", c->at->file, c->at->line,
                     name);
        c->rule_used[number] = true;
        op.kind = STORY_OP_CHOICE;
        op.arg = number;
        return op;
    }
    PACER_ASSERT(role != UINT32_MAX, "%s:%u: unknown {%s}", c->at->file, c->at->line, name);
    uint32_t column = find_column(c, role, name + role_length);
    PACER_ASSERT(column != UINT32_MAX, "%s:%u: unknown column {%s}", c->at->file, c->at->line,
                 name);
    op.kind = STORY_OP_CELL;
    op.arg = role;
    op.length = (uint16_t)column;
    return op;
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
        alternative.guard = story_keep_guard(c, *cursor + 1, length - 1);
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

uint32_t story_compile_text(StoryCompiler *c, const StoryLine *line)
{
    const char *text = line->text;
    c->at = line;
    return parse_sequence(c, &text, false);
}

uint32_t story_compile_line(StoryCompiler *c, const StoryLine *line)
{
    const char *text = line->text;
    c->at = line;
    return parse_alternative(c, &text, false);
}
