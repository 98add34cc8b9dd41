/* The choice of a token: frequencies against the softmax, the sets of top-k and top-p, limits,
 * and what a draw depends on. */
#include "model/sample.h"

#include "base/mem.h"
#include "base/rng.h"
#include "model/sample_weights.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MOST 2000
#define DRAWS 100000

static SampleCandidate room[MOST];

/* counts (vocab) of so many draws, one sample after the other. */
static void count_draws(const float *logits, int64_t vocab, SampleSettings settings, int64_t draws,
                        int64_t *counts)
{
    memset(counts, 0, (size_t)vocab * sizeof *counts);
    for (int64_t i = 0; i < draws; i++) {
        int32_t token =
            sample_token(logits, vocab, &settings, (uint64_t)i % 7, (uint64_t)i / 7, room);
        assert_true(token >= 0 && token < vocab);
        counts[token]++;
    }
}

/* Sum of (counted - expected)^2 / expected; nothing may be drawn where nothing is expected. */
static double chi_square(const int64_t *counts, const double *probabilities, int64_t vocab,
                         int64_t draws)
{
    double sum = 0;
    for (int64_t i = 0; i < vocab; i++) {
        double expected = probabilities[i] * (double)draws;
        if (expected == 0) {
            assert_int_equal(counts[i], 0);
        } else {
            sum += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
        }
    }
    return sum;
}

/* The softmax over the tokens of which `in` is true. */
static void softmax(const float *logits, int64_t vocab, double temperature, const bool *in,
                    double *out)
{
    double sum = 0;
    for (int64_t i = 0; i < vocab; i++) {
        out[i] = in == NULL || in[i] ? exp(logits[i] / temperature) : 0;
        sum += out[i];
    }
    for (int64_t i = 0; i < vocab; i++) {
        out[i] /= sum;
    }
}

/* 12 tokens: 11 degrees of freedom, of which 99.99 % lie below 38. */
#define FEW 12
#define FEW_BOUND 38

static const float few[FEW] = {0.3f, -1, 2, 0.5f, 1.9f, -0.2f, 0, 1.1f, 0.9f, -1.5f, 1.4f, 0.7f};

static void expect_frequencies(SampleSettings settings, const bool *in)
{
    int64_t counts[FEW];
    double probabilities[FEW];
    softmax(few, FEW, settings.temperature, in, probabilities);
    count_draws(few, FEW, settings, DRAWS, counts);
    double found = chi_square(counts, probabilities, FEW, DRAWS);
    if (!(found < FEW_BOUND)) {
        fail_msg("chi-square %g at temperature %g, top-k %d, top-p %g", found, settings.temperature,
                 (int)settings.top_k, settings.top_p);
    }
}

static void test_sample__frequencies_are_those_of_the_softmax(void **state)
{
    (void)state;
    expect_frequencies((SampleSettings){.temperature = 1, .seed = 1}, NULL);
    expect_frequencies((SampleSettings){.temperature = 0.5, .seed = 2}, NULL);
    expect_frequencies((SampleSettings){.temperature = 3, .seed = 3}, NULL);
    expect_frequencies((SampleSettings){.temperature = 1, .top_k = FEW, .top_p = 1, .seed = 4},
                       NULL);
}

static void test_sample__top_k_and_top_p_cut_the_tail_off(void **state)
{
    (void)state;
    bool five[FEW] = {[2] = true, [4] = true, [10] = true, [7] = true, [8] = true};
    expect_frequencies((SampleSettings){.temperature = 0.8, .top_k = 5, .seed = 5}, five);
    double p[FEW];
    softmax(few, FEW, 0.8, NULL, p);
    double three = p[2] + p[4] + p[10];
    bool first[FEW] = {[2] = true, [4] = true, [10] = true};
    expect_frequencies((SampleSettings){.temperature = 0.8, .top_p = three - 1e-6, .seed = 6},
                       first);
    first[7] = true;
    expect_frequencies((SampleSettings){.temperature = 0.8, .top_p = three + 1e-6, .seed = 7},
                       first);
    /* Behind top-k the probabilities are those of the k: three of five reach more than three of
     * all. */
    softmax(few, FEW, 0.8, five, p);
    double two = p[2] + p[4];
    bool pair[FEW] = {[2] = true, [4] = true};
    expect_frequencies(
        (SampleSettings){.temperature = 0.8, .top_k = 5, .top_p = two - 1e-6, .seed = 8}, pair);
}

/* Which tokens are ever drawn. */
static void expect_set(const float *logits, int64_t vocab, SampleSettings settings,
                       const char *wanted)
{
    int64_t counts[FEW];
    char found[FEW + 1] = {0};
    count_draws(logits, vocab, settings, 3000, counts);
    for (int64_t i = 0; i < vocab; i++) {
        found[i] = counts[i] > 0 ? 'x' : '-';
    }
    assert_string_equal(found, wanted);
}

static void test_sample__of_equals_the_earlier_are_likelier(void **state)
{
    (void)state;
    const float ties[] = {1, 2, 2, 1, 2, 1};
    expect_set(ties, 6, (SampleSettings){.temperature = 1, .top_k = 1}, "-x----");
    expect_set(ties, 6, (SampleSettings){.temperature = 1, .top_k = 2}, "-xx---");
    expect_set(ties, 6, (SampleSettings){.temperature = 1, .top_k = 3}, "-xx-x-");
    expect_set(ties, 6, (SampleSettings){.temperature = 1, .top_k = 4}, "xxx-x-");
    expect_set(ties, 6, (SampleSettings){.temperature = 1, .top_k = 5}, "xxxxx-");
    expect_set(ties, 6, (SampleSettings){.temperature = 1, .top_k = 6}, "xxxxxx");
    expect_set(ties, 6, (SampleSettings){.temperature = 1, .top_k = 99}, "xxxxxx");
    assert_int_equal(sample_token(ties, 6, &(SampleSettings){0}, 0, 0, room), 1);
}

/* Four tokens of a quarter each: a sum that reaches p exactly is enough. */
static void test_sample__top_p_ends_where_p_is_reached(void **state)
{
    (void)state;
    const float quarters[] = {3, 3, 3, 3};
    expect_set(quarters, 4, (SampleSettings){.temperature = 1, .top_p = 1e-9}, "x---");
    expect_set(quarters, 4, (SampleSettings){.temperature = 1, .top_p = 0.25}, "x---");
    expect_set(quarters, 4, (SampleSettings){.temperature = 1, .top_p = 0.2500001}, "xx--");
    expect_set(quarters, 4, (SampleSettings){.temperature = 1, .top_p = 0.5}, "xx--");
    expect_set(quarters, 4, (SampleSettings){.temperature = 1, .top_p = 0.75}, "xxx-");
    expect_set(quarters, 4, (SampleSettings){.temperature = 1, .top_p = 0.7500001}, "xxxx");
    expect_set(quarters, 4, (SampleSettings){.temperature = 1, .top_p = 1}, "xxxx");
    expect_set(quarters, 4, (SampleSettings){.temperature = 1, .top_p = 0}, "xxxx");
    const float tenths[10] = {0};
    expect_set(tenths, 10, (SampleSettings){.temperature = 1, .top_p = 0.9}, "xxxxxxxxx-");
    expect_set(quarters, 4, (SampleSettings){.temperature = 1, .top_k = 2, .top_p = 0.5}, "x---");
    expect_set(quarters, 4, (SampleSettings){.temperature = 1, .top_k = 2, .top_p = 0.51}, "xx--");
}

static void test_sample__temperature_has_its_limits(void **state)
{
    (void)state;
    const float logits[] = {0, 1, 1.5f, 1.5f, -2};
    for (uint64_t place = 0; place < 500; place++) {
        SampleSettings greedy = {.temperature = 0, .top_k = 3, .top_p = 0.9, .seed = place};
        assert_int_equal(sample_token(logits, 5, &greedy, place, place, room), 2);
        SampleSettings cold = {.temperature = 1e-300, .seed = place};
        int32_t token = sample_token(logits, 5, &cold, 0, place, room);
        assert_true(token == 2 || token == 3);
    }
    int64_t counts[5];
    double even[5] = {0.2, 0.2, 0.2, 0.2, 0.2};
    count_draws(logits, 5, (SampleSettings){.temperature = 1e9, .seed = 3}, DRAWS, counts);
    assert_true(chi_square(counts, even, 5, DRAWS) < 24); /* 4 degrees of freedom, 99.99 % */
}

static void test_sample__what_is_no_number_is_never_chosen(void **state)
{
    (void)state;
    const float some[] = {NAN, 1, NAN, 1, NAN};
    expect_set(some, 5, (SampleSettings){.temperature = 1}, "-x-x-");
    expect_set(some, 5, (SampleSettings){.temperature = 1, .top_k = 4}, "-x-x-");
    expect_set(some, 5, (SampleSettings){.temperature = 1, .top_k = 1}, "-x---");
    expect_set(some, 5, (SampleSettings){.temperature = 1, .top_p = 0.9}, "-x-x-");
    assert_int_equal(sample_token(some, 5, &(SampleSettings){0}, 0, 0, room), 1);
    const float infinite[] = {1, INFINITY, -INFINITY, INFINITY, NAN};
    expect_set(infinite, 5, (SampleSettings){.temperature = 1}, "-x-x-");
    expect_set(infinite, 5, (SampleSettings){.temperature = 1, .top_p = 0.5}, "-x---");
    const float impossible[] = {-INFINITY, 2, -INFINITY};
    expect_set(impossible, 3, (SampleSettings){.temperature = 1, .top_k = 2}, "-x-");
    const float none[] = {NAN, NAN};
    assert_int_equal(sample_token(none, 2, &(SampleSettings){.temperature = 1}, 0, 0, room), -1);
    assert_int_equal(sample_token(none, 2, &(SampleSettings){0}, 0, 0, room), -1);
}

static int by_logit(const void *a, const void *b)
{
    const SampleCandidate *x = a, *y = b;
    if (x->logit != y->logit) {
        return x->logit < y->logit ? 1 : -1;
    }
    return (x->token > y->token) - (x->token < y->token);
}

/* Many logits with many ties, against sorting all of them: every draw lies in the set, and the
 * set is used up. */
static void test_sample__sets_of_a_large_vocabulary(void **state)
{
    (void)state;
    static float logits[MOST];
    static SampleCandidate sorted[MOST];
    rng_normals(9, 9, 0, MOST, logits);
    for (int i = 0; i < MOST; i++) {
        logits[i] = roundf(logits[i] * 20) / 20;
        sorted[i] = (SampleCandidate){i, logits[i]};
    }
    qsort(sorted, MOST, sizeof *sorted, by_logit);
    static int64_t counts[MOST];
    for (int64_t k = 1; k < 40; k += 6) {
        count_draws(logits, MOST, (SampleSettings){.temperature = 5, .top_k = k, .seed = 1}, 2000,
                    counts);
        int64_t inside = 0;
        for (int64_t i = 0; i < k; i++) {
            assert_true(counts[sorted[i].token] > 0);
            inside += counts[sorted[i].token];
        }
        assert_int_equal(inside, 2000);
    }
    double total = 0, reached = 0;
    for (int i = 0; i < MOST; i++) {
        total += exp(sorted[i].logit);
    }
    int most = 0;
    while (reached < 0.02 * total) {
        reached += exp(sorted[most++].logit);
    }
    count_draws(logits, MOST, (SampleSettings){.temperature = 1, .top_p = 0.02, .seed = 1}, 4000,
                counts);
    int64_t inside = 0;
    for (int i = 0; i < most; i++) {
        assert_true(counts[sorted[i].token] > 0);
        inside += counts[sorted[i].token];
    }
    assert_int_equal(inside, 4000);
}

static void test_sample__a_draw_depends_on_seed_sample_and_place_alone(void **state)
{
    (void)state;
    enum { PLACES = 64 };
    int32_t text[3][3][PLACES]; /* seed, sample, place */
    for (int64_t round = 0; round < 2; round++) {
        for (int i = 9 * PLACES - 1; i >= 0; i--) { /* another order the second time */
            int at = round == 0 ? i : (i * 31 + 7) % (9 * PLACES);
            int seed = at / PLACES / 3, sample = at / PLACES % 3, place = at % PLACES;
            SampleSettings settings = {.temperature = 1, .seed = (uint64_t)seed};
            int32_t token =
                sample_token(few, FEW, &settings, (uint64_t)sample, (uint64_t)place, room);
            assert_true(round == 0 || text[seed][sample][place] == token);
            text[seed][sample][place] = token;
        }
    }
    const int32_t(*all)[PLACES] = &text[0][0];
    for (int a = 0; a < 9; a++) { /* unrelated texts agree in about one place of eight */
        for (int b = 0; b < a; b++) {
            int equal = 0;
            for (int i = 0; i < PLACES; i++) {
                equal += all[a][i] == all[b][i];
            }
            assert_true(equal < PLACES / 2);
        }
    }
}

/* Places on both sides of every border at which a loop goes on by another way. */
static void test_sample__the_greatest_is_found_wherever_it_stands(void **state)
{
    (void)state;
    static float logits[MOST];
    SampleSettings greedy = {0};
    for (int vocab = 1; vocab < MOST; vocab = vocab * 5 / 4 + 1) {
        rng_normals(4, 4, 0, (uint64_t)vocab, logits);
        for (int at = 0; at < vocab; at += 1 + vocab / 97) {
            float kept = logits[at];
            logits[at] = 9;
            logits[vocab - 1] = logits[vocab - 1] == 9 ? 9 : NAN;
            assert_int_equal(sample_token(logits, vocab, &greedy, 0, 0, NULL), at);
            logits[vocab / 2] = vocab / 2 > at ? 9 : NAN;
            int first = vocab / 2 == at ? -1 : at;
            if (first >= 0) {
                assert_int_equal(sample_token(logits, vocab, &greedy, 0, 0, NULL), first);
            }
            logits[vocab / 2] = logits[vocab - 1] = -1;
            logits[at] = kept;
        }
    }
    memset(logits, 0, sizeof logits);
    for (int at = 0; at < 300; at++) {
        logits[at] = 9;
        for (int64_t k = 1; k < 90; k = 3 * k + 1) {
            SampleSettings cold = {.temperature = 0.01, .top_k = k};
            assert_int_equal(sample_token(logits, 300, &cold, 0, 0, room), at);
        }
        logits[at] = 0;
    }
    for (int i = 0; i < MOST; i++) {
        logits[i] = i == 700 || i == 1300 ? -INFINITY : NAN;
    }
    assert_int_equal(sample_token(logits, MOST, &greedy, 0, 0, NULL), 700);
    assert_int_equal(sample_token(logits, 700, &greedy, 0, 0, NULL), -1);
}

/* One weight, at a place that is neither the first nor in a whole group. */
static float weight_of(float logit, float greatest, double temperature)
{
    float logits[19], weights[19];
    for (int i = 0; i < 19; i++) {
        logits[i] = logit;
    }
    WeightScale scale = weight_scale(greatest, temperature);
    weights_of(&scale, logits, 19, weights);
    weights_of(&scale, logits, 19, logits);
    for (int i = 0; i < 19; i++) {
        assert_true(weights[i] == weights[18] && logits[i] == weights[18]);
    }
    return weights[18];
}

static void test_sample__weights_are_those_of_exp(void **state)
{
    (void)state;
    const double temperatures[] = {1, 0.8, 0.1, 3, 77.7, 1e-5, 1e9, 1e-30, 1e30};
    double worst = 0;
    for (size_t t = 0; t < sizeof temperatures / sizeof temperatures[0]; t++) {
        double temperature = temperatures[t];
        for (double exponent = 0; exponent > -110; exponent -= 0.0137) {
            float x = (float)(exponent * temperature);
            double wanted = exp(x / temperature);
            float found = weight_of(x, 0, temperature);
            if (wanted > 1.01 * FLT_MIN) {
                double ulp = ldexp(1, ilogb(wanted) - 23);
                worst = fmax(worst, fabs(found - wanted) / ulp);
            } else {
                assert_true(found >= 0 && found < 1.02 * FLT_MIN);
            }
        }
        assert_true(weight_of(5, 5, temperature) == 1);
        assert_true(weight_of(-INFINITY, 5, temperature) == 0);
        assert_true(weight_of(NAN, 5, temperature) == 0);
        assert_true(weight_of(-FLT_MAX, FLT_MAX, temperature) == 0);
    }
    if (!(worst < 3)) {
        fail_msg("%g units in the last place", worst);
    }
    assert_true(weight_of(INFINITY, INFINITY, 1) == 1);
    assert_true(weight_of(FLT_MAX, INFINITY, 1) == 0);
    assert_true(weight_of(NAN, INFINITY, 1) == 0);
    assert_true(weight_of(-INFINITY, -INFINITY, 1) == 1);
    assert_true(weight_of(2, 3, 1e-300) == 0 && weight_of(3, 3, 1e-300) == 1);
    assert_true(weight_of(2, 3, 1e300) == 1);
}

/* Sets of top-p, and of top-p behind top-k, against sorting: what is drawn is the set, all of
 * it. */
static void test_sample__top_p_takes_the_smallest_set(void **state)
{
    (void)state;
    enum { VOCAB = 301 };
    static float logits[VOCAB];
    static SampleCandidate sorted[VOCAB];
    static int64_t counts[VOCAB];
    const double shares[] = {0.001, 0.1, 0.5, 0.83}, temperatures[] = {0.7, 2, 1000};
    for (int round = 0; round < 24; round++) {
        double p = shares[round % 4], temperature = temperatures[round / 4 % 3], total = 0;
        int64_t k = round < 12 ? 0 : 120, most = k > 0 ? k : VOCAB;
        rng_normals(5, (uint64_t)round, 0, VOCAB, logits);
        for (int i = 0; i < VOCAB; i++) {
            logits[i] = i % 50 == 9 ? NAN : roundf(logits[i] * 10) / 40;
            sorted[i] = (SampleCandidate){i, isnan(logits[i]) ? -INFINITY : logits[i]};
        }
        qsort(sorted, VOCAB, sizeof *sorted, by_logit);
        for (int i = 0; i < most; i++) {
            total += exp(sorted[i].logit / temperature);
        }
        int64_t size = 0, drawn = 0;
        for (double reached = 0; reached < p * total; size++) {
            reached += exp(sorted[size].logit / temperature);
        }
        SampleSettings settings = {temperature, k, p, (uint64_t)round};
        int64_t draws = 16 * size + 100;
        count_draws(logits, VOCAB, settings, draws, counts);
        for (int64_t i = 0; i < size; i++) {
            assert_true(counts[sorted[i].token] > 0);
            drawn += counts[sorted[i].token];
        }
        assert_int_equal(drawn, draws);
    }
}

/* A vocabulary of many blocks, without room to work in: how often each tenth of it is drawn, and
 * of each stretch of 256 each tenth. */
static void test_sample__draws_from_all_of_a_large_vocabulary(void **state)
{
    (void)state;
    enum { VOCAB = 140001, TRIES = 150, TENTH = VOCAB / 10 + 1, STRETCH = 256 };
    float *logits = mem_zalloc(VOCAB, sizeof *logits);
    double probabilities[2][10] = {{0}}, total = 0;
    int64_t counts[2][10] = {{0}};
    rng_normals(6, 6, 0, VOCAB, logits);
    for (int i = 0; i < VOCAB; i++) {
        logits[i] += (float)(i / TENTH % 3) / 2;
        total += exp(logits[i]);
    }
    for (int i = 0; i < VOCAB; i++) {
        probabilities[0][i / TENTH] += exp(logits[i]) / total;
        probabilities[1][i % STRETCH * 10 / STRETCH] += exp(logits[i]) / total;
    }
    SampleSettings settings = {.temperature = 1, .seed = 8};
    for (uint64_t place = 0; place < TRIES; place++) {
        int32_t token = sample_token(logits, VOCAB, &settings, 3, place, NULL);
        assert_true(token >= 0 && token < VOCAB);
        counts[0][token / TENTH]++;
        counts[1][token % STRETCH * 10 / STRETCH]++;
    }
    for (int i = 0; i < 2; i++) { /* 9 degrees of freedom, 99.99 % */
        assert_true(chi_square(counts[i], probabilities[i], 10, TRIES) < 34);
    }
    free(logits);
}

static void test_sample__needs_room_for_what_it_sorts(void **state)
{
    (void)state;
    assert_int_equal(sample_room(&(SampleSettings){.top_k = 5, .top_p = 0.5}, 100), 0);
    assert_int_equal(sample_room(&(SampleSettings){.temperature = 1}, 100), 0);
    assert_int_equal(sample_room(&(SampleSettings){.temperature = 1, .top_p = 1}, 100), 0);
    assert_int_equal(sample_room(&(SampleSettings){.temperature = 1, .top_k = 100}, 100), 0);
    assert_int_equal(sample_room(&(SampleSettings){.temperature = 1, .top_k = 5}, 100), 5);
    assert_int_equal(sample_room(&(SampleSettings){1, 5, 0.5, 0}, 100), 5);
    assert_int_equal(sample_room(&(SampleSettings){.temperature = 1, .top_p = 0.5}, 100), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sample__frequencies_are_those_of_the_softmax),
        cmocka_unit_test(test_sample__top_k_and_top_p_cut_the_tail_off),
        cmocka_unit_test(test_sample__of_equals_the_earlier_are_likelier),
        cmocka_unit_test(test_sample__top_p_ends_where_p_is_reached),
        cmocka_unit_test(test_sample__temperature_has_its_limits),
        cmocka_unit_test(test_sample__what_is_no_number_is_never_chosen),
        cmocka_unit_test(test_sample__sets_of_a_large_vocabulary),
        cmocka_unit_test(test_sample__a_draw_depends_on_seed_sample_and_place_alone),
        cmocka_unit_test(test_sample__the_greatest_is_found_wherever_it_stands),
        cmocka_unit_test(test_sample__weights_are_those_of_exp),
        cmocka_unit_test(test_sample__top_p_takes_the_smallest_set),
        cmocka_unit_test(test_sample__draws_from_all_of_a_large_vocabulary),
        cmocka_unit_test(test_sample__needs_room_for_what_it_sorts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
