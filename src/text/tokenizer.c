/* The tokenizer as tables. A WordTable keeps the bytes of tokens and says which token has these
 * bytes. Which merge joins two ids is asked for every pair of neighbours in every word, so the
 * number of a pair is the whole answer: one more than the rank, and the result. */
#include "text/tokenizer.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "text/decode.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define NO_ID UINT32_MAX

Tokenizer *tokenizer_new(void)
{
    Tokenizer *t = mem_zalloc(1, sizeof *t);
    t->ids = word_table_open(0);
    t->added_ids = word_table_open(0);
    pair_table_init(&t->merge_of);
    t->unknown = NO_ID;
    return t;
}

const char *const tokenizer_part_names[TOKENIZER_PARTS] = {
    [PART_NORMALIZER] = "normalizer",
    [PART_PRE_TOKENIZER] = "pre_tokenizer",
    [PART_DECODER] = "decoder",
};

const char *const tokenizer_unused_names[TOKENIZER_UNUSED] = {
    [UNUSED_TRUNCATION] = "truncation",
    [UNUSED_PADDING] = "padding",
    [UNUSED_POST_PROCESSOR] = "post_processor",
};

void tokenizer_free(Tokenizer *tokenizer)
{
    if (tokenizer == NULL) {
        return;
    }
    pretok_close(tokenizer->pretok);
    free(tokenizer->tokens);
    word_table_close(tokenizer->ids);
    word_table_close(tokenizer->added_ids);
    free(tokenizer->merges);
    pair_table_free(&tokenizer->merge_of);
    free(tokenizer->added);
    splits_free(&tokenizer->splits);
    normalizer_free(&tokenizer->normalizer);
    decoder_free(&tokenizer->decoder);
    pair_table_free(&tokenizer->joints);
    free(tokenizer->texts);
    free(tokenizer->text_bytes);
    for (int i = 0; i < TOKENIZER_PARTS; i++) {
        free(tokenizer->parts[i]);
    }
    for (int i = 0; i < TOKENIZER_UNUSED; i++) {
        free(tokenizer->unused[i]);
    }
    free(tokenizer);
}

static ShownToken shown_id(const Tokenizer *t, uint32_t id)
{
    return token_shown(t->tokens[id].bytes, t->tokens[id].size);
}

/* Tokens. */

static bool has_token(const Tokenizer *t, uint32_t id)
{
    return id < t->vocab && t->tokens[id].size > 0;
}

static bool find_id(const WordTable *ids, const uint8_t *bytes, size_t size, uint32_t *id)
{
    uint64_t number;
    bool found = word_table_find(ids, bytes, size, size, &number);
    *id = found ? (uint32_t)(number - 1) : NO_ID;
    return found;
}

/* These bytes are the token `id`, unless they were another one before. Returns where the table
 * keeps them. */
static const uint8_t *put_id(WordTable *ids, const uint8_t *bytes, size_t size, uint32_t id)
{
    const uint8_t *stored;
    uint64_t *number = word_table_keep(ids, bytes, size, &stored);
    *number = *number == 0 ? (uint64_t)id + 1 : *number;
    return stored;
}

static int check_limits(const Tokenizer *t, uint32_t id, const uint8_t *bytes, size_t size)
{
    ShownToken shown = token_shown(bytes, size);
    if (id >= TOKENIZER_MAX_VOCAB) {
        return err_set(ERR_INPUT, "token \"%s\" has id %" PRIu32 "; ids go up to %u", shown.text,
                       id, TOKENIZER_MAX_VOCAB - 1);
    }
    if (size == 0) {
        return err_set(ERR_INPUT, "the token with id %" PRIu32 " is empty", id);
    }
    if (size > TOKENIZER_MAX_TOKEN_BYTES) {
        return err_set(ERR_INPUT, "token \"%s\" has %zu bytes; at most %u are allowed", shown.text,
                       size, TOKENIZER_MAX_TOKEN_BYTES);
    }
    if (size > UINT32_MAX - t->all_bytes) {
        return err_set(ERR_INPUT, "all tokens together have more than 4 GiB");
    }
    return 0;
}

/* Stores the bytes under an id that has none. */
static void place_token(Tokenizer *t, uint32_t id, const uint8_t *bytes, size_t size)
{
    if (id >= t->token_capacity) {
        size_t capacity = id + (size_t)id / 2 + 1024;
        capacity = capacity < TOKENIZER_MAX_VOCAB ? capacity : TOKENIZER_MAX_VOCAB;
        t->tokens = mem_realloc(t->tokens, capacity, sizeof *t->tokens);
        memset(t->tokens + t->token_capacity, 0,
               (capacity - t->token_capacity) * sizeof *t->tokens);
        t->token_capacity = capacity;
    }
    t->tokens[id] = (Token){put_id(t->ids, bytes, size, id), (uint32_t)size};
    t->all_bytes += size;
    t->vocab = id >= t->vocab ? id + 1 : t->vocab;
}

/* `shared`: the bytes may belong to another token too, which tokenizer_find goes on to give. */
static int add_token(Tokenizer *t, uint32_t id, const uint8_t *bytes, size_t size, bool shared)
{
    PACER_ASSERT(!t->finished, "token %" PRIu32 " comes after tokenizer_finish", id);
    int code = check_limits(t, id, bytes, size);
    if (code != 0) {
        return code;
    }
    if (has_token(t, id)) {
        return err_set(ERR_INPUT, "tokens \"%s\" and \"%s\" have the same id, %" PRIu32,
                       shown_id(t, id).text, token_shown(bytes, size).text, id);
    }
    uint32_t other;
    if (!shared && find_id(t->ids, bytes, size, &other)) {
        return err_set(ERR_INPUT, "token \"%s\" is there twice, with ids %" PRIu32 " and %" PRIu32,
                       token_shown(bytes, size).text, other, id);
    }
    place_token(t, id, bytes, size);
    return 0;
}

int tokenizer_add_token(Tokenizer *tokenizer, uint32_t id, const uint8_t *bytes, size_t size)
{
    return add_token(tokenizer, id, bytes, size, false);
}

bool tokenizer_find(const Tokenizer *tokenizer, const uint8_t *bytes, size_t size, uint32_t *id)
{
    return find_id(tokenizer->ids, bytes, size, id);
}

bool tokenizer_find_added(const Tokenizer *tokenizer, const uint8_t *bytes, size_t size,
                          uint32_t *id)
{
    return find_id(tokenizer->added_ids, bytes, size, id);
}

const uint8_t *tokenizer_bytes(const Tokenizer *tokenizer, uint32_t id, size_t *size)
{
    const Token *texts = tokenizer->texts != NULL ? tokenizer->texts : tokenizer->tokens;
    bool there = has_token(tokenizer, id);
    *size = there ? texts[id].size : 0;
    return there ? texts[id].bytes : NULL;
}

/* Merges. */

static int64_t merge_number(size_t rank, uint32_t result)
{
    return (int64_t)((uint64_t)(rank + 1) << 32 | result);
}

bool tokenizer_merge_of(const Tokenizer *tokenizer, uint32_t left, uint32_t right, uint32_t *rank,
                        uint32_t *result)
{
    uint64_t number = (uint64_t)pair_table_get(&tokenizer->merge_of, pair_of(left, right));
    *rank = (uint32_t)(number >> 32) - 1;
    *result = (uint32_t)number;
    return number != 0;
}

/* The token that is left's bytes and then right's, or NO_ID. */
static uint32_t joined(const Tokenizer *t, uint32_t left, uint32_t right)
{
    Token a = t->tokens[left], b = t->tokens[right];
    size_t size = (size_t)a.size + b.size;
    uint8_t small[256], *both = size > sizeof small ? mem_alloc(size) : small;
    memcpy(both, a.bytes, a.size);
    memcpy(both + a.size, b.bytes, b.size);
    uint32_t id;
    find_id(t->ids, both, size, &id);
    if (both != small) {
        free(both);
    }
    return id;
}

int tokenizer_add_merge(Tokenizer *tokenizer, uint32_t left, uint32_t right)
{
    Tokenizer *t = tokenizer;
    PACER_ASSERT(!t->finished, "a merge comes after tokenizer_finish");
    if (!has_token(t, left) || !has_token(t, right)) {
        return err_set(ERR_INPUT,
                       "the merge of ids %" PRIu32 " and %" PRIu32 ": id %" PRIu32 " has no token",
                       left, right, has_token(t, left) ? right : left);
    }
    uint32_t result = joined(t, left, right);
    if (result == NO_ID) {
        return err_set(ERR_INPUT, "the merge of \"%s\" and \"%s\" makes something that is no token",
                       shown_id(t, left).text, shown_id(t, right).text);
    }
    if (t->merge_count == NO_ID) {
        return err_set(ERR_INPUT, "more than %u merges", NO_ID);
    }
    t->merges = mem_grow(t->merges, t->merge_count, &t->merge_capacity, sizeof *t->merges);
    uint32_t rank;
    if (tokenizer_merge_of(t, left, right, &rank, &(uint32_t){0})) {
        t->merges[rank].result = NO_ID; /* given again: the last one counts */
    }
    *pair_table_at(&t->merge_of, pair_of(left, right)) = merge_number(t->merge_count, result);
    t->merges[t->merge_count++] = (Merge){left, right, result};
    return 0;
}

/* Takes out the merges that were given again later, and numbers the others. */
static void rank_merges(Tokenizer *t)
{
    size_t kept = 0;
    for (size_t i = 0; i < t->merge_count; i++) {
        Merge merge = t->merges[i];
        if (merge.result != NO_ID) {
            *pair_table_at(&t->merge_of, pair_of(merge.left, merge.right)) =
                merge_number(kept, merge.result);
            t->merges[kept++] = merge;
        }
    }
    t->merge_count = kept;
}

/* Added tokens. */

int tokenizer_add_added(Tokenizer *tokenizer, AddedToken added, const uint8_t *bytes, size_t size)
{
    Tokenizer *t = tokenizer;
    PACER_ASSERT(!t->finished, "added token %" PRIu32 " comes after tokenizer_finish", added.id);
    uint32_t other;
    if (tokenizer_find_added(t, bytes, size, &other)) {
        return err_set(ERR_INPUT, "added token \"%s\" is there twice",
                       token_shown(bytes, size).text);
    }
    added.apart = !has_token(t, added.id) || t->tokens[added.id].size != size ||
                  memcmp(t->tokens[added.id].bytes, bytes, size) != 0;
    if (added.apart) {
        int code = add_token(t, added.id, bytes, size, true);
        if (code != 0) {
            return code;
        }
    }
    put_id(t->added_ids, bytes, size, added.id);
    t->added = mem_realloc(t->added, t->added_count + 1, sizeof *t->added);
    t->added[t->added_count++] = added;
    return 0;
}

/* For AddedTokens, which begin with their id, and for ids. */
static int by_id(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

const AddedToken *tokenizer_added_of(const Tokenizer *t, uint32_t id)
{
    return t->added_count == 0 ? NULL
                               : bsearch(&id, t->added, t->added_count, sizeof *t->added, by_id);
}

/* The hash, which identifies a tokenizer in datasets and checkpoints, whichever file it is from. */

static void hash_number(XXH3_state_t *state, uint32_t number)
{
    const uint8_t bytes[4] = {(uint8_t)number, (uint8_t)(number >> 8), (uint8_t)(number >> 16),
                              (uint8_t)(number >> 24)};
    XXH3_64bits_update(state, bytes, sizeof bytes);
}

static void hash_text(XXH3_state_t *state, const char *text)
{
    hash_number(state, (uint32_t)strlen(text));
    XXH3_64bits_update(state, text, strlen(text));
}

/* Tokens in the order of ids, merges in the order of ranks, added tokens, pattern and
 * ignore_merges, each with its length before it; then what plain byte-level BPE does not have. */
static uint64_t hash_parts(const Tokenizer *t)
{
    XXH3_state_t *state = mem_checked(XXH3_createState(), sizeof(XXH3_state_t *));
    XXH3_64bits_reset(state);
    hash_number(state, t->vocab);
    for (uint32_t id = 0; id < t->vocab; id++) {
        hash_number(state, t->tokens[id].size);
        if (t->tokens[id].size > 0) {
            XXH3_64bits_update(state, t->tokens[id].bytes, t->tokens[id].size);
        }
    }
    hash_number(state, (uint32_t)t->merge_count);
    for (size_t i = 0; i < t->merge_count; i++) {
        hash_number(state, t->merges[i].left);
        hash_number(state, t->merges[i].right);
    }
    hash_number(state, (uint32_t)t->added_count);
    for (size_t i = 0; i < t->added_count; i++) {
        const AddedToken *added = &t->added[i];
        hash_number(state, added->id);
        hash_number(state, (uint32_t)added->special | (uint32_t)added->normalized << 1 |
                               (uint32_t)added->single_word << 2 | (uint32_t)added->lstrip << 3 |
                               (uint32_t)added->rstrip << 4);
    }
    hash_text(state, t->pretok != NULL ? pretok_identity(t->pretok) : "");
    hash_number(state, t->ignore_merges);
    for (int i = 0; i < PART_DECODER; i++) {
        if (t->parts[i] != NULL) {
            hash_number(state, (uint32_t)i);
            hash_text(state, t->parts[i]);
        }
    }
    if (t->characters) {
        hash_number(state, t->fuse_unknown);
        hash_number(state, t->unknown);
        hash_number(state, t->byte_fallback);
    }
    uint64_t hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return hash;
}

/* True for TOKENIZER_BYTES, also when it was written to a file and read again. */
static bool is_bytes_tokenizer(const Tokenizer *t)
{
    const size_t end_size = sizeof TOKENIZER_END - 1;
    bool same =
        t->vocab == 257 && t->merge_count == 0 && t->added_count == 1 && t->added->id == 256 &&
        t->added->special && !t->added->normalized && !t->added->single_word && !t->added->lstrip &&
        !t->added->rstrip && !t->ignore_merges && t->normalizer.count == 0 && t->pretok != NULL &&
        strcmp(pretok_name(t->pretok), PRETOK_GPT2) == 0 && t->tokens[256].size == end_size &&
        memcmp(t->tokens[256].bytes, TOKENIZER_END, end_size) == 0;
    for (uint32_t byte = 0; same && byte < 256; byte++) {
        same = t->byte_ids[byte] == byte;
    }
    return same;
}

/* Characters. */

static uint32_t last_character(Token token)
{
    size_t start = token.size - 1;
    while (start > 0 && (token.bytes[start] & 0xc0) == 0x80) {
        start--;
    }
    int length;
    return utf8_decode(token.bytes + start, token.size - start, &length);
}

/* Two characters that no merge has on its two sides end and begin a token each, whatever is around
 * them. That holds where every character is either a token or bytes, and no merge has to do with
 * these. */
static void find_joints(Tokenizer *t)
{
    pair_table_init(&t->joints);
    t->has_joints = true;
    for (size_t i = 0; i < 256; i++) {
        t->has_joints = t->has_joints && t->byte_ids[i] != NO_ID;
    }
    for (size_t i = 0; i < t->merge_count; i++) {
        Token left = t->tokens[t->merges[i].left], right = t->tokens[t->merges[i].right];
        uint8_t byte;
        int length;
        t->has_joints = t->has_joints && !token_is_byte(left.bytes, left.size, &byte) &&
                        !token_is_byte(right.bytes, right.size, &byte);
        uint32_t last = last_character(left), next = utf8_decode(right.bytes, right.size, &length);
        *pair_table_at(&t->joints, pair_of(last, next)) = 1;
        if (last < 0x80 && next < 0x80) {
            t->ascii_joints[last][next] = 1;
        }
    }
}

/* The ids of bytes, where the model falls back to them. */
static int find_fallback(Tokenizer *t)
{
    bool all = t->byte_fallback;
    for (unsigned i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        t->byte_ids[i] = NO_ID;
        bool found = t->byte_fallback &&
                     tokenizer_find(t, (const uint8_t *)name, strlen(name), &t->byte_ids[i]);
        all = all && found;
    }
    if (!all && t->unknown == NO_ID) {
        return err_set(ERR_INPUT,
                       "model: characters without a token would be lost: there is neither "
                       "byte_fallback with all of <0x00> to <0xFF> nor an unk_token");
    }
    return 0;
}

/* The whole. */

int tokenizer_set_pattern(Tokenizer *tokenizer, const char *pattern)
{
    PACER_ASSERT(!tokenizer->finished, "the pattern comes after tokenizer_finish");
    pretok_close(tokenizer->pretok);
    tokenizer->pretok = NULL;
    return pretok_open(pattern, &tokenizer->pretok);
}

static int find_bytes(Tokenizer *t)
{
    for (int i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        if (!tokenizer_find(t, &byte, 1, &t->byte_ids[i])) {
            return err_set(ERR_INPUT,
                           "byte 0x%02x (\"%s\") has no token; pacer needs one for each of the 256 "
                           "bytes (train with the whole byte-level alphabet)",
                           (unsigned)i, token_shown(&byte, 1).text);
        }
    }
    return 0;
}

int tokenizer_finish(Tokenizer *tokenizer)
{
    Tokenizer *t = tokenizer;
    PACER_ASSERT(!t->finished, "tokenizer_finish comes twice");
    PACER_ASSERT(t->pretok != NULL || t->parts[PART_PRE_TOKENIZER] != NULL,
                 "tokenizer_finish comes before tokenizer_set_pattern");
    int code = t->characters ? find_fallback(t) : find_bytes(t);
    if (code != 0) {
        return code;
    }
    if (t->added_count > 0) {
        qsort(t->added, t->added_count, sizeof *t->added, by_id);
    }
    rank_merges(t);
    if (t->characters) {
        find_joints(t);
    }
    if (t->characters || t->normalizer.count > 0) {
        tokenizer_make_texts(t);
    }
    /* Every byte tokenizer is the same, so its name identifies it. */
    t->hash = is_bytes_tokenizer(t) ? io_hash(TOKENIZER_BYTES, sizeof TOKENIZER_BYTES - 1)
                                    : hash_parts(t);
    t->finished = true;
    return 0;
}
