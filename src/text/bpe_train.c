/* Words are sequences of ids that shrink in place. Every pair of neighbours has a count and a
 * candidate in the heap with the list of words where the pair was met. The best candidate is merged
 * in the words of its list; the pairs that this makes get counts, lists and candidates in turn.
 *
 * Counts and candidates follow Hugging Face's trainer to the letter, because its merges are what we
 * promise, and some of its habits show in them:
 * - a candidate's count may be out of date; then it goes back with the count of now;
 * - a merge whose bytes are a token already (a special token that reads like text) takes its id,
 *   and the vocabulary does not grow;
 * - the count of a merged pair stays as it was, less what overlapped (aa in aaa).
 *
 * All pairs that one merge changes have the new token, or one of its halves, on one side. So
 * changes are summed by the id on the other side and meet the table of pairs once per id, not
 * per word. */
#include "text/bpe_train.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/mem.h"
#include "text/pair_table.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, PROGRESS_EVERY = 128 };

/* A word in `text`: its count in two halves, its length, its ids. It is named by where it starts,
 * which is never 0. */
enum { WORD_COUNT = 0, WORD_LENGTH = 2, WORD_IDS = 3 };

/* A candidate for the next merge. */
typedef struct {
    uint64_t pair; /* pair_of */
    int64_t count; /* when it came in, or was last looked at */
    uint32_t list; /* of words */
    uint32_t age;  /* of two candidates alike the one that came first is first */
} PairEntry;

/* ---- Lists of words ---- */

/* Many lists of word numbers in one block of memory, as chains of small chunks. A list is read
 * once, front to back, and its chunks serve other lists from then on. */
enum { WORD_LIST_CHUNK = 3 };

typedef struct {
    uint32_t next;                   /* chunk; 0: the last one */
    uint32_t words[WORD_LIST_CHUNK]; /* 0 where there is none */
} WordChunk;

typedef struct {
    WordChunk *chunks; /* chunk 0 is not used */
    size_t count, capacity;
    uint32_t unused; /* first of a chain */
} WordLists;         /* zeroed: empty */

/* A list that is being written; zeroed: empty. */
typedef struct {
    uint32_t head, tail; /* chunks */
    uint32_t last;       /* word */
} WordList;

static uint32_t take_chunk(WordLists *lists)
{
    uint32_t chunk = lists->unused;
    if (chunk != 0) {
        lists->unused = lists->chunks[chunk].next;
    } else {
        lists->count += lists->count == 0;
        lists->chunks =
            mem_grow(lists->chunks, lists->count, &lists->capacity, sizeof *lists->chunks);
        PACER_ASSERT(lists->count < UINT32_MAX, "%zu chunks of words", lists->count);
        chunk = (uint32_t)lists->count++;
    }
    lists->chunks[chunk] = (WordChunk){0};
    return chunk;
}

/* Appends a word, which is not 0, unless it is the last one already. */
static void word_list_add(WordLists *lists, WordList *list, uint32_t word)
{
    if (list->last == word) {
        return;
    }
    list->last = word;
    if (list->head != 0) {
        uint32_t *words = lists->chunks[list->tail].words;
        for (int i = 1; i < WORD_LIST_CHUNK; i++) {
            if (words[i] == 0) {
                words[i] = word;
                return;
            }
        }
    }
    uint32_t chunk = take_chunk(lists);
    lists->chunks[chunk].words[0] = word;
    if (list->head == 0) {
        list->head = chunk;
    } else {
        lists->chunks[list->tail].next = chunk;
    }
    list->tail = chunk;
}

/* The words of chunk *head, which is given back; *head is then the next chunk. False: *head is
 * 0. */
static bool word_list_take(WordLists *lists, uint32_t *head, uint32_t words[WORD_LIST_CHUNK])
{
    uint32_t chunk = *head;
    if (chunk == 0) {
        return false;
    }
    memcpy(words, lists->chunks[chunk].words, sizeof lists->chunks[chunk].words);
    *head = lists->chunks[chunk].next;
    lists->chunks[chunk].next = lists->unused;
    lists->unused = chunk;
    return true;
}

/* What a merge changes for pairs with one id on one side. */
typedef struct {
    int64_t change;
    WordList words; /* where the new pair came up */
} Neighbour;

typedef struct {
    Neighbour *of;     /* by id */
    uint32_t *touched; /* ids whose Neighbour is not zero */
    size_t touched_count;
} Side;

typedef struct {
    BpeTrainOptions options;
    uint32_t *text; /* the words, from 1 on */
    size_t text_size, text_capacity;
    PairTable counts;
    PairEntry *heap; /* the most frequent first */
    size_t heap_count, heap_capacity;
    uint32_t next_age;
    WordLists lists;
    WordTable *ids; /* of the tokens' bytes, plus one */
    Token *tokens;
    uint32_t token_count, token_capacity;
    uint32_t byte_ids[BYTES];
    Side before, after; /* the pair that is merged */
    uint64_t *merges;   /* pairs */
    size_t merge_count, merge_capacity;
    uint8_t *scratch; /* max_token_bytes */
} Trainer;

/* ---- The heap of candidates ---- */

static int compare_tokens(Token a, Token b)
{
    int order = memcmp(a.bytes, b.bytes, a.size < b.size ? a.size : b.size);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

/* Of two pairs that are equally frequent, whether `a` comes first. */
static bool pair_before(const Trainer *t, uint64_t a, uint64_t b)
{
    if (t->options.ties == TIES_IDS) {
        return a < b;
    }
    const Token *tokens = t->tokens;
    int order = compare_tokens(tokens[pair_left(a)], tokens[pair_left(b)]);
    return (order != 0 ? order : compare_tokens(tokens[pair_right(a)], tokens[pair_right(b)])) > 0;
}

/* A heap with four children to a node, so that few cache lines are touched on the way down. */
enum { CHILDREN = 4 };

static bool comes_first(const Trainer *t, const PairEntry *a, const PairEntry *b)
{
    if (a->count != b->count) {
        return a->count > b->count;
    }
    if (a->pair != b->pair) {
        return pair_before(t, a->pair, b->pair);
    }
    return a->age < b->age;
}

/* Puts the entry where it belongs on the way down from `at`, whose own entry is gone. */
static void sink(Trainer *t, size_t at, PairEntry entry)
{
    for (;;) {
        size_t child = CHILDREN * at + 1, best = child;
        if (child >= t->heap_count) {
            break;
        }
        size_t end = child + CHILDREN < t->heap_count ? child + CHILDREN : t->heap_count;
        for (size_t i = child + 1; i < end; i++) {
            if (comes_first(t, &t->heap[i], &t->heap[best])) {
                best = i;
            }
        }
        if (!comes_first(t, &t->heap[best], &entry)) {
            break;
        }
        t->heap[at] = t->heap[best];
        at = best;
    }
    t->heap[at] = entry;
}

static void heap_push(Trainer *t, uint64_t pair, int64_t count, uint32_t list)
{
    t->heap = mem_grow(t->heap, t->heap_count, &t->heap_capacity, sizeof *t->heap);
    PairEntry entry = {.pair = pair, .count = count, .list = list, .age = t->next_age++};
    size_t at = t->heap_count++;
    while (at > 0) {
        size_t parent = (at - 1) / CHILDREN;
        if (!comes_first(t, &entry, &t->heap[parent])) {
            break;
        }
        t->heap[at] = t->heap[parent];
        at = parent;
    }
    t->heap[at] = entry;
}

/* The first candidate of a heap that is not empty. */
static PairEntry heap_pop(Trainer *t)
{
    PairEntry first = t->heap[0];
    sink(t, 0, t->heap[--t->heap_count]);
    return first;
}

/* Gives the first candidate another count, and thereby its place. */
static void heap_recount(Trainer *t, int64_t count)
{
    PairEntry entry = t->heap[0];
    entry.count = count;
    sink(t, 0, entry);
}

/* ---- Training ---- */

static int check_specials(const BpeTrainOptions *options)
{
    WordTable *seen = word_table_open(0);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < options->special_count; i++) {
        ByteString special = options->specials[i];
        if (special.size == 0) {
            rc = err_set(ERR_INPUT, "special token %zu is empty", i + 1);
        } else if (special.size == 1) {
            rc = err_set(ERR_INPUT,
                         "special token %zu is a single byte, which is a token already; make it "
                         "longer",
                         i + 1);
        } else if (special.size > TOKENIZER_MAX_TOKEN_BYTES) {
            rc = err_set(ERR_INPUT, "special token %zu has %zu bytes; %u is the most", i + 1,
                         special.size, TOKENIZER_MAX_TOKEN_BYTES);
        } else if ((*word_table_at(seen, special.bytes, special.size))++ > 0) {
            rc = err_set(ERR_INPUT, "special token %zu (%.*s) is given twice", i + 1,
                         (int)(special.size < 80 ? special.size : 80), (const char *)special.bytes);
        }
    }
    word_table_close(seen);
    return rc;
}

int bpe_train_check(const BpeTrainOptions *options)
{
    int rc = check_specials(options);
    if (rc != 0) {
        return rc;
    }
    if (options->vocab < BYTES || options->vocab - BYTES < options->special_count) {
        return err_set(ERR_INPUT,
                       "a vocabulary of %u leaves no room for %zu special tokens and 256 bytes; "
                       "ask for %zu or more",
                       options->vocab, options->special_count, options->special_count + BYTES);
    }
    if (options->vocab > TOKENIZER_MAX_VOCAB) {
        return err_set(ERR_INPUT, "a vocabulary of %u is more than %u, the most there can be",
                       options->vocab, TOKENIZER_MAX_VOCAB);
    }
    return 0;
}

static void grow_tokens(Trainer *trainer)
{
    uint32_t old = trainer->token_capacity, capacity = old > 0 ? 2 * old : 2 * BYTES;
    trainer->tokens = mem_realloc(trainer->tokens, capacity, sizeof *trainer->tokens);
    Side *sides[] = {&trainer->before, &trainer->after};
    for (int i = 0; i < 2; i++) {
        sides[i]->of = mem_realloc(sides[i]->of, capacity, sizeof *sides[i]->of);
        memset(sides[i]->of + old, 0, (capacity - old) * sizeof *sides[i]->of);
        sides[i]->touched = mem_realloc(sides[i]->touched, capacity, sizeof *sides[i]->touched);
    }
    trainer->token_capacity = capacity;
}

/* The id of these bytes, which become a token if they are none. */
static uint32_t token_id(Trainer *trainer, const uint8_t *bytes, size_t size)
{
    const uint8_t *stored;
    uint64_t *id = word_table_keep(trainer->ids, bytes, size, &stored);
    if (*id == 0) {
        if (trainer->token_count == trainer->token_capacity) {
            grow_tokens(trainer);
        }
        trainer->tokens[trainer->token_count] = (Token){stored, (uint32_t)size};
        *id = ++trainer->token_count;
    }
    return (uint32_t)(*id - 1);
}

static void add_first_tokens(Trainer *trainer)
{
    for (size_t i = 0; i < trainer->options.special_count; i++) {
        token_id(trainer, trainer->options.specials[i].bytes, trainer->options.specials[i].size);
    }
    uint8_t byte;
    for (uint32_t character = 0; character < 2 * BYTES; character++) {
        if (character_byte(character, &byte)) {
            trainer->byte_ids[byte] = token_id(trainer, &byte, 1);
        }
    }
    PACER_ASSERT(trainer->token_count == trainer->options.special_count + BYTES, "%u tokens",
                 trainer->token_count);
}

/* Words of one byte have no pairs and are left out. */
static int load_words(Trainer *trainer, const WordCount *words)
{
    size_t count = word_count_words(words), used = 1;
    for (size_t i = 0; i < count; i++) {
        Word word = word_count_word(words, i);
        if (word.size < 2) {
            continue;
        }
        size_t end = used + WORD_IDS + word.size;
        if (end > UINT32_MAX) {
            return err_set(ERR_INPUT,
                           "%zu different words are more than BPE training holds; train on a part "
                           "of the text",
                           count);
        }
        if (end > trainer->text_capacity) {
            trainer->text_capacity = end / 2 * 3 + 1024;
            trainer->text =
                mem_realloc(trainer->text, trainer->text_capacity, sizeof *trainer->text);
        }
        uint32_t *out = trainer->text + used;
        memcpy(out + WORD_COUNT, &word.count, sizeof word.count);
        out[WORD_LENGTH] = word.size;
        for (uint32_t k = 0; k < word.size; k++) {
            out[WORD_IDS + k] = trainer->byte_ids[word.bytes[k]];
        }
        used = end;
    }
    trainer->text_size = used;
    return 0;
}

static bool fits(const Trainer *trainer, uint32_t left, uint32_t right)
{
    return (uint64_t)trainer->tokens[left].size + trainer->tokens[right].size <=
           trainer->options.max_token_bytes;
}

/* Counts and candidates for the pairs of bytes, whose ids follow those of the special tokens. */
static void count_bytes(Trainer *trainer)
{
    Neighbour *pairs = mem_zalloc((size_t)BYTES * BYTES, sizeof *pairs);
    uint32_t first = (uint32_t)trainer->options.special_count;
    for (size_t word = 1; word < trainer->text_size;) {
        const uint32_t *head = trainer->text + word, *ids = head + WORD_IDS;
        uint64_t count;
        memcpy(&count, head + WORD_COUNT, sizeof count);
        for (uint32_t i = 0; i + 1 < head[WORD_LENGTH]; i++) {
            Neighbour *pair = &pairs[(size_t)(ids[i] - first) * BYTES + ids[i + 1] - first];
            pair->change += (int64_t)count;
            word_list_add(&trainer->lists, &pair->words, (uint32_t)word);
        }
        word += WORD_IDS + (size_t)head[WORD_LENGTH];
    }
    for (uint32_t i = 0; i < BYTES * BYTES; i++) {
        if (pairs[i].change > 0) {
            uint64_t pair = pair_of(first + i / BYTES, first + i % BYTES);
            *pair_table_at(&trainer->counts, pair) += pairs[i].change;
            heap_push(trainer, pair, pairs[i].change, pairs[i].words.head);
        }
    }
    free(pairs);
}

static Neighbour *touch(Side *side, uint32_t id)
{
    Neighbour *neighbour = &side->of[id];
    if (neighbour->change == 0 && neighbour->words.head == 0) {
        side->touched[side->touched_count++] = id;
    }
    return neighbour;
}

/* The merged pair has `id` as its neighbour on this side, in this word. The pair of the new
 * token with itself has one list, whichever side it comes up on. */
static void meet(Trainer *trainer, Side *side, uint32_t id, uint32_t result, uint32_t word,
                 int64_t count)
{
    touch(side, id)->change += count;
    if (fits(trainer, id, result)) {
        Side *owner = id == result ? &trainer->before : side;
        word_list_add(&trainer->lists, &touch(owner, id)->words, word);
    }
}

/* Left to right; what was merged already is a neighbour of what comes. */
static void merge_in_word(Trainer *trainer, uint32_t word, uint64_t pair, uint32_t result)
{
    uint32_t *head = trainer->text + word, *ids = head + WORD_IDS, length = head[WORD_LENGTH];
    uint32_t left = pair_left(pair), right = pair_right(pair), in = 0, out = 0;
    uint64_t count;
    memcpy(&count, head + WORD_COUNT, sizeof count);
    while (in < length) {
        if (ids[in] != left || in + 1 == length || ids[in + 1] != right) {
            ids[out++] = ids[in++];
            continue;
        }
        if (out > 0) {
            meet(trainer, &trainer->before, ids[out - 1], result, word, (int64_t)count);
        }
        in += 2;
        if (in < length) {
            meet(trainer, &trainer->after, ids[in], result, word, (int64_t)count);
        }
        ids[out++] = result;
    }
    head[WORD_LENGTH] = out;
}

/* What the neighbours on one side lose with the merged pair and win with the new token. */
static void count_changes(Trainer *trainer, const Side *side, uint64_t pair, uint32_t result)
{
    bool before = side == &trainer->before;
    for (size_t i = 0; i < side->touched_count; i++) {
        uint32_t id = side->touched[i];
        uint64_t lost = before ? pair_of(id, pair_left(pair)) : pair_of(pair_right(pair), id);
        *pair_table_at(&trainer->counts, lost) -= side->of[id].change;
        if (fits(trainer, id, result)) {
            uint64_t won = before ? pair_of(id, result) : pair_of(result, id);
            *pair_table_at(&trainer->counts, won) += side->of[id].change;
        }
    }
}

/* A candidate for every pair that came up and is still there; the side is as new then. */
static void push_candidates(Trainer *trainer, Side *side, uint32_t result)
{
    for (size_t i = 0; i < side->touched_count; i++) {
        uint32_t id = side->touched[i], list = side->of[id].words.head;
        uint64_t pair = side == &trainer->before ? pair_of(id, result) : pair_of(result, id);
        int64_t count = list != 0 ? pair_table_get(&trainer->counts, pair) : 0;
        if (count > 0) {
            heap_push(trainer, pair, count, list);
        } else {
            uint32_t unused[WORD_LIST_CHUNK];
            while (word_list_take(&trainer->lists, &list, unused)) {}
        }
        side->of[id] = (Neighbour){0};
    }
    side->touched_count = 0;
}

static void merge(Trainer *trainer, PairEntry entry)
{
    Token left = trainer->tokens[pair_left(entry.pair)];
    Token right = trainer->tokens[pair_right(entry.pair)];
    memcpy(trainer->scratch, left.bytes, left.size);
    memcpy(trainer->scratch + left.size, right.bytes, right.size);
    uint32_t result = token_id(trainer, trainer->scratch, (size_t)left.size + right.size);
    trainer->merges = mem_grow(trainer->merges, trainer->merge_count, &trainer->merge_capacity,
                               sizeof *trainer->merges);
    trainer->merges[trainer->merge_count++] = entry.pair;

    uint32_t words[WORD_LIST_CHUNK];
    while (word_list_take(&trainer->lists, &entry.list, words)) {
        for (int i = 0; i < WORD_LIST_CHUNK && words[i] != 0; i++) {
            merge_in_word(trainer, words[i], entry.pair, result);
        }
    }
    count_changes(trainer, &trainer->before, entry.pair, result);
    count_changes(trainer, &trainer->after, entry.pair, result);
    push_candidates(trainer, &trainer->before, result);
    push_candidates(trainer, &trainer->after, result);
}

static void report(const Trainer *trainer, uint32_t done)
{
    if (trainer->options.progress != NULL) {
        trainer->options.progress(trainer->options.context, done, trainer->options.vocab);
    }
}

static void merge_all(Trainer *trainer)
{
    uint32_t reported = 0;
    while (trainer->token_count < trainer->options.vocab && trainer->heap_count > 0) {
        PairEntry top = trainer->heap[0];
        int64_t count = pair_table_get(&trainer->counts, top.pair);
        if (top.count != count) {
            heap_recount(trainer, count);
            continue;
        }
        if (count < 1 || (uint64_t)count < trainer->options.min_frequency) {
            break;
        }
        merge(trainer, heap_pop(trainer));
        if (trainer->token_count - reported >= PROGRESS_EVERY) {
            reported = trainer->token_count;
            report(trainer, reported);
        }
    }
    report(trainer, trainer->token_count);
}

static int build(const Trainer *trainer, Tokenizer *tokenizer)
{
    int rc = 0;
    for (uint32_t id = 0; rc == 0 && id < trainer->token_count; id++) {
        Token token = trainer->tokens[id];
        if (id < trainer->options.special_count) {
            AddedToken added = {.id = id, .special = true, .normalized = false};
            rc = tokenizer_add_added(tokenizer, added, token.bytes, token.size);
        } else {
            rc = tokenizer_add_token(tokenizer, id, token.bytes, token.size);
        }
    }
    for (size_t i = 0; rc == 0 && i < trainer->merge_count; i++) {
        rc = tokenizer_add_merge(tokenizer, pair_left(trainer->merges[i]),
                                 pair_right(trainer->merges[i]));
    }
    rc = rc == 0 ? tokenizer_set_pattern(tokenizer, trainer->options.pattern) : rc;
    return rc == 0 ? tokenizer_finish(tokenizer) : rc;
}

/* All that a merge needs, which the tokenizer does without. */
static void free_words(Trainer *trainer)
{
    free(trainer->text);
    pair_table_free(&trainer->counts);
    free(trainer->heap);
    free(trainer->lists.chunks);
}

static int train(Trainer *trainer, const WordCount *words, Tokenizer **out)
{
    add_first_tokens(trainer);
    bool merges = trainer->options.max_token_bytes > 1;
    int rc = merges ? load_words(trainer, words) : 0;
    if (rc == 0 && merges) {
        count_bytes(trainer);
        merge_all(trainer);
    }
    free_words(trainer);
    if (rc != 0) {
        return rc;
    }
    Tokenizer *tokenizer = tokenizer_new();
    rc = build(trainer, tokenizer);
    if (rc != 0) {
        tokenizer_free(tokenizer);
        return rc;
    }
    *out = tokenizer;
    return 0;
}

int bpe_train(const WordCount *words, BpeTrainOptions options, Tokenizer **out)
{
    *out = NULL;
    int rc = bpe_train_check(&options);
    if (rc != 0) {
        return rc;
    }
    if (options.max_token_bytes == 0 || options.max_token_bytes > TOKENIZER_MAX_TOKEN_BYTES) {
        options.max_token_bytes = TOKENIZER_MAX_TOKEN_BYTES;
    }
    Trainer trainer = {.options = options};
    trainer.ids = word_table_open(0);
    trainer.scratch = mem_alloc(options.max_token_bytes);
    pair_table_init(&trainer.counts);
    rc = train(&trainer, words, out);
    free(trainer.tokens);
    free(trainer.before.of);
    free(trainer.before.touched);
    free(trainer.after.of);
    free(trainer.after.touched);
    free(trainer.merges);
    free(trainer.scratch);
    word_table_close(trainer.ids);
    return rc;
}
