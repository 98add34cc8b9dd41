#include "data/stories_engine.h"

#include "base/assert.h"

#include <string.h>

/* Telling is a walk over compiled templates that appends text. Four small rules of English live at
 * the seams between pieces of text, where only the walk knows what stands on both sides: a capital
 * at the start of a sentence, a or an, no space doubled or left before a comma, and no choice
 * repeated within a story. */

#define SCRATCH_BYTES 2048
#define USED_WORDS 512 /* 64 alternatives each */
#define DEPTH_MAX 40
#define NO_ROW UINT32_MAX

typedef struct {
    const char *data;
    size_t length;
} Bound;

typedef struct {
    const StoryGrammar *grammar;
    const char *plot; /* its name, for messages */
    uint64_t random;
    char *out, *begin, *end; /* where to write: next, first and last + 1 */
    unsigned pending;        /* STORY_CAPITAL, STORY_ARTICLE, STORY_LOWER */
    int depth;
    StoryFacts facts;
    Bound bound[STORY_TEXTS_MAX];
    uint32_t row[STORY_ROLES_MAX]; /* the alternative picked, or NO_ROW */
    uint64_t used[USED_WORDS];
    char scratch[SCRATCH_BYTES];
} Teller;

/* SplitMix64; the high half scaled to [0, n). */
static uint32_t draw(Teller *t, uint32_t n)
{
    uint64_t z = (t->random += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return (uint32_t)(((z >> 32) * n) >> 32);
}

/* Is the next letter the first of a sentence? Behind `!" ` it is, unless the template says
 * otherwise with STORY_LOWER: `"Look!" he said.` */
static bool starts_sentence(const Teller *t)
{
    const char *out = t->out;
    if (t->pending & STORY_LOWER) {
        return false;
    }
    if (out == t->begin || out[-1] == '\n') {
        return true;
    }
    if (out[-1] == ' ') {
        return story_ends_sentence(out[-2]) || (out[-2] == '"' && story_ends_sentence(out[-3]));
    }
    return out[-1] == '"' && (out - 1 == t->begin || out[-2] == ' ' || out[-2] == '\n');
}

/* By the sound of the first syllable, for the words that stories use. */
static bool wants_an(const char *word, size_t length)
{
    static const char *const consonant[] = {"uni", "use", "one", "euro"};
    static const char *const vowel[] = {"hour", "honest"};
    for (size_t i = 0; i < sizeof consonant / sizeof *consonant; i++) {
        size_t n = strlen(consonant[i]);
        if (length >= n && memcmp(word, consonant[i], n) == 0) {
            return false;
        }
    }
    for (size_t i = 0; i < sizeof vowel / sizeof *vowel; i++) {
        size_t n = strlen(vowel[i]);
        if (length >= n && memcmp(word, vowel[i], n) == 0) {
            return true;
        }
    }
    return memchr("aeiouAEIOU", word[0], 10) != NULL;
}

static void append(Teller *t, const char *data, size_t length)
{
    PACER_ASSERT(length <= (size_t)(t->end - t->out), "plot %s: text too long", t->plot);
    memcpy(t->out, data, length);
    t->out += length;
}

static void append_capital(Teller *t, const char *data, size_t length)
{
    char *at = t->out;
    append(t, data, length);
    *at = (char)(*at - 'a' + 'A');
}

static void put(Teller *t, const char *data, size_t length)
{
    if (length == 0) {
        return;
    }
    if (data[0] == ' ') {
        bool first = t->out == t->begin;
        if (first || t->out[-1] == ' ' || t->out[-1] == '\n') {
            data++;
            length--;
        } else if (length > 1 && story_is_lower(data[1]) && story_ends_sentence(t->out[-1])) {
            append(t, data, 1);
            append_capital(t, data + 1, length - 1);
            return;
        }
        append(t, data, length);
        return;
    }
    if (t->pending & STORY_ARTICLE) {
        bool capital = (t->pending & STORY_CAPITAL) || starts_sentence(t);
        bool an = wants_an(data, length);
        append(t, capital ? (an ? "An " : "A ") : (an ? "an " : "a "), an ? 3 : 2);
        t->pending = 0;
    } else if (story_is_lower(data[0])) {
        bool capital = (t->pending & STORY_CAPITAL) || starts_sentence(t);
        t->pending = 0;
        if (capital) {
            append_capital(t, data, length);
            return;
        }
    } else if (data[0] == '\n' || data[0] == ',' || story_ends_sentence(data[0])) {
        while (t->out != t->begin && (t->out[-1] == ' ' || t->out[-1] == ',')) {
            t->out--;
        }
        bool quote = t->out - t->begin > 1 && t->out[-1] == '"' && story_ends_sentence(t->out[-2]);
        if (quote && story_ends_sentence(data[0])) {
            data++; /* a quote that ends a sentence has its full stop inside */
            length--;
        }
    } else if (data[0] != '"') {
        t->pending = 0;
    }
    append(t, data, length);
}

static bool allowed(const Teller *t, uint32_t alternative)
{
    uint32_t number = t->grammar->alternatives[alternative].guard;
    if (number == 0) {
        return true;
    }
    const StoryGuard *guard = &t->grammar->guards[number];
    return story_facts_within(&guard->need, &t->facts) &&
           !story_facts_meet(&guard->forbid, &t->facts);
}

static bool is_used(const Teller *t, uint32_t alternative)
{
    return t->used[alternative / 64] >> (alternative % 64) & 1;
}

/* An allowed alternative, preferably one not used before; UINT32_MAX when none is allowed. */
static uint32_t choose(Teller *t, StoryChoice choice)
{
    const uint32_t *list = t->grammar->list + choice.first;
    if (choice.count == 1) {
        return allowed(t, list[0]) ? list[0] : UINT32_MAX;
    }
    uint32_t start = draw(t, choice.count);
    uint32_t chosen = UINT32_MAX;
    if (choice.count < STORY_AVOID_FROM) {
        chosen = allowed(t, list[start]) ? list[start] : list[1 - start];
        return allowed(t, chosen) ? chosen : UINT32_MAX;
    }
    uint32_t second = UINT32_MAX;
    /* Fresh draws keep the choice even among what is allowed; the scan behind ends the search. */
    for (int tries = 0; tries < 8; tries++) {
        uint32_t candidate = list[start];
        if (allowed(t, candidate)) {
            if (!is_used(t, candidate)) {
                chosen = candidate;
                break;
            }
            second = candidate;
        }
        start = draw(t, choice.count);
    }
    for (uint32_t i = 0; chosen == UINT32_MAX && i < choice.count; i++) {
        uint32_t candidate = list[start + i < choice.count ? start + i : start + i - choice.count];
        if (allowed(t, candidate)) {
            if (!is_used(t, candidate)) {
                chosen = candidate;
            } else if (second == UINT32_MAX) {
                second = candidate;
            }
        }
    }
    if (chosen == UINT32_MAX) {
        return second;
    }
    t->used[chosen / 64] |= UINT64_C(1) << (chosen % 64);
    return chosen;
}

static void learn(Teller *t, uint32_t alternative)
{
    uint32_t guard = t->grammar->alternatives[alternative].guard;
    if (guard != 0) {
        story_facts_join(&t->facts, &t->grammar->guards[guard].set);
    }
}

static void walk(Teller *t, uint32_t program)
{
    const StoryGrammar *g = t->grammar;
    t->depth++;
    PACER_ASSERT(t->depth < DEPTH_MAX, "plot %s: rules that call themselves", t->plot);
    for (const StoryOp *op = g->ops + program; op->kind != STORY_OP_END; op++) {
        t->pending |= op->flags;
        switch ((StoryOpKind)op->kind) {
        case STORY_OP_TEXT:
            put(t, g->text + op->arg, op->length);
            break;
        case STORY_OP_BOUND: {
            const Bound *bound = &t->bound[op->arg];
            PACER_ASSERT(bound->data != NULL, "plot %s uses text %s and does not bind it", t->plot,
                         g->text_names[op->arg]);
            put(t, bound->data, bound->length);
            break;
        }
        case STORY_OP_CELL: {
            PACER_ASSERT(t->row[op->arg] != NO_ROW, "plot %s uses role %s and does not pick it",
                         t->plot, g->role_names[op->arg]);
            walk(t, g->cells[g->alternatives[t->row[op->arg]].program + op->length]);
            break;
        }
        case STORY_OP_CHOICE: {
            uint32_t chosen = choose(t, g->choices[op->arg]);
            if (chosen != UINT32_MAX) {
                learn(t, chosen);
                walk(t, g->alternatives[chosen].program);
            } else {
                PACER_ASSERT(op->arg >= g->rules_count, "plot %s: no line of {%s} is allowed",
                             t->plot, g->rule_names[op->arg]);
            }
            break;
        }
        case STORY_OP_END:
            break;
        }
    }
    t->depth--;
}

/* Expands a choice into scratch, where it stays for the whole story. It starts no sentence, so it
 * is written behind something to look back at that ends none. */
static Bound bind_text(Teller *t, char **scratch, StoryChoice choice)
{
    static const char before[] = "xxx";
    char *out = t->out, *begin = t->begin, *end = t->end;
    t->out = t->begin = *scratch;
    t->end = t->scratch + SCRATCH_BYTES;
    append(t, before, sizeof before - 1);
    Bound bound = {t->out, 0};
    uint32_t chosen = choose(t, choice);
    PACER_ASSERT(chosen != UINT32_MAX, "plot %s: nothing to bind is allowed", t->plot);
    learn(t, chosen);
    walk(t, t->grammar->alternatives[chosen].program);
    bound.length = (size_t)(t->out - bound.data);
    *scratch = t->out;
    t->out = out;
    t->begin = begin;
    t->end = end;
    return bound;
}

size_t stories_tell(const StoryGrammar *grammar, uint64_t state, char *out, size_t capacity,
                    StoryFacts *facts, uint32_t *which)
{
    Teller t;
    memset(&t, 0, offsetof(Teller, used));
    memset(t.row, 0xff, grammar->roles_count * sizeof t.row[0]); /* NO_ROW */
    memset(t.used, 0, (grammar->alternatives_count + 63) / 64 * sizeof t.used[0]);
    t.grammar = grammar;
    t.random = state;
    t.out = t.begin = out;
    t.end = out + capacity - 1; /* room for the newline */
    PACER_ASSERT(grammar->alternatives_count <= 64 * USED_WORDS, "%u alternatives",
                 grammar->alternatives_count);

    uint32_t chosen = draw(&t, grammar->plots_count);
    const StoryPlot *plot = &grammar->plots[chosen];
    t.plot = grammar->plot_names[chosen];
    char *scratch = t.scratch;
    for (uint32_t i = 0; i < plot->picks; i++) {
        const StoryPick *pick = &grammar->picks[plot->first_pick + i];
        switch (pick->kind) {
        case STORY_PICK_FACT:
            t.facts.bit[pick->target / 64] |= UINT64_C(1) << (pick->target % 64);
            break;
        case STORY_PICK_TEXT:
            t.bound[pick->target] = bind_text(&t, &scratch, pick->choice);
            break;
        case STORY_PICK_ROW: {
            const StoryRole *role = &grammar->roles[pick->target];
            uint32_t row = choose(&t, pick->choice);
            PACER_ASSERT(row != UINT32_MAX, "plot %s: no row is allowed for role %s", t.plot,
                         grammar->role_names[pick->target]);
            story_facts_join(&t.facts, &role->row_sets[row - role->first_row]);
            t.row[pick->target] = row;
            break;
        }
        }
    }
    walk(&t, plot->program);
    while (t.out > t.begin && (t.out[-1] == ' ' || t.out[-1] == '\n')) {
        t.out--;
    }
    *t.out++ = '\n';
    if (facts != NULL) {
        *facts = t.facts;
    }
    if (which != NULL) {
        *which = chosen;
    }
    return (size_t)(t.out - t.begin);
}
