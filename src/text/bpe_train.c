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
#include "text/bpe_pairs.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, PROGRESS_EVERY = 128 };

/* A word in `text`: its count in two halves, its length, its ids. It is named by where it starts,
 * which is never 0. */
enum { WORD_COUNT = 0, WORD_LENGTH = 2, WORD_IDS = 3 };

typedef struct {
    const uint8_t *bytes; /* in `ids` */
    uint32_t size;
} Token;

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
    PairHeap heap;
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

/* Of equally frequent pairs: the one with the smaller ids. */
static bool ids_before(const void *context, uint64_t a, uint64_t b)
{
    (void)context;
    return a < b;
}

static int compare_tokens(Token a, Token b)
{
    int order = memcmp(a.bytes, b.bytes, a.size < b.size ? a.size : b.size);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

/* Of equally frequent pairs: the greater one as byte strings. */
static bool strings_before(const void *context, uint64_t a, uint64_t b)
{
    const Token *tokens = ((const Trainer *)context)->tokens;
    int order = compare_tokens(tokens[pair_left(a)], tokens[pair_left(b)]);
    return (order != 0 ? order : compare_tokens(tokens[pair_right(a)], tokens[pair_right(b)])) > 0;
}

/* Room for `size` more numbers behind the first `used` ones; false when that is more than words
 * can be named in. */
static bool grow_text(Trainer *trainer, size_t used, size_t size)
{
    if (used + size > trainer->text_capacity) {
        size_t capacity = (used + size) / 2 * 3 + 1024;
        if (used + size > UINT32_MAX) {
            return false;
        }
        trainer->text = mem_realloc(trainer->text, capacity, sizeof *trainer->text);
        trainer->text_capacity = capacity;
    }
    return true;
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
        if (!grow_text(trainer, used, WORD_IDS + (size_t)word.size)) {
            return err_set(ERR_INPUT,
                           "%zu different words are more than BPE training holds; train on a part "
                           "of the text",
                           count);
        }
        uint32_t *out = trainer->text + used;
        memcpy(out + WORD_COUNT, &word.count, sizeof word.count);
        out[WORD_LENGTH] = word.size;
        for (uint32_t k = 0; k < word.size; k++) {
            out[WORD_IDS + k] = trainer->byte_ids[word.bytes[k]];
        }
        used += WORD_IDS + (size_t)word.size;
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
            pair_table_add(&trainer->counts, pair, pairs[i].change);
            pair_heap_push(&trainer->heap, pair, pairs[i].change, pairs[i].words.head);
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

static void count_changes(Trainer *trainer, uint64_t pair, uint32_t result)
{
    for (size_t i = 0; i < trainer->before.touched_count; i++) {
        uint32_t id = trainer->before.touched[i];
        int64_t change = trainer->before.of[id].change;
        pair_table_add(&trainer->counts, pair_of(id, pair_left(pair)), -change);
        if (fits(trainer, id, result)) {
            pair_table_add(&trainer->counts, pair_of(id, result), change);
        }
    }
    for (size_t i = 0; i < trainer->after.touched_count; i++) {
        uint32_t id = trainer->after.touched[i];
        int64_t change = trainer->after.of[id].change;
        pair_table_add(&trainer->counts, pair_of(pair_right(pair), id), -change);
        if (fits(trainer, id, result)) {
            pair_table_add(&trainer->counts, pair_of(result, id), change);
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
            pair_heap_push(&trainer->heap, pair, count, list);
        } else {
            uint32_t unused[WORD_LIST_CHUNK];
            while (word_list_take(&trainer->lists, &list, unused)) {}
        }
        side->of[id] = (Neighbour){0};
    }
    side->touched_count = 0;
}

static void record_merge(Trainer *trainer, uint64_t pair)
{
    if (trainer->merge_count == trainer->merge_capacity) {
        trainer->merge_capacity = trainer->merge_capacity > 0 ? 2 * trainer->merge_capacity : 1024;
        trainer->merges =
            mem_realloc(trainer->merges, trainer->merge_capacity, sizeof *trainer->merges);
    }
    trainer->merges[trainer->merge_count++] = pair;
}

static void merge(Trainer *trainer, PairEntry entry)
{
    Token left = trainer->tokens[pair_left(entry.pair)];
    Token right = trainer->tokens[pair_right(entry.pair)];
    memcpy(trainer->scratch, left.bytes, left.size);
    memcpy(trainer->scratch + left.size, right.bytes, right.size);
    uint32_t result = token_id(trainer, trainer->scratch, (size_t)left.size + right.size);
    record_merge(trainer, entry.pair);

    uint32_t words[WORD_LIST_CHUNK];
    while (word_list_take(&trainer->lists, &entry.list, words)) {
        for (int i = 0; i < WORD_LIST_CHUNK && words[i] != 0; i++) {
            merge_in_word(trainer, words[i], entry.pair, result);
        }
    }
    count_changes(trainer, entry.pair, result);
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
    while (trainer->token_count < trainer->options.vocab && trainer->heap.count > 0) {
        PairEntry top = trainer->heap.entries[0];
        int64_t count = pair_table_get(&trainer->counts, top.pair);
        if (top.count != count) {
            pair_heap_recount(&trainer->heap, count);
            continue;
        }
        if (count < 1 || (uint64_t)count < trainer->options.min_frequency) {
            break;
        }
        merge(trainer, pair_heap_pop(&trainer->heap));
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
    trainer->text = NULL;
    pair_table_free(&trainer->counts);
    pair_heap_free(&trainer->heap);
    word_lists_free(&trainer->lists);
}

static int train(Trainer *trainer, const WordCount *words, Tokenizer **out)
{
    int rc;
    add_first_tokens(trainer);
    if (trainer->options.max_token_bytes > 1) {
        rc = load_words(trainer, words);
        if (rc != 0) {
            return rc;
        }
        count_bytes(trainer);
        merge_all(trainer);
    }
    free_words(trainer);
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
    trainer.heap.before = options.ties == TIES_IDS ? ids_before : strings_before;
    trainer.heap.context = &trainer;
    trainer.ids = word_table_open(0);
    trainer.scratch = mem_alloc(options.max_token_bytes);
    pair_table_init(&trainer.counts);
    rc = train(&trainer, words, out);
    free_words(&trainer);
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
