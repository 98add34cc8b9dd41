/* The built-in corpus: the same bytes for the same seed, whole stories, English that holds
 * together, and enough of it. */
#include "base/io.h"
#include "base/mem.h"
#include "data/stories.h"
#include "data/stories_engine.h"
#include "support/story_text.h"

#include <ctype.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MEGABYTE ((size_t)1 << 20)

/* XXH3 of the first MB of seed 1. The corpus is defined by its bytes: whoever changes the content
 * changes this number, and with it every result on builtin:stories. */
#define FIRST_MEGABYTE UINT64_C(0x88f98cf4b3a5cbcf)

/* ---- Bytes ---- */

static void test_stories__same_seed_same_bytes(void **state)
{
    (void)state;
    char *one = mem_alloc(MEGABYTE), *two = mem_alloc(MEGABYTE);
    uint64_t next_one, next_two;
    size_t used = stories_fill(1, 0, one, MEGABYTE, &next_one);
    assert_int_equal(stories_fill(1, 0, two, MEGABYTE, &next_two), used);
    assert_int_equal(next_one, next_two);
    assert_memory_equal(one, two, used);
    assert_true(used > MEGABYTE - STORY_MAX_BYTES);
    uint64_t hash = io_hash(one, used);
    if (hash != FIRST_MEGABYTE) {
        fail_msg("the first MB of seed 1 has the hash 0x%016llx", (unsigned long long)hash);
    }
    free(one);
    free(two);
}

static void test_stories__seeds_and_indices_differ(void **state)
{
    (void)state;
    char a[STORY_MAX_BYTES], b[STORY_MAX_BYTES];
    for (uint64_t seed = 0; seed < 50; seed++) {
        size_t size = story_write(seed, 7, a, sizeof a);
        assert_true(story_write(seed + 1, 7, b, sizeof b) != size || memcmp(a, b, size) != 0);
        assert_true(story_write(seed, 8, b, sizeof b) != size || memcmp(a, b, size) != 0);
    }
    size_t size = story_write(UINT64_MAX, UINT64_MAX, a, sizeof a);
    assert_int_equal(story_write(UINT64_MAX, UINT64_MAX, b, sizeof b), size);
    assert_memory_equal(a, b, size);
}

#define THREADS 4
#define PER_THREAD 200

typedef struct {
    uint64_t first;
    uint64_t hash[PER_THREAD];
} ThreadWork;

static void *write_stories(void *argument)
{
    ThreadWork *work = argument;
    char story[STORY_MAX_BYTES];
    for (uint64_t i = 0; i < PER_THREAD; i++) {
        size_t size = story_write(5, work->first + THREADS * i, story, sizeof story);
        work->hash[i] = io_hash(story, size);
    }
    return NULL;
}

static void test_stories__threads_write_the_same(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    ThreadWork work[THREADS];
    for (uint64_t t = 0; t < THREADS; t++) {
        work[t].first = t;
        assert_int_equal(pthread_create(&threads[t], NULL, write_stories, &work[t]), 0);
    }
    for (int t = 0; t < THREADS; t++) {
        assert_int_equal(pthread_join(threads[t], NULL), 0);
    }
    char story[STORY_MAX_BYTES];
    for (uint64_t i = 0; i < THREADS * PER_THREAD; i++) {
        size_t size = story_write(5, i, story, sizeof story);
        assert_int_equal(io_hash(story, size), work[i % THREADS].hash[i / THREADS]);
    }
}

/* ---- Filling ---- */

static void test_stories__fill_holds_whole_stories(void **state)
{
    (void)state;
    const size_t size = 100000;
    char *buffer = mem_alloc(size + 1);
    uint64_t next;
    buffer[size] = '#';
    size_t used = stories_fill(3, 10, buffer, size, &next);
    assert_int_equal(buffer[size], '#');
    char expected[STORY_MAX_BYTES];
    size_t at = 0;
    for (uint64_t i = 10; i < next; i++) {
        size_t length = story_write(3, i, expected, sizeof expected);
        assert_memory_equal(buffer + at, expected, length);
        assert_memory_equal(buffer + at + length, STORY_SEPARATOR, strlen(STORY_SEPARATOR));
        at += length + strlen(STORY_SEPARATOR);
    }
    assert_int_equal(at, used);
    /* The next one did not fit. */
    assert_true(used + story_write(3, next, expected, sizeof expected) + strlen(STORY_SEPARATOR) >
                size);
    free(buffer);
}

static void test_stories__fills_of_any_size_join(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 500, 900, 1000, 1500, 3000, 4096, 5000, 20000};
    const size_t total = 200000;
    char *whole = mem_alloc(total), *part = mem_alloc(total);
    uint64_t last, next = 0;
    size_t used = stories_fill(9, 0, whole, total, &last), at = 0;
    for (size_t i = 0; next < last; i++) {
        size_t size = sizes[i % (sizeof sizes / sizeof *sizes)];
        uint64_t first = next;
        char *exact = mem_alloc(size + 1); /* so that a sanitizer sees any byte too many */
        size_t length = stories_fill(9, first, exact, size, &next);
        memcpy(part, exact, length);
        free(exact);
        assert_true(length <= size);
        assert_int_equal(length == 0, next == first);
        size_t overlap = length < used - at ? length : used - at;
        assert_memory_equal(whole + at, part, overlap);
        at += overlap;
    }
    assert_int_equal(at, used);
    free(whole);
    free(part);
}

static void test_stories__too_small_a_buffer_is_a_broken_contract(void **state)
{
    (void)state;
    char story[STORY_MAX_BYTES];
    pid_t child = fork();
    if (child == 0) {
        fclose(stderr);
        story_write(1, 1, story, STORY_MAX_BYTES - 1);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* ---- Size and variety ---- */

static int compare_hashes(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static size_t count_distinct(uint64_t *hashes, size_t count)
{
    qsort(hashes, count, sizeof *hashes, compare_hashes);
    size_t distinct = count > 0;
    for (size_t i = 1; i < count; i++) {
        distinct += hashes[i] != hashes[i - 1];
    }
    return distinct;
}

static size_t count_words(const char *text, size_t size)
{
    size_t words = 0;
    for (size_t i = 0; i < size; i++) {
        words += !isspace((unsigned char)text[i]) &&
                 (i + 1 == size || isspace((unsigned char)text[i + 1]));
    }
    return words;
}

static void test_stories__no_story_is_too_long_or_told_twice(void **state)
{
    (void)state;
    const size_t count = 200000;
    uint64_t *hashes = mem_alloc(count * sizeof *hashes);
    size_t bytes = 0, longest = 0, unusual = 0;
    for (size_t i = 0; i < count; i++) {
        char story[STORY_MAX_BYTES + 16];
        memset(story + STORY_MAX_BYTES, '#', 16);
        size_t size = story_write(11, i, story, STORY_MAX_BYTES);
        assert_true(size > 0 && size <= STORY_MAX_BYTES && story[STORY_MAX_BYTES] == '#');
        assert_int_equal(story[size - 1], '\n');
        size_t words = count_words(story, size);
        unusual += words < 80 || words > 260;
        longest = size > longest ? size : longest;
        bytes += size;
        hashes[i] = io_hash(story, size);
    }
    assert_int_equal(count_distinct(hashes, count), count);
    assert_true(unusual < count / 1000);
    assert_true(longest < STORY_MAX_BYTES * 3 / 4); /* room for more content */
    printf("%zu stories, %zu bytes on average, longest %zu, %zu of unusual length\n", count,
           bytes / count, longest, unusual);
    free(hashes);
}

/* Hashes of the pieces of text between characters that ends() names. */
static size_t hash_pieces(const char *text, size_t size, int (*ends)(int), uint64_t *hashes)
{
    size_t count = 0, begin = 0;
    for (size_t i = 0; i <= size; i++) {
        if (i == size || ends((unsigned char)text[i])) {
            while (begin < i && isspace((unsigned char)text[begin])) {
                begin++;
            }
            if (i > begin) {
                hashes[count++] = io_hash(text + begin, i - begin);
            }
            begin = i + 1;
        }
    }
    return count;
}

static int ends_word(int c)
{
    return !isalpha(c) && c != '\'' && c != '-';
}

static int ends_sentence(int c)
{
    return c == '.' || c == '!' || c == '?' || c == '\n';
}

static void test_stories__words_and_sentences_are_many(void **state)
{
    (void)state;
    const size_t size = 4 * MEGABYTE;
    char *text = mem_alloc(size);
    memset(text, 0, size); /* the memory is there before the clock starts */
    uint64_t next;
    clock_t start = clock();
    size_t used = stories_fill(1, 0, text, size, &next);
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    uint64_t *hashes = mem_alloc(used * sizeof *hashes);
    size_t sentences = hash_pieces(text, used, ends_sentence, hashes);
    size_t distinct = count_distinct(hashes, sentences);
    for (size_t i = 0; i < used; i++) {
        text[i] = (char)tolower((unsigned char)text[i]);
    }
    size_t words = count_distinct(hashes, hash_pieces(text, used, ends_word, hashes));
    printf("4 MB: %zu different words, %zu of %zu sentences different, %.0f MB/s on one core\n",
           words, distinct, sentences, (double)used / seconds * 1e-6);
    assert_true(words > 2500);
    assert_true(distinct > sentences / 2);
    free(hashes);
    free(text);
}

static void test_stories__every_plot_has_its_share(void **state)
{
    (void)state;
    const StoryGrammar *grammar = stories_grammar();
    assert_true(grammar->plots_count >= 20);
    size_t *told = mem_zalloc(grammar->plots_count, sizeof *told);
    const size_t count = 1000 * grammar->plots_count;
    for (size_t i = 0; i < count; i++) {
        char story[STORY_MAX_BYTES];
        uint32_t plot;
        stories_tell(grammar, 0x123456789 * i, story, sizeof story, NULL, &plot);
        told[plot]++;
    }
    for (uint32_t i = 0; i < grammar->plots_count; i++) {
        if (told[i] < 800 || told[i] > 1200) {
            fail_msg("plot %s: %zu of %zu", grammar->plot_names[i], told[i], count);
        }
    }
    free(told);
}

/* ---- English ---- */

static void flaw(const char *what, const char *story, size_t at)
{
    size_t begin = at > 60 ? at - 60 : 0;
    fail_msg("%s: ...%.100s...", what, story + begin);
}

static bool is_stop(char c)
{
    return c == '.' || c == '!' || c == '?';
}

/* Marks, spaces, quotes and capitals. story ends with a NUL behind its newline. */
static void check_marks(const char *story)
{
    int quotes = 0;
    for (size_t i = 0; story[i] != '\0'; i++) {
        char before = i > 0 ? story[i - 1] : '\n', c = story[i], after = story[i + 1];
        if (c != '\n' && (c < ' ' || c > '~')) {
            flaw("not ASCII", story, i);
        }
        if (strchr("{}[]<>|~_#", c) != NULL) {
            flaw("a mark of templates", story, i);
        }
        if (c == ' ' && (strchr(" \n\0,.!?;:", after) != NULL || before == '\n')) {
            flaw("a space too many", story, i);
        }
        if (strchr(",.!?;:", c) != NULL && strchr(",.!?;:", after) != NULL && after != '\0') {
            flaw("two marks", story, i);
        }
        if (strchr(",.!?;:", c) != NULL && strchr(" \n\"", after) == NULL) {
            flaw("no space behind a mark", story, i);
        }
        bool opens = c == '"' && quotes % 2 == 0;
        quotes += c == '"';
        if (opens && (strchr(" \n", before) == NULL || !isupper((unsigned char)after))) {
            flaw("a quote that opens badly", story, i);
        }
        if (c == '"' && !opens &&
            (strchr(",.!?", before) == NULL || strchr(" \n", after) == NULL)) {
            flaw("a quote that closes badly", story, i);
        }
        if (c == '\n' && quotes % 2 != 0) {
            flaw("a quote without end", story, i);
        }
        if (c == '\n' && before != '\n' && before != '"' && !is_stop(before)) {
            flaw("a paragraph without end", story, i);
        }
        bool starts = before == '\n' || (before == ' ' && i > 1 && is_stop(story[i - 2]));
        if (starts && islower((unsigned char)c)) {
            flaw("a sentence that starts small", story, i);
        }
        if (islower((unsigned char)c) && i > 3 && before == ' ' && story[i - 2] == '"' &&
            story[i - 3] == '.') {
            flaw("a full stop inside a sentence", story, i);
        }
    }
}

static bool same_word(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static bool one_of(const char *word, const char *const *list)
{
    while (*list != NULL && !same_word(word, *list)) {
        list++;
    }
    return *list != NULL;
}

/* a before a consonant, an before a vowel, and no word twice. */
static void check_pair(const char *first, const char *second, const char *story, size_t at)
{
    static const char *const like_consonant[] = {"unicorn", "useful", "used", "one", NULL};
    static const char *const like_vowel[] = {"honest", "hour", NULL};
    static const char *const twice[] = {"had", "no", "that", NULL}; /* "the fun they had had" */
    static const char *const starters[] = {"a",  "an",  "the",  "his",  "her",
                                           "my", "its", "your", "some", NULL};
    bool vowel = strchr("aeiou", second[0]) != NULL;
    vowel = (vowel && !one_of(second, like_consonant)) || one_of(second, like_vowel);
    if ((same_word(first, "a") && vowel) || (same_word(first, "an") && !vowel)) {
        flaw("the wrong article", story, at);
    }
    if (same_word(first, second) && !one_of(first, twice)) {
        flaw("a word twice", story, at);
    }
    bool article = same_word(first, "a") || same_word(first, "an") || same_word(first, "the");
    if (article && one_of(second, starters)) {
        flaw("two articles", story, at);
    }
}

/* Walks over pairs of neighbouring words, in small letters, and over single words for pronouns. */
static void check_words(const char *story, bool male, bool female)
{
    static const char *const he[] = {"he", "him", "his", "himself", "he'll", NULL};
    static const char *const she[] = {"she", "her", "hers", "herself", "she'll", NULL};
    char words[2][64] = {{0}};
    int current = 0;
    size_t length = 0;
    for (size_t i = 0;; i++) {
        char c = story[i];
        if (isalpha((unsigned char)c) || c == '\'' || c == '-') {
            assert_true(length + 1 < sizeof words[0]);
            words[current][length++] = (char)tolower((unsigned char)c);
            continue;
        }
        if (length > 0) {
            words[current][length] = '\0';
            if (words[1 - current][0] != '\0') {
                check_pair(words[1 - current], words[current], story, i);
            }
            if ((!male && one_of(words[current], he)) || (!female && one_of(words[current], she))) {
                flaw("a pronoun of nobody", story, i);
            }
            current = 1 - current;
            length = 0;
        }
        if (c != ' ') {
            words[1 - current][0] = '\0'; /* no pair across a mark */
        }
        if (c == '\0') {
            break;
        }
    }
}

/* Whether facts has the fact of this name; false for a name that no content uses. */
static bool has_fact(const StoryGrammar *grammar, const StoryFacts *facts, const char *name)
{
    for (uint32_t i = 0; i < grammar->facts_count; i++) {
        if (strcmp(grammar->fact_names[i], name) == 0) {
            return facts->bit[i / 64] >> (i % 64) & 1;
        }
    }
    return false;
}

static void test_stories__english_holds_together(void **state)
{
    (void)state;
    const StoryGrammar *grammar = stories_grammar();
    size_t all_male = 0, all_female = 0;
    for (uint64_t i = 0; i < 30000; i++) {
        char story[STORY_MAX_BYTES + 1];
        StoryFacts facts;
        size_t size = stories_tell(grammar, i * UINT64_C(0x9E3779B97F4A7C15) + 1, story,
                                   STORY_MAX_BYTES, &facts, NULL);
        story[size] = '\0';
        assert_int_equal(strlen(story), size);
        bool male = has_fact(grammar, &facts, "any_m");
        bool female = has_fact(grammar, &facts, "any_f");
        assert_true(male || female);
        all_male += male && !female;
        all_female += female && !male;
        check_marks(story);
        check_words(story, male, female);
    }
    assert_true(all_male > 1000 && all_female > 1000); /* the check of pronouns saw something */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stories__same_seed_same_bytes),
        cmocka_unit_test(test_stories__seeds_and_indices_differ),
        cmocka_unit_test(test_stories__threads_write_the_same),
        cmocka_unit_test(test_stories__fill_holds_whole_stories),
        cmocka_unit_test(test_stories__fills_of_any_size_join),
        cmocka_unit_test(test_stories__too_small_a_buffer_is_a_broken_contract),
        cmocka_unit_test(test_stories__no_story_is_too_long_or_told_twice),
        cmocka_unit_test(test_stories__words_and_sentences_are_many),
        cmocka_unit_test(test_stories__every_plot_has_its_share),
        cmocka_unit_test(test_stories__english_holds_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
