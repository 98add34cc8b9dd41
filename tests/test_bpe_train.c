/* Merges against those that Hugging Face tokenizers 0.23 made of the same text (ByteLevel without a
 * prefix space, BpeTrainer with the byte alphabet), against a trainer that counts everything anew
 * before each merge, and against examples worked out by hand. */
#include "text/bpe_train.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define PATTERN_WORDS "\\S+" /* what lies between the words is white space, piece by piece */

static const char STORY[] =
    "Once upon a time there was a fox who had no shoes. The fox went to the shop; the shop had "
    "shoes for bears, for mice and for three hens, but it had none for a fox. \"Then I shall go "
    "home,\" said the fox, and there he went.";

static const ByteString END = {(const uint8_t *)"<|endoftext|>", 13};

typedef struct {
    uint32_t left, right;
} IdPair;

static WordCount *count_words(const char *text, const char *pattern, Pretok **pretok)
{
    assert_int_equal(pretok_open(pattern, pretok), 0);
    WordCount *words = word_count_open((WordCountOptions){.pretok = *pretok, .threads = 1});
    word_count_put(words, text, strlen(text));
    word_count_flush(words);
    return words;
}

static int try_train(const char *text, BpeTrainOptions options, Tokenizer **out)
{
    Pretok *pretok;
    options.pattern = options.pattern != NULL ? options.pattern : PRETOK_GPT2;
    WordCount *words = count_words(text, options.pattern, &pretok);
    int rc = bpe_train(words, options, out);
    word_count_close(words);
    pretok_close(pretok);
    return rc;
}

static Tokenizer *train(const char *text, BpeTrainOptions options)
{
    Tokenizer *tokenizer;
    if (try_train(text, options, &tokenizer) != 0) {
        fail_msg("%s", err_message());
    }
    return tokenizer;
}

static void assert_merges(const Tokenizer *tokenizer, const IdPair *pairs, size_t count)
{
    const Merge *merges = tokenizer->merges;
    assert_int_equal(tokenizer->merge_count, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(merges[i].left, pairs[i].left);
        assert_int_equal(merges[i].right, pairs[i].right);
    }
}

static void assert_token(const Tokenizer *tokenizer, uint32_t id, const char *text)
{
    size_t size;
    const uint8_t *bytes = tokenizer_bytes(tokenizer, id, &size);
    assert_non_null(bytes);
    assert_int_equal(size, strlen(text));
    assert_memory_equal(bytes, text, size);
}

static const IdPair STORY_MERGES[] = {
    {72, 69},   {70, 79},   {221, 84},  {221, 258}, {72, 79},   {221, 83}, {221, 65},  {259, 257},
    {72, 65},   {221, 87},  {260, 82},  {260, 88},  {262, 261}, {82, 69},  {221, 265}, {271, 68},
    {52, 257},  {67, 69},   {69, 78},   {69, 83},   {77, 69},   {78, 68},  {78, 79},   {221, 66},
    {221, 257}, {221, 279}, {263, 278}, {264, 270}, {266, 275}, {269, 80}, {269, 276}, {285, 84},
    {12, 2},    {47, 78},   {65, 73},   {65, 82},   {65, 83},   {69, 292}, {71, 79},   {72, 270}};

static void test_bpe_train__makes_the_merges_of_hugging_face(void **state)
{
    (void)state;
    Tokenizer *tokenizer =
        train(STORY, (BpeTrainOptions){.vocab = 297, .specials = &END, .special_count = 1});
    assert_merges(tokenizer, STORY_MERGES, 40);
    assert_int_equal(tokenizer->vocab, 297);
    assert_token(tokenizer, 0, "<|endoftext|>");
    assert_token(tokenizer, 1, "!");
    assert_token(tokenizer, 94, "~");
    assert_token(tokenizer, 95, "\xa1");
    assert_token(tokenizer, 190, "\x01");
    assert_token(tokenizer, 221, " ");
    assert_token(tokenizer, 256, "\xad");
    assert_token(tokenizer, 257, "he");
    assert_token(tokenizer, 288, " went");
    assert_token(tokenizer, 296, "hre");
    const AddedToken *added = tokenizer->added;
    assert_int_equal(tokenizer->added_count, 1);
    assert_true(added[0].id == 0 && added[0].special && !added[0].normalized);
    assert_string_equal(pretok_name(tokenizer->pretok), PRETOK_GPT2);
    tokenizer_free(tokenizer);
}

static void test_bpe_train__merges_bytes_of_any_script(void **state)
{
    (void)state;
    static const IdPair pairs[] = {{82, 128},  {99, 163},  {115, 128}, {163, 246}, {221, 260},
                                   {251, 106}, {257, 259}, {258, 262}, {261, 264}, {263, 254},
                                   {65, 70},   {67, 267},  {71, 266},  {128, 103}, {221, 268},
                                   {221, 269}, {271, 270}, {39, 266},  {65, 77},   {65, 128},
                                   {69, 78},   {69, 82},   {78, 276},  {84, 277}};
    Tokenizer *tokenizer =
        train("Größe größer am größten. 日本語 日本 日本人 naïve café cafés",
              (BpeTrainOptions){.vocab = 281, .specials = &END, .special_count = 1});
    assert_merges(tokenizer, pairs, 24);
    assert_token(tokenizer, 265, " 日本");
    tokenizer_free(tokenizer);
}

static void test_bpe_train__stops_at_the_least_frequency(void **state)
{
    (void)state;
    Tokenizer *tokenizer = train(
        STORY,
        (BpeTrainOptions){.vocab = 1000, .specials = &END, .special_count = 1, .min_frequency = 5});
    assert_merges(tokenizer, STORY_MERGES, 8);
    assert_int_equal(tokenizer->vocab, 265);
    tokenizer_free(tokenizer);
}

static void count_reports(void *context, uint32_t done, uint32_t all)
{
    uint32_t *seen = context;
    assert_true(done >= seen[0]);
    seen[0] = done;
    seen[1] = all;
}

static void test_bpe_train__runs_out_of_pairs(void **state)
{
    (void)state;
    static const IdPair pairs[] = {{84, 70},   {71, 256},  {79, 256},
                                   {220, 257}, {220, 258}, {259, 82}};
    uint32_t seen[2] = {0};
    Tokenizer *tokenizer =
        train("hug hugs pug",
              (BpeTrainOptions){.vocab = 1000, .progress = count_reports, .context = seen});
    assert_merges(tokenizer, pairs, 6);
    assert_int_equal(tokenizer->vocab, 262);
    assert_true(seen[0] == 262 && seen[1] == 1000);
    tokenizer_free(tokenizer);

    tokenizer = train("a b c\n", (BpeTrainOptions){.vocab = 256, .pattern = PATTERN_WORDS});
    assert_int_equal(tokenizer->merge_count, 0);
    tokenizer_free(tokenizer);
    tokenizer = train("", (BpeTrainOptions){.vocab = 300});
    assert_int_equal(tokenizer->vocab, 256);
    tokenizer_free(tokenizer);
}

/* Hugging Face's max_token_length 5 lets pairs of less than 5 bytes be merged. */
static void test_bpe_train__keeps_tokens_short(void **state)
{
    (void)state;
    static const IdPair pairs[] = {
        {72, 69},   {70, 79},  {221, 84}, {221, 258}, {72, 79},   {221, 83},  {221, 65},
        {259, 257}, {72, 65},  {221, 87}, {260, 82},  {260, 88},  {262, 261}, {82, 69},
        {221, 265}, {271, 68}, {52, 257}, {67, 69},   {69, 78},   {69, 83},   {77, 69},
        {78, 68},   {78, 79},  {221, 66}, {221, 257}, {221, 279}, {263, 278}, {266, 275},
        {12, 2},    {47, 78},  {65, 73},  {65, 82},   {65, 83},   {69, 288},  {71, 79},
        {72, 270},  {73, 84},  {73, 274}, {73, 277},  {76, 76}};
    BpeTrainOptions options = {
        .vocab = 297, .specials = &END, .special_count = 1, .max_token_bytes = 4};
    Tokenizer *tokenizer = train(STORY, options);
    assert_merges(tokenizer, pairs, 40);
    tokenizer_free(tokenizer);
    options.max_token_bytes = 1;
    tokenizer = train(STORY, options);
    assert_int_equal(tokenizer->vocab, 257);
    tokenizer_free(tokenizer);
}

/* A special token that reads like text: the merge that makes its bytes takes its id. */
static void test_bpe_train__reuses_the_id_of_a_special_token(void **state)
{
    (void)state;
    static const IdPair pairs[] = {{73, 70},  {71, 80}, {222, 85}, {222, 258}, {73, 80}, {222, 84},
                                   {222, 66}, {259, 0}, {73, 66},  {222, 88},  {260, 83}};
    const ByteString specials[] = {{(const uint8_t *)"he", 2}, END};
    Tokenizer *tokenizer =
        train(STORY, (BpeTrainOptions){.vocab = 268, .specials = specials, .special_count = 2});
    assert_merges(tokenizer, pairs, 11);
    assert_int_equal(tokenizer->vocab, 268);
    assert_int_equal(tokenizer->merges[0].result, 0);
    tokenizer_free(tokenizer);
}

static void test_bpe_train__refuses_what_can_not_be(void **state)
{
    (void)state;
    Tokenizer *tokenizer;
    const ByteString twice[] = {END, END}, one = {(const uint8_t *)"x", 1}, none = {NULL, 0},
                     large = {mem_zalloc(1, TOKENIZER_MAX_TOKEN_BYTES + 1),
                              TOKENIZER_MAX_TOKEN_BYTES + 1};
    const BpeTrainOptions bad[] = {
        {.vocab = 255},
        {.vocab = 256, .specials = &END, .special_count = 1},
        {.vocab = TOKENIZER_MAX_VOCAB + 1},
        {.vocab = 300, .specials = twice, .special_count = 2},
        {.vocab = 300, .specials = &one, .special_count = 1},
        {.vocab = 300, .specials = &none, .special_count = 1},
        {.vocab = 300, .specials = &large, .special_count = 1},
        {.vocab = 300, .pattern = "("},
    };
    const char *const words[] = {"256 or more", "257 or more", "10000000",    "twice",
                                 "single byte", "empty",       "65536 bytes", ""};
    Pretok *pretok;
    WordCount *counts = count_words("some words", PRETOK_GPT2, &pretok);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        BpeTrainOptions options = bad[i];
        options.pattern = options.pattern != NULL ? options.pattern : PRETOK_GPT2;
        assert_int_equal(bpe_train(counts, options, &tokenizer), ERR_INPUT);
        assert_null(tokenizer);
        assert_non_null(strstr(err_message(), words[i]));
        bool pattern_alone = bad[i].pattern != NULL;
        assert_int_equal(bpe_train_check(&options), pattern_alone ? 0 : ERR_INPUT);
        assert_non_null(strstr(err_message(), words[i]));
    }
    free((void *)large.bytes);
    word_count_close(counts);
    pretok_close(pretok);
}

/* The example of many a course: of es, st (9 each) the greater is st; then est, ow, low, west,
 * ne. */
static void test_bpe_train__breaks_ties_for_the_greater_strings(void **state)
{
    (void)state;
    static const char text[] = "low low low low low\nlower lower widest widest widest\n"
                               "newest newest newest newest newest newest";
    static const char *const tokens[] = {"st", "est", "ow", "low", "west", "ne"};
    BpeTrainOptions options = {.vocab = 262, .ties = TIES_LEXICOGRAPHIC, .pattern = PATTERN_WORDS};
    Tokenizer *tokenizer = train(text, options);
    for (uint32_t i = 0; i < 6; i++) {
        assert_token(tokenizer, 256 + i, tokens[i]);
    }
    tokenizer_free(tokenizer);
    options.ties = TIES_IDS;
    tokenizer = train(text, options);
    assert_token(tokenizer, 256, "es");
    assert_token(tokenizer, 257, "est");
    tokenizer_free(tokenizer);

    /* ab is met twice, then only a ab is left. */
    tokenizer = train(
        "aab ab",
        (BpeTrainOptions){.vocab = 258, .ties = TIES_LEXICOGRAPHIC, .pattern = PATTERN_WORDS});
    assert_token(tokenizer, 256, "ab");
    assert_token(tokenizer, 257, "aab");
    tokenizer_free(tokenizer);
}

/* The other trainer: words as strings of ids, all pairs counted before each merge. */
enum { NAIVE_WORDS = 24, NAIVE_LENGTH = 12, NAIVE_TOKENS = 512 };

typedef struct {
    uint32_t ids[NAIVE_WORDS][NAIVE_LENGTH];
    int lengths[NAIVE_WORDS], words;
    char *tokens[NAIVE_TOKENS];
    uint32_t token_count;
} NaiveTrainer;

static int naive_count(const NaiveTrainer *naive, uint32_t left, uint32_t right)
{
    int count = 0;
    for (int w = 0; w < naive->words; w++) {
        for (int i = 0; i + 1 < naive->lengths[w]; i++) {
            count += naive->ids[w][i] == left && naive->ids[w][i + 1] == right;
        }
    }
    return count;
}

static bool naive_better(const NaiveTrainer *naive, BpeTies ties, IdPair a, IdPair b)
{
    if (ties == TIES_IDS) {
        return a.left != b.left ? a.left < b.left : a.right < b.right;
    }
    int order = strcmp(naive->tokens[a.left], naive->tokens[b.left]);
    return (order != 0 ? order : strcmp(naive->tokens[a.right], naive->tokens[b.right])) > 0;
}

static bool naive_best(const NaiveTrainer *naive, BpeTies ties, int least, IdPair *best)
{
    int best_count = 0;
    for (int w = 0; w < naive->words; w++) {
        for (int i = 0; i + 1 < naive->lengths[w]; i++) {
            IdPair pair = {naive->ids[w][i], naive->ids[w][i + 1]};
            int count = naive_count(naive, pair.left, pair.right);
            if (count > best_count ||
                (count == best_count && naive_better(naive, ties, pair, *best))) {
                best_count = count;
                *best = pair;
            }
        }
    }
    return best_count >= least && best_count > 0;
}

static void naive_merge(NaiveTrainer *naive, IdPair pair)
{
    uint32_t result = naive->token_count++;
    naive->tokens[result] = mem_format("%s%s", naive->tokens[pair.left], naive->tokens[pair.right]);
    for (int w = 0; w < naive->words; w++) {
        int out = 0;
        uint32_t *ids = naive->ids[w];
        for (int in = 0; in < naive->lengths[w]; in++) {
            bool here =
                in + 1 < naive->lengths[w] && ids[in] == pair.left && ids[in + 1] == pair.right;
            ids[out++] = here ? result : ids[in];
            in += here;
        }
        naive->lengths[w] = out;
    }
}

/* A random text of words over the first letters of the alphabet, for both trainers. */
static char *random_words(NaiveTrainer *naive, uint64_t seed)
{
    char *text = mem_zalloc(NAIVE_WORDS, NAIVE_LENGTH + 1), *out = text;
    uint64_t letters = 1 + rng_below(seed, 0, 0, 4), kinds = 2 + rng_below(seed, 0, 1, 10);
    naive->words = 1 + (int)rng_below(seed, 0, 2, NAIVE_WORDS);
    for (int w = 0; w < naive->words; w++) {
        uint64_t kind = 10 + rng_below(seed, 1, (uint64_t)w, kinds);
        naive->lengths[w] = 1 + (int)rng_below(seed, kind, 0, NAIVE_LENGTH);
        for (int i = 0; i < naive->lengths[w]; i++) {
            uint64_t letter = rng_below(seed, kind, 1 + (uint64_t)i, letters);
            naive->ids[w][i] = (uint32_t)('a' - '!' + letter);
            *out++ = (char)('a' + letter);
        }
        *out++ = ' ';
    }
    naive->token_count = 256;
    for (uint32_t i = 0; i <= '~' - '!'; i++) {
        naive->tokens[i] = mem_format("%c", (char)('!' + i));
    }
    return text;
}

static void test_bpe_train__equals_counting_anew_before_each_merge(void **state)
{
    (void)state;
    size_t merged = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        BpeTies ties = seed % 2 == 0 ? TIES_IDS : TIES_LEXICOGRAPHIC;
        uint64_t least = seed % 7 == 0 ? 2 : 1;
        NaiveTrainer *naive = mem_zalloc(1, sizeof *naive);
        char *text = random_words(naive, seed);
        IdPair pairs[NAIVE_TOKENS];
        size_t count = 0;
        while (count < 60 && naive_best(naive, ties, (int)least, &pairs[count])) {
            naive_merge(naive, pairs[count++]);
        }
        Tokenizer *tokenizer = train(text, (BpeTrainOptions){.vocab = 256 + 60,
                                                             .ties = ties,
                                                             .min_frequency = least,
                                                             .pattern = PATTERN_WORDS});
        assert_merges(tokenizer, pairs, count);
        merged += count;
        tokenizer_free(tokenizer);
        free(text);
        for (uint32_t i = 0; i < naive->token_count; i++) {
            free(naive->tokens[i]);
        }
        free(naive);
    }
    assert_true(merged > 3000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bpe_train__makes_the_merges_of_hugging_face),
        cmocka_unit_test(test_bpe_train__merges_bytes_of_any_script),
        cmocka_unit_test(test_bpe_train__stops_at_the_least_frequency),
        cmocka_unit_test(test_bpe_train__runs_out_of_pairs),
        cmocka_unit_test(test_bpe_train__keeps_tokens_short),
        cmocka_unit_test(test_bpe_train__reuses_the_id_of_a_special_token),
        cmocka_unit_test(test_bpe_train__refuses_what_can_not_be),
        cmocka_unit_test(test_bpe_train__breaks_ties_for_the_greater_strings),
        cmocka_unit_test(test_bpe_train__equals_counting_anew_before_each_merge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
