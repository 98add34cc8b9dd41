/* Scaling laws that were planted are found again, and intervals hold the truth as often as they
 * say. */
#include "report/law.h"

#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEED 7
#define REPETITIONS 100

/* An iso-FLOP grid: budgets x sizes, FLOP per token 6 N. */
static int make_grid(const Law *law, double noise, uint64_t repetition, LawPoint *points)
{
    int count = 0;
    float normals[64];
    rng_normals(SEED, 1, repetition * 64, 64, normals);
    for (int budget = 0; budget < 4; budget++) {
        double flops = 1e15 * pow(4, budget), middle = 1e6 * pow(2, budget);
        for (int size = -3; size <= 3; size++) {
            double parameters = middle * pow(2, size * 0.8);
            double tokens = flops / (6 * parameters);
            double loss = law_loss(law, parameters, tokens) * exp(noise * normals[count]);
            points[count++] = (LawPoint){parameters, tokens, loss, flops};
        }
    }
    return count;
}

static const Law planted[] = {
    {{1.69, 406.4, 410.7, 0.34, 0.28}, 0}, /* Hoffmann et al. */
    {{0.8, 20, 3000, 0.25, 0.5}, 0},
};

static void test_law__exact_losses(void **state)
{
    (void)state;
    LawFit *fit = malloc(sizeof *fit);
    for (size_t i = 0; i < sizeof planted / sizeof planted[0]; i++) {
        LawPoint points[64];
        int count = make_grid(&planted[i], 0, 0, points);
        assert_true(law_fit(fit, points, count, SEED));
        for (int k = 0; k < LAW_TERMS; k++) {
            double found = fit->law.term[k], truth = planted[i].term[k];
            if (!(fabs(found / truth - 1) < 0.02)) {
                fail_msg("law %zu, term %d: %g instead of %g", i, k, found, truth);
            }
        }
        double far = law_loss(&planted[i], 64e6, 4e9);
        assert_true(fabs(law_predict(fit, 64e6, 4e9).value / far - 1) < 1e-3);
        assert_true(fabs(law_tokens(fit, 1e6, 6e15) / 1e9 - 1) < 1e-6);
        /* The best size in closed form, of a budget C = 6 N D. */
        double alpha = planted[i].term[LAW_ALPHA], beta = planted[i].term[LAW_BETA], flops = 1e18;
        double g = pow(alpha * planted[i].term[LAW_A] / (beta * planted[i].term[LAW_B]),
                       1 / (alpha + beta));
        LawEstimate loss;
        LawEstimate best = law_best_size(fit, flops, &loss);
        assert_true(fabs(best.value / (g * pow(flops / 6, beta / (alpha + beta))) - 1) < 0.03);
    }
    free(fit);
}

static void test_law__coverage(void **state)
{
    (void)state;
    LawFit *fit = malloc(sizeof *fit);
    const Law *law = &planted[0];
    const double noise = 0.004, flops = 1e15 * pow(4, 5);
    int held[LAW_TERMS] = {0}, predicted = 0, sized = 0;
    double alpha = law->term[LAW_ALPHA], beta = law->term[LAW_BETA];
    double best = pow(alpha * law->term[LAW_A] / (beta * law->term[LAW_B]), 1 / (alpha + beta)) *
                  pow(flops / 6, beta / (alpha + beta));
    for (int r = 0; r < REPETITIONS; r++) {
        LawPoint points[64];
        int count = make_grid(law, noise, (uint64_t)r, points);
        assert_true(law_fit(fit, points, count, SEED + (uint64_t)r));
        for (int k = 0; k < LAW_TERMS; k++) {
            LawEstimate term = law_term(fit, k);
            held[k] += term.low <= law->term[k] && law->term[k] <= term.high;
        }
        float extra;
        rng_normals(SEED, 2, (uint64_t)r, 1, &extra);
        double came = law_loss(law, best, flops / (6 * best)) * exp(noise * extra);
        LawEstimate loss = law_predict(fit, best, flops / (6 * best)), unused;
        predicted += loss.low <= came && came <= loss.high;
        LawEstimate size = law_best_size(fit, flops, &unused);
        sized += size.low <= best && best <= size.high;
    }
    printf("of %d: E %d, A %d, B %d, alpha %d, beta %d; a larger run's loss %d, best size %d\n",
           REPETITIONS, held[0], held[1], held[2], held[3], held[4], predicted, sized);
    for (int k = 0; k < LAW_TERMS; k++) {
        assert_in_range(held[k], REPETITIONS * 88 / 100, REPETITIONS);
    }
    assert_in_range(predicted, REPETITIONS * 90 / 100, REPETITIONS);
    assert_in_range(sized, REPETITIONS * 88 / 100, REPETITIONS);
    free(fit);
}

/* --- laws that bend, and what spoils runs --- */

enum { HEAVY, WARM, MISTUNED, JOINT, BENT, TRUTHS };

/* What a run of that size comes to, without its noise. */
static double truth(int kind, double parameters, double tokens)
{
    double loss = law_loss(&planted[0], parameters, tokens);
    double size = log(parameters / 4e6), work = log(6 * parameters * tokens / 1e16);
    switch (kind) {
    case WARM: /* 5 % where a run has 200 updates of 32,768 tokens */
        return loss * (1 + 0.05 * 200 / (tokens / 32768));
    case MISTUNED: /* one rate for all sizes */
        return loss * (1 + 0.01 * size * size);
    case JOINT: /* Kaplan et al. 2020: another law */
        return pow(pow(8.8e13 / parameters, 0.076 / 0.095) + 5.4e13 / tokens, 0.095);
    case BENT:
        return loss * (1 + 0.0015 * work * work);
    default:
        return loss;
    }
}

/* Normal, or Student's with three degrees of freedom. */
static double noise_of(int kind, uint64_t run, uint64_t repetition)
{
    float z[4];
    rng_normals(SEED, 10 + run, repetition * 4, 4, z);
    double spread = sqrt((z[1] * z[1] + z[2] * z[2] + z[3] * z[3]) / 3);
    return 0.004 * (kind == HEAVY ? z[0] / spread : z[0]);
}

/* The best size for a budget, among powers of 1.8. */
static int best_power(int kind, double flops)
{
    int best = -8;
    for (int i = -8; i < 16; i++) {
        double n = 1e6 * pow(1.8, i), least = 1e6 * pow(1.8, best);
        best = truth(kind, n, flops / 6 / n) < truth(kind, least, flops / 6 / least) ? i : best;
    }
    return best;
}

/* Grids that hold their minima, five sizes at four budgets; the run that is predicted has eight
 * times the largest, at the best size or beside it. */
static void test_law__coverage_where_the_law_is_not_the_truth(void **state)
{
    (void)state;
    static const char *const names[] = {"heavy tails", "warm-up", "mistuned rates", "another law",
                                        "a bend"};
    LawFit *fit = malloc(sizeof *fit);
    const int repetitions = 40;
    for (int kind = 0; kind < TRUTHS; kind++) {
        int held = 0;
        for (int r = 0; r < repetitions; r++) {
            LawPoint points[20];
            for (int i = 0; i < 20; i++) {
                double flops = 1e15 * pow(3, i / 5);
                double n = 1e6 * pow(1.8, best_power(kind, flops) + i % 5 - 2);
                double loss = truth(kind, n, flops / 6 / n);
                points[i] = (LawPoint){n, flops / 6 / n,
                                       loss * exp(noise_of(kind, (uint64_t)i, (uint64_t)r)), flops};
            }
            assert_true(law_fit(fit, points, 20, SEED + (uint64_t)r));
            double flops = 8 * 2.7e16, n = 1e6 * pow(1.8, best_power(kind, flops) + r % 3 - 1);
            double came = truth(kind, n, flops / 6 / n) * exp(noise_of(kind, 99, (uint64_t)r));
            LawEstimate loss = law_predict(fit, n, flops / 6 / n);
            held += loss.low <= came && came <= loss.high;
        }
        printf("%s: %d of %d held\n", names[kind], held, repetitions);
        if (held < repetitions * 9 / 10) {
            fail_msg("%s: %d of %d predictions held", names[kind], held, repetitions);
        }
    }
    free(fit);
}

static void test_law__what_cannot_be_fitted(void **state)
{
    (void)state;
    LawFit *fit = malloc(sizeof *fit);
    LawPoint points[64];
    int count = make_grid(&planted[0], 0, 0, points);
    assert_false(law_fit(fit, points, LAW_LEAST - 1, SEED));
    for (int i = 0; i < count; i++) {
        points[i].parameters = i % 2 == 0 ? 1e6 : 2e6;
    }
    assert_false(law_fit(fit, points, count, SEED));
    free(fit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_law__exact_losses),
        cmocka_unit_test(test_law__coverage),
        cmocka_unit_test(test_law__coverage_where_the_law_is_not_the_truth),
        cmocka_unit_test(test_law__what_cannot_be_fitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
