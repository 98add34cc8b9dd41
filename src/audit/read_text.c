/* Headings, "key: value" lines and sentences to facts.
 *
 * A heading that names settings ("### b64_g2", "## Batch size = 16") opens a section about that
 * run, until a heading of its level or above. Words of a line add to it: "Batch 8: 3.06 hrs",
 * "2-GPU". "Rank 0" opens a block about a rank that ends with a blank line. A number gets its
 * name from the words behind it where these are a unit of their own ("7.5 seconds per step"),
 * else from the words before it, else from its key, else from the line above its list ("Initial
 * loss:"). A sentence that names two values of one setting is about neither. */
#include "audit/evidence.h"
#include "audit/scan.h"

#include <ctype.h>
#include <string.h>

#define LEVELS 8

typedef struct {
    Evidence *evidence;
    int scope[LEVELS]; /* of the heading of each level; -1: none */
    bool hypothetical[LEVELS];
    int level;                 /* of the last heading */
    int rank;                  /* of the block, -1 */
    char context[PHRASE_SIZE]; /* of the last line that ends in a colon, or heading */
    bool seen_heading;
} Reader;

/* What a line says of its run before its facts are known. */
typedef struct {
    Identity identity; /* of the section, then of the line */
    bool named[SETTING_COUNT], ambiguous;
    int rank;
    int moment; /* -1 */
    bool step;
} LineScope;

static int current_scope(const Reader *reader)
{
    for (int level = reader->level; level > 0; level--) {
        if (reader->scope[level] >= 0) {
            return reader->scope[level];
        }
    }
    return 0;
}

static bool is_hypothetical(const Reader *reader)
{
    for (int level = 1; level <= reader->level; level++) {
        if (reader->hypothetical[level]) {
            return true;
        }
    }
    return false;
}

/* Sections about what was not measured. */
static bool plans(const char *text)
{
    static const char *const words[] = {" recommended ", " expected ",      " next steps ",
                                        " future ",      " opportunities ", " projected ",
                                        " todo ",        " recommendation "};
    return scan_has_any(text, words, sizeof words / sizeof words[0]);
}

static bool is_small_count(const Number *number)
{
    return number->counted && number->value >= 0 && number->value < 65536;
}

/* "GPU 0" and "Rank 3" name a rank; "GPU=4" and "4 GPUs" count them. */
static bool names_rank(const ScanItem *item)
{
    size_t length = strlen(item->before);
    bool gpu = length >= 5 && strcmp(item->before + length - 5, " gpu ") == 0;
    bool rank = length >= 6 && strcmp(item->before + length - 6, " rank ") == 0;
    return (gpu || rank) && item->glue == ' ' && is_small_count(&item->number);
}

/* "Epoch 3", "step 100": when the line is about. */
static bool names_moment(const ScanItem *item, LineScope *scope)
{
    static const char *const words[] = {" epoch ", " step ", " iter ", " iteration "};
    size_t length = strlen(item->before);
    for (int i = 0; i < 4; i++) {
        size_t size = strlen(words[i]);
        bool rate = length >= size + 4 && memcmp(item->before + length - size - 4, " per", 4) == 0;
        if (length >= size && !rate && strcmp(item->before + length - size, words[i]) == 0 &&
            item->number.counted && item->number.value >= 0 && item->number.value < 1e9) {
            scope->moment = (int)item->number.value;
            scope->step = i > 0;
            return true;
        }
    }
    return false;
}

/* Settings are plain counts; "8x NVIDIA" under the key GPUs is one too. */
static bool can_be_setting(Quantity quantity, const Number *number)
{
    bool plain = number->unit == UNIT_NONE && !number->range && !number->open && number->value > 0;
    return plain && (quantity == Q_LR || number->value == (double)(long long)number->value);
}

/* Where the key of "key: value" ends; 0 when the line has none. */
static int key_end(const char *text)
{
    for (int i = 0; text[i] != '\0' && i < 80; i++) {
        if (text[i] == ':' && (text[i + 1] == ' ' || text[i + 1] == '\0')) {
            return i;
        }
        if ((text[i] == '.' || text[i] == ';') && text[i + 1] == ' ') {
            return 0;
        }
    }
    return 0;
}

/* "worker.epoch.training" is named by its last part. */
static int last_part(const char *text, int key)
{
    int from = 0;
    for (int i = 1; i + 1 < key; i++) {
        if (text[i] == '.' && isalnum((unsigned char)text[i - 1]) &&
            isalpha((unsigned char)text[i + 1])) {
            from = i + 1;
        }
    }
    return from;
}

/* `labelled`: the key holds a setting with its number ("Batch 8: ..."), which names no value. */
static Quantity name_item(const Reader *reader, const char *text, const ScanItem *item, int key,
                          bool first_value, bool labelled, bool *by_key)
{
    const Names *names = &reader->evidence->names;
    Unit unit = item->number.unit;
    int words = 0;
    *by_key = false;
    Quantity after = quantity_find(names, item->after, unit, PHRASE_AT_START, &words);
    if (after != Q_NONE && words >= 2) {
        return after;
    }
    char phrase[PHRASE_SIZE];
    Quantity found = quantity_find(names, item->before, unit, PHRASE_AT_END, NULL);
    if (first_value && key > 0) {
        int from = last_part(text, key);
        phrase_make(text + from, (size_t)(key - from), phrase);
        Quantity keyed = quantity_find(names, phrase, unit, PHRASE_ANYWHERE, NULL);
        keyed = labelled && quantity_is_setting(keyed) ? Q_NONE : keyed;
        if (unit == UNIT_TIMES && keyed == Q_NONE) {
            keyed = quantity_find(names, phrase, UNIT_NONE, PHRASE_ANYWHERE, NULL);
            keyed = keyed == Q_RANKS ? Q_RANKS : Q_NONE;
        }
        found = labelled && quantity_is_setting(found) ? Q_NONE : found;
        if (keyed != Q_NONE && (found == Q_NONE || found == keyed || item->glue == ':')) {
            *by_key = true;
            return keyed;
        }
    }
    found = found != Q_NONE ? found : after;
    if (found == Q_NONE && unit == UNIT_TOKENS_PER_SECOND) {
        found = Q_TOKENS_PER_SECOND;
    }
    if (found == Q_NONE && first_value && strstr(item->after, " vs ") == NULL) {
        found = quantity_find(names, reader->context, unit, PHRASE_ANYWHERE, NULL);
        found = quantity_is_setting(found) || found == Q_STEP || found == Q_RANK ? Q_NONE : found;
    }
    return found;
}

static void name_setting(LineScope *scope, Quantity quantity, double value)
{
    if (scope->named[quantity] && scope->identity.values[quantity] != value) {
        scope->ambiguous = true;
    }
    scope->named[quantity] = true;
    scope->identity.values[quantity] = value;
}

/* The setting of a key line belongs to the section; a second value begins another run. */
static void set_section(Reader *reader, Quantity quantity, double value, int line)
{
    int at = current_scope(reader);
    double *values = reader->evidence->scopes[at].identity.values;
    if (values[quantity] == 0) {
        values[quantity] = value;
    } else if (values[quantity] != value && at != 0) {
        Scope scope = reader->evidence->scopes[at];
        scope.identity.values[quantity] = value;
        scope.line = line;
        int level = reader->level > 0 ? reader->level : 1;
        reader->level = level;
        reader->scope[level] = evidence_scope(reader->evidence, &scope);
    }
}

/* "16 per device" makes a batch the local one. */
static Quantity refine_batch(Quantity quantity, const ScanItem *item)
{
    static const char *const local[] = {" per device ", " per gpu ", " per rank ", " each "};
    for (size_t i = 0; i < sizeof local / sizeof local[0] && quantity == Q_BATCH; i++) {
        if (strncmp(item->after, local[i], strlen(local[i])) == 0) {
            return Q_LOCAL_BATCH;
        }
    }
    return quantity;
}

static bool only_phase_mean(const ScanItem *items, int i)
{
    return i > 0 && items[i].in_parentheses && items[i].number.unit == UNIT_SECONDS &&
           items[i - 1].number.unit == UNIT_SECONDS && !items[i - 1].in_parentheses;
}

/* Reads numbers into settings of `scope` and facts behind fact number `reader's count`. */
static void read_items(Reader *reader, const char *text, int line, LineScope *scope, bool heading)
{
    static _Thread_local ScanItem items[SCAN_MAX_ITEMS];
    int count = scan_line(text, items), key = key_end(text);
    reader->evidence->numbers += count;
    reader->evidence->cut |= reader->evidence->numbers > EVIDENCE_MAX_NUMBERS;
    bool first_value = true, labelled = false;
    Quantity last = Q_NONE;
    for (int i = 0; i < count; i++) {
        const ScanItem *item = &items[i];
        bool in_key = key > 0 && item->start < key, by_key = false;
        if (names_rank(item)) {
            scope->rank = (int)item->number.value;
            labelled |= in_key;
            continue;
        }
        if (names_moment(item, scope)) {
            continue;
        }
        bool mean = only_phase_mean(items, i) && quantity_is_time(last);
        Quantity quantity =
            mean ? last
                 : name_item(reader, text, item, key, first_value && !in_key, labelled, &by_key);
        quantity = refine_batch(quantity, item);
        first_value = first_value && in_key;
        last = quantity;
        bool counted_x = quantity == Q_RANKS && item->number.unit == UNIT_TIMES;
        Number plain = item->number;
        plain.unit = counted_x ? UNIT_NONE : plain.unit;
        if (quantity_is_setting(quantity)) {
            if (!can_be_setting(quantity, &plain)) {
                continue;
            }
            if (by_key && !heading && !in_key) {
                set_section(reader, quantity, plain.value, line);
            } else {
                name_setting(scope, quantity, plain.value);
                labelled |= in_key;
            }
        } else if (quantity > Q_STEP && !heading &&
                   !(quantity == Q_TOKENS && item->number.value < 1e5)) {
            Fact fact = {.quantity = quantity,
                         .number = item->number,
                         .line = line,
                         .rank = -1,
                         .mean = mean,
                         .prose = !by_key && key == 0};
            evidence_add(reader->evidence, &fact);
        }
    }
}

static bool same_identity(const Identity *a, const Identity *b)
{
    for (int q = 1; q < SETTING_COUNT; q++) {
        if (a->values[q] != b->values[q]) {
            return false;
        }
    }
    return true;
}

/* Whether a loss or time of a text about the first step is the first loss. */
static void refine_by_context(const Reader *reader, Fact *fact)
{
    bool first =
        strstr(reader->context, " initial ") != NULL || strstr(reader->context, " step 0 ") != NULL;
    if (first && (fact->quantity == Q_LOSS || fact->quantity == Q_TRAIN_LOSS)) {
        fact->quantity = Q_FIRST_LOSS;
    }
    if (strstr(reader->context, " gap ") != NULL || strstr(reader->context, " gaps ") != NULL) {
        fact->number.open = true; /* differences, not values */
    }
}

static void read_text(Reader *reader, const Line *line, int number)
{
    Evidence *evidence = reader->evidence;
    int section = current_scope(reader), before = evidence->fact_count;
    LineScope scope = {
        .identity = evidence->scopes[section].identity, .rank = reader->rank, .moment = -1};
    if (section == 0) {
        scope.identity = (Identity){{0}, ""};
    }
    bool announces = strpbrk(line->text, "0123456789") == NULL;
    static const char *const all[] = {" average ", " overall ", " combined ", " mean "};
    if (announces && scan_has_any(line->text, all, sizeof all / sizeof all[0])) {
        reader->rank = scope.rank = -1;
    }
    int rank_before = scope.rank;
    read_items(reader, line->text, number, &scope, false);
    bool opens = scope.rank != rank_before && evidence->fact_count == before;
    reader->rank = opens ? scope.rank : reader->rank;
    if (scope.ambiguous || is_hypothetical(reader)) {
        evidence->fact_count = before;
    }
    int target = current_scope(reader);
    Identity around = target == 0 ? (Identity){{0}, ""} : evidence->scopes[target].identity;
    if (evidence->fact_count > before && !same_identity(&scope.identity, &around) &&
        target == section) {
        target = evidence_scope(evidence, &(Scope){.identity = scope.identity,
                                                   .line = number,
                                                   .prose = key_end(line->text) == 0});
    }
    for (int i = before; i < evidence->fact_count; i++) {
        evidence->facts[i].scope = target;
        evidence->facts[i].rank = scope.rank;
        evidence->facts[i].moment = scope.moment;
        evidence->facts[i].step = scope.step;
        refine_by_context(reader, &evidence->facts[i]);
    }
    size_t length = strlen(line->text);
    if (length > 0 && line->text[length - 1] == ':') {
        phrase_make(line->text, length, reader->context);
    }
}

static void read_heading(Reader *reader, const Line *line, int number)
{
    int level = line->level < LEVELS ? line->level : LEVELS - 1;
    for (int i = level; i < LEVELS; i++) {
        reader->scope[i] = -1;
        reader->hypothetical[i] = false;
    }
    reader->level = level - 1;
    int parent = current_scope(reader);
    reader->level = level;
    reader->rank = -1;
    reader->hypothetical[level] = plans(line->text);
    LineScope scope = {.identity = parent == 0 ? (Identity){{0}, ""}
                                               : reader->evidence->scopes[parent].identity,
                       .rank = -1};
    Identity around = scope.identity;
    reader->context[0] = '\0';
    read_items(reader, line->text, number, &scope, true);
    phrase_make(line->text, strlen(line->text), reader->context);
    bool title = !reader->seen_heading && line->level == 1;
    reader->seen_heading = true;
    if (scope.ambiguous || same_identity(&scope.identity, &around)) {
        return;
    }
    if (title) {
        reader->evidence->scopes[0].identity = scope.identity;
    } else {
        reader->scope[level] =
            evidence_scope(reader->evidence, &(Scope){.identity = scope.identity, .line = number});
    }
}

void evidence_read(Evidence *evidence, const Document *document, const Names *names)
{
    *evidence = (Evidence){.document = document, .names = *names};
    evidence_scope(evidence, &(Scope){.line = 1});
    Reader reader = {.evidence = evidence, .rank = -1};
    for (int i = 0; i < LEVELS; i++) {
        reader.scope[i] = -1;
    }
    for (int i = 0; i < document->count && !evidence->cut;) {
        const Line *line = &document->lines[i];
        switch (line->kind) {
        case LINE_TABLE_HEADER:
            reader.rank = -1;
            i = evidence_read_table(evidence, i, current_scope(&reader), is_hypothetical(&reader));
            continue;
        case LINE_HEADING:
            read_heading(&reader, line, i + 1);
            break;
        case LINE_BLANK:
            reader.rank = -1;
            break;
        case LINE_TEXT:
        case LINE_TABLE_ROW:
            read_text(&reader, line, i + 1);
            break;
        }
        i++;
    }
    evidence_resolve(evidence);
}
