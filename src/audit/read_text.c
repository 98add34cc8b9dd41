/* Headings, "key: value" lines and sentences to facts.
 *
 * A heading opens a section until a heading of its level or above; settings in it ("### b64_g2",
 * "## Batch size = 16") are the section's, and so are its lines "key: value". A line that names
 * settings itself ("Batch 8: 3.06 hrs") is a record of its own. "Rank 0" opens a block about a
 * rank that ends with a blank line. A number gets its name from the words behind it where these
 * are one ("7.5 seconds per step"), else from its key, else from the words before it, always as a
 * whole; in a sentence only from its unit or what is counted ("2.2T tokens", "162,000 GPU
 * hours"). */
#include "audit/evidence.h"
#include "audit/scan.h"

#include <ctype.h>
#include <string.h>

#define LEVELS 8

typedef struct {
    Evidence *evidence;
    int section[LEVELS]; /* record of the heading of each level; -1: none */
    int current;
    int rank;                  /* of the block, -1 */
    int paragraph;             /* record of the sentences under way, -1 */
    char context[PHRASE_SIZE]; /* of the last line that ends in a colon, or heading */
} Reader;

/* What a line says before its facts are known. */
typedef struct {
    const char *text;
    int number, key; /* line number; where the key of "key: value" ends, 0: none */
    double settings[Q_LAST_SETTING + 1];
    bool labelled; /* the key holds a setting or a rank with its number, so it names no value */
    bool several;  /* two values of one setting: the line compares runs */
    int rank, moment;
    bool step;
} LineScope;

/* Sections about what was not measured. */
static bool plans(const char *text)
{
    return scan_has_any(
        text, " recommended | expected | next steps | future | opportunities | projected | todo |"
              " recommendation | example | usage | quickstart | roadmap ");
}

static bool is_command(const char *text)
{
    const char *flag = strstr(text, "--");
    size_t length = strlen(text);
    return text[0] == '$' || (length > 0 && text[length - 1] == '\\') ||
           strncmp(text, "python", 6) == 0 || (flag != NULL && isalpha((unsigned char)flag[2]));
}

/* --- what a line is about --- */

static bool ends_with(const char *phrase, const char *words)
{
    size_t length = strlen(phrase), size = strlen(words);
    return length >= size && strcmp(phrase + length - size, words) == 0;
}

/* "GPU 0" and "Rank 3" name a rank; "GPU=4" and "4 GPUs" count them. */
static bool names_rank(const ScanItem *item)
{
    return (ends_with(item->before, " gpu ") || ends_with(item->before, " rank ")) &&
           item->glue == ' ' && item->number.counted && item->number.value >= 0 &&
           item->number.value < 65536;
}

/* "Epoch 3", "step 100": when the line is about. */
static bool names_moment(const ScanItem *item, LineScope *scope)
{
    static const char *const words[] = {" epoch ", " step ", " iter ", " iteration "};
    for (int i = 0; i < 4; i++) {
        if (ends_with(item->before, words[i]) && strstr(item->before, " per ") == NULL &&
            item->number.counted && item->number.value >= 0 && item->number.value < 1e9) {
            scope->moment = scope->step ? scope->moment : (int)item->number.value;
            scope->step |= i > 0; /* "step 400 | ... | epoch: 1" */
            return true;
        }
    }
    return false;
}

/* Where the key of "key: value" ends, or of "key = value" where the key is a name; 0 when the line
 * has none. */
static int key_end(const Names *names, const char *text)
{
    char phrase[PHRASE_SIZE];
    unsigned marks;
    for (int i = 0; text[i] != '\0' && i < 80; i++) {
        if (text[i] == ':' && (text[i + 1] == ' ' || text[i + 1] == '\0')) {
            return i;
        }
        if (text[i] == '=' && i > 0) {
            phrase_make(text, (size_t)i, phrase);
            return quantity_match(names, phrase, UNIT_NONE, &marks) != Q_NONE ? i : 0;
        }
        if ((text[i] == '.' || text[i] == ';') && text[i + 1] == ' ') {
            return 0;
        }
    }
    return 0;
}

/* The phrase of a key: of "worker.epoch.training" the last part, without what is in brackets. */
static void key_phrase(const char *text, int key, char phrase[PHRASE_SIZE])
{
    int from = 0, to = key;
    for (int i = 1; i + 1 < key; i++) {
        if (text[i] == '.' && isalnum((unsigned char)text[i - 1]) &&
            isalpha((unsigned char)text[i + 1])) {
            from = i + 1;
        }
    }
    const char *open = memchr(text, '(', (size_t)key);
    to = open != NULL && open - text > from ? (int)(open - text) : to;
    phrase_make(text + from, (size_t)(to - from), phrase);
}

/* --- what a number is --- */

static bool is_batch(Quantity quantity)
{
    return quantity == Q_BATCH || quantity == Q_LOCAL_BATCH || quantity == Q_GLOBAL_BATCH;
}

/* "tokens" behind a batch makes it tokens per step, "per step" behind a time its time; other words
 * that go on put the name in doubt. */
static Quantity refine(Quantity quantity, const char *after, unsigned *marks)
{
    static const struct {
        const char *words;
        Quantity time;
    } per[] = {{" per step ", Q_STEP_TIME},
               {" per iteration ", Q_STEP_TIME},
               {" per epoch ", Q_EPOCH_TIME}};
    if (quantity == Q_NONE || after[0] == '\0' || after[1] == '\0') {
        return quantity;
    }
    for (size_t i = 0; i < sizeof per / sizeof per[0] && quantity_is_time(quantity); i++) {
        if (strcmp(after, per[i].words) == 0) {
            return per[i].time;
        }
    }
    if (strcmp(after, " tokens ") == 0 || strcmp(after, " toks ") == 0) {
        return is_batch(quantity) ? Q_TOKENS_PER_STEP : quantity;
    }
    if (is_batch(quantity) &&
        (strcmp(after, " sequences ") == 0 || strcmp(after, " samples ") == 0)) {
        return quantity;
    }
    return quantity == Q_RANKS || phrase_is_idle(after, marks) ? quantity : Q_NONE;
}

/* In the midst of a sentence: what has a unit of its own, or is counted in words that follow. */
static Quantity name_in_prose(const Names *names, const ScanItem *item)
{
    static const char *const cards[] = {" a100", " h100", " h200", " h800", " a800", " v100",
                                        " b200", " l40s", " tpu",  " a10",  " a10g", " p100"};
    const Number *number = &item->number;
    size_t length;
    if (number->unit == UNIT_TOKENS_PER_SECOND || number->unit == UNIT_GPU_SECONDS) {
        return number->unit == UNIT_GPU_SECONDS ? Q_GPU_TIME : Q_TOKENS_PER_SECOND;
    }
    if (number->unit == UNIT_SECONDS && number->value >= 3600 &&
        (ends_with(item->before, " in ") || ends_with(item->before, " took ") ||
         ends_with(item->before, " gpus for "))) {
        return Q_TOTAL_TIME;
    }
    if (number->unit == UNIT_BYTES) { /* "96GB HBM2e", "H100 80GB", "A10 GPUs (24 GB)" */
        bool device = strncmp(item->after, " hbm", 4) == 0;
        for (size_t i = 0; i < sizeof cards / sizeof cards[0]; i++) {
            const char *card = strstr(item->before, cards[i]);
            card = card != NULL ? card + strlen(cards[i]) : NULL;
            device |= card != NULL && (strcmp(card, " ") == 0 || strcmp(card, " gpu ") == 0 ||
                                       strcmp(card, " gpus ") == 0);
        }
        return device ? Q_DEVICE_MEMORY : Q_NONE;
    }
    for (size_t i = 0; i < sizeof cards / sizeof cards[0] && number->counted; i++) {
        if (strncmp(item->after, cards[i], strlen(cards[i])) == 0 && number->value < 1e6) {
            return Q_RANKS;
        }
    }
    Quantity found = quantity_begins(names, item->after, number->unit, &length);
    bool model = ends_with(item->before, " rtx ") || item->glue == '/'; /* "RTX 3090/4090 GPUs" */
    if (model || (found != Q_NONE && strncmp(item->after + length, "per ", 4) == 0)) {
        return Q_NONE; /* "40B tokens/day" */
    }
    return (found == Q_TOKENS && number->value >= 1e6) ||
                   (found == Q_PARAMETERS && number->value >= 1e5) ||
                   (found == Q_RANKS && number->counted)
               ? found
               : Q_NONE;
}

/* The quantity of an item, and whether it stands in a sentence. */
static Quantity name_item(const Reader *reader, const LineScope *scope, const ScanItem *items,
                          int i, bool first_value, unsigned *marks, bool *prose)
{
    const ScanItem *item = &items[i];
    const Names *names = &reader->evidence->names;
    Unit unit = item->number.unit;
    char phrase[PHRASE_SIZE] = "";
    unsigned after_marks;
    size_t length;
    *prose = false;
    Quantity after = quantity_match(names, item->after, unit, &after_marks), found = Q_NONE;
    bool keyed = first_value && scope->key > 0;
    if (keyed && !scope->labelled) {
        key_phrase(scope->text, scope->key, phrase);
        found = quantity_match(names, phrase, unit, marks);
        if (found == Q_NONE && unit == UNIT_TIMES) { /* "GPUs: 8x NVIDIA" */
            found = quantity_match(names, phrase, UNIT_NONE, marks);
            found = found == Q_RANKS ? found : Q_NONE;
        }
    }
    bool named = keyed && (found != Q_NONE || strstr(phrase, " time ") != NULL);
    if (!named && !scope->labelled && after != Q_SPEEDUP && after != Q_MEMORY &&
        after != Q_SOME_MEMORY) {
        after = Q_NONE; /* "Schedule: warmup (100 steps)": the rest of the line counts */
    }
    if (item->glue == '=' && i > 0 && strpbrk(scope->text, "+*/") != NULL) {
        return Q_NONE; /* what a sum comes to */
    }
    /* Words behind the last number may be its own: "2,048 tokens per step (128 x 16)". */
    bool taken =
        i > 0 && strlen(items[i - 1].after) > 2 && strcmp(items[i - 1].after, item->before) == 0;
    if (!keyed && strlen(item->before) > 2 && !taken) {
        found = quantity_match(names, item->before, unit, marks);
    }
    if (after != Q_NONE && (keyed || found == Q_NONE) && !(found != Q_NONE && after == Q_TOKENS)) {
        *marks = after_marks;
        return after;
    }
    if (found == Q_NONE && keyed) {
        found = quantity_match(names, item->before, unit, marks);
        if (found == Q_NONE && scope->labelled) {
            found = quantity_begins(names, reader->context, unit, &length);
            found = quantity_is_setting(found) ? Q_NONE : found;
        }
        if (found == Q_NONE && scope->labelled && unit == UNIT_TOKENS_PER_SECOND) {
            found = Q_TOKENS_PER_SECOND; /* "rank 0: 18432 tokens/s" */
        }
    }
    bool whole = !keyed && after != Q_NONE; /* "GPU with 24 GB memory" */
    found = whole ? found : refine(found, item->after, marks);
    if (found == Q_NONE && unit == UNIT_BYTES && i > 0 && item->start - items[i - 1].end <= 2 &&
        (ends_with(items[i - 1].before, " rtx ") || ends_with(items[i - 1].before, " gtx "))) {
        return Q_DEVICE_MEMORY; /* "RTX 3090 (24 GB)" */
    }
    if (found == Q_NONE) {
        found = name_in_prose(names, item);
        *prose = found != Q_NONE;
    }
    return found;
}

/* --- lines --- */

static void name_setting(LineScope *scope, Quantity quantity, double value)
{
    scope->several |= scope->settings[quantity] > 0 && scope->settings[quantity] != value;
    scope->settings[quantity] = value;
}

/* Numbers in the key: a setting ("Batch 8: ..."), or nothing. */
static void read_in_key(const Reader *reader, const ScanItem *item, LineScope *scope)
{
    const Names *names = &reader->evidence->names;
    unsigned marks;
    size_t length;
    Quantity quantity = quantity_match(names, item->before, item->number.unit, &marks);
    if (!quantity_is_setting(quantity)) {
        quantity = quantity_begins(names, item->after, item->number.unit, &length);
    }
    if (quantity_is_setting(quantity) && item->number.unit == UNIT_NONE && item->number.value > 0) {
        name_setting(scope, quantity, item->number.value);
        scope->labelled = true;
    }
}

static bool is_mean_of_call(const ScanItem *items, int i)
{
    return i > 0 && items[i].in_parentheses && items[i].number.unit == UNIT_SECONDS &&
           items[i - 1].number.unit == UNIT_SECONDS && !items[i - 1].in_parentheses;
}

/* Reads the numbers of a line into facts of no record yet. */
static void read_items(Reader *reader, LineScope *scope)
{
    static _Thread_local ScanItem items[SCAN_MAX_ITEMS];
    Evidence *evidence = reader->evidence;
    int count = scan_line(scope->text, items);
    evidence->numbers += count;
    evidence->cut |= evidence->numbers > EVIDENCE_MAX_NUMBERS;
    bool first_value = true;
    Quantity last = Q_NONE;
    for (int i = 0; i < count; i++) {
        const ScanItem *item = &items[i];
        bool in_key = scope->key > 0 && item->start < scope->key, prose = false;
        if (names_rank(item)) {
            scope->rank = (int)item->number.value;
            scope->labelled |= in_key;
            continue;
        }
        if (names_moment(item, scope)) {
            scope->labelled |= in_key;
            continue;
        }
        if (in_key) {
            read_in_key(reader, item, scope);
            continue;
        }
        const char *rest = scope->text + item->end + strspn(scope->text + item->end, " ");
        bool x = strncmp(rest, "x ", 2) == 0 && isdigit((unsigned char)rest[2]);
        if (*rest == '*' || strncmp(rest, "\xc3\x97", 2) == 0 || x || *rest == '+') {
            first_value = false;
            continue; /* a factor or a summand, not the value */
        }
        unsigned marks = 0;
        bool call = is_mean_of_call(items, i) && quantity_is_time(last);
        Quantity quantity =
            call ? last : name_item(reader, scope, items, i, first_value, &marks, &prose);
        first_value = false;
        Quantity before = last;
        last = quantity;
        Number number = item->number;
        number.unit = quantity == Q_RANKS ? UNIT_NONE : number.unit;
        quantity = quantity == Q_BATCH && number.per_rank ? Q_LOCAL_BATCH : quantity;
        if (item->in_parentheses && !call && quantity == before) {
            continue; /* the same in other words: "per GPU (so much in all)" */
        }
        if (item->in_parentheses && is_batch(before) && quantity == Q_TOKENS) {
            quantity = Q_TOKENS_PER_STEP;
        }
        if (quantity <= Q_STEP && !quantity_is_setting(quantity)) {
            continue;
        }
        if (prose && scope->key > 0 && quantity != Q_PARAMETERS && quantity != Q_DEVICE_MEMORY) {
            continue; /* "(8 GPUs combined)" behind a value */
        }
        evidence_add(evidence, &(Fact){.quantity = quantity,
                                       .marks = marks | (number.per_rank ? MARK_PER_RANK : 0U),
                                       .number = number,
                                       .line = scope->number,
                                       .column = -1,
                                       .rank = -1,
                                       .call = call});
    }
}

/* Whether a loss of a text about the first step is the first loss. */
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
    int before = evidence->fact_count;
    LineScope scope = {.text = line->text,
                       .number = number,
                       .key = key_end(&evidence->names, line->text),
                       .rank = reader->rank,
                       .moment = -1};
    static const char all[] = " average | overall | combined | mean ";
    bool announces = strpbrk(line->text, "0123456789") == NULL;
    if (announces && scan_has_any(line->text, all)) {
        reader->rank = scope.rank = -1;
    }
    int rank_before = scope.rank;
    bool prose = scope.key == 0 && !line->code, named = false; /* a log is one block */
    if (!(line->code && is_command(line->text))) {
        read_items(reader, &scope);
    }
    bool opens = scope.rank != rank_before && evidence->fact_count == before;
    reader->rank = opens ? scope.rank : reader->rank;
    if (scope.several) {
        evidence->fact_count = before;
    }
    for (int q = 1; q <= Q_LAST_SETTING; q++) {
        named |= scope.settings[q] > 0;
    }
    int record = reader->current;
    bool goes_on = prose && !named && !line->item && reader->paragraph >= 0;
    if (evidence->fact_count > before && goes_on) {
        record = reader->paragraph;
    } else if (evidence->fact_count > before && (named || prose)) {
        record = evidence_record(
            evidence, &(Record){.kind = RECORD_LINE,
                                .line = number,
                                .around = reader->current,
                                .supposed = evidence->records[reader->current].supposed});
        evidence_add_settings(evidence, scope.settings, number, record);
    }
    bool sentence = prose && !named && evidence->fact_count > before;
    reader->paragraph = sentence ? record : prose && !line->item ? reader->paragraph : -1;
    for (int i = before; i < evidence->fact_count; i++) {
        Fact *fact = &evidence->facts[i];
        fact->record = record;
        bool of_all = quantity_is_setting(fact->quantity) || fact->quantity == Q_DEVICE_MEMORY;
        fact->rank = of_all ? -1 : scope.rank;
        fact->moment = scope.moment;
        fact->step = scope.step;
        refine_by_context(reader, fact);
    }
    size_t length = strlen(line->text);
    if (length > 0 && line->text[length - 1] == ':') {
        phrase_make(line->text, length, reader->context);
    }
}

static void read_heading(Reader *reader, const Line *line, int number)
{
    Evidence *evidence = reader->evidence;
    int level = line->level < LEVELS ? line->level : LEVELS - 1, around = 0;
    for (int i = 1; i < LEVELS; i++) {
        if (i >= level) {
            reader->section[i] = -1;
        } else if (reader->section[i] >= 0) {
            around = reader->section[i];
        }
    }
    bool supposed = evidence->records[around].supposed || plans(line->text);
    reader->current = evidence_record(
        evidence, &(Record){.line = number, .around = around, .supposed = supposed});
    reader->section[level] = reader->current;
    reader->rank = -1;
    double settings[Q_LAST_SETTING + 1] = {0};
    evidence_label(&evidence->names, line->text, settings);
    evidence_add_settings(evidence, settings, number, reader->current);
    phrase_make(line->text, strlen(line->text), reader->context);
}

void evidence_read(Evidence *evidence, const Document *document, const Names *names)
{
    *evidence = (Evidence){.document = document, .names = *names};
    evidence_record(evidence, &(Record){.line = 1, .around = -1});
    Reader reader = {.evidence = evidence, .rank = -1, .paragraph = -1};
    for (int i = 0; i < LEVELS; i++) {
        reader.section[i] = -1;
    }
    for (int i = 0; i < document->count && !evidence->cut;) {
        const Line *line = &document->lines[i];
        reader.paragraph = line->kind == LINE_TEXT ? reader.paragraph : -1;
        switch (line->kind) {
        case LINE_TABLE_HEADER:
            reader.rank = -1;
            i = evidence_read_table(evidence, i, reader.current);
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
    static const char split[] =
        " tensor parallel | tensor parallelism | tp | pipeline parallel | pipeline parallelism |"
        " pp | model parallel | model parallelism | 2d | 3d | context parallel |"
        " context parallelism ";
    evidence->split = evidence_has_any(evidence, split);
    evidence_finish(evidence);
}
