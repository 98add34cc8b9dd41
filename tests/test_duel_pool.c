/* Duels between real runs: losses of one tiny model over many seeds (tests/duel/pool.yaml), from
 * which duels are drawn without replacement. tests/duel/run.sh makes the losses again; a file of
 * them may be given as the only argument. */
#include "report/sequential.h"

#include "base/rng.h"
#include "report/statistics.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEED 20261118
#define MOST 12
#define DUELS 2000

static const char *path = PACER_GOLD_DIR "/duel/losses.txt";
static double losses[2][1000]; /* of A and of B, which is worse by a planted part, by seed */
static int seeds;

static void read_losses(void)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fail_msg("%s cannot be read", path);
    }
    char line[256];
    while (fgets(line, sizeof line, file) != NULL && seeds < 1000) {
        seeds += sscanf(line, "%*d %lf %lf", &losses[0][seeds], &losses[1][seeds]) == 2;
    }
    fclose(file);
    assert_true(seeds >= 60);
}

/* The first 2 * MOST entries become seeds drawn without replacement. */
static void draw(uint64_t duel, int *order)
{
    for (int i = 0; i < seeds; i++) {
        order[i] = i;
    }
    for (int i = 0; i < 2 * MOST; i++) {
        int other = i + (int)rng_below(SEED, duel, (uint64_t)i, (uint64_t)(seeds - i));
        int kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

typedef enum { SAME_CONFIGURATION, OTHER_SEEDS, SAME_SEEDS } Pairing;

static void differences(Pairing pairing, uint64_t duel, double *out)
{
    int order[1000];
    draw(duel, order);
    for (int i = 0; i < MOST; i++) {
        int a = order[2 * i], b = pairing == SAME_SEEDS ? a : order[2 * i + 1];
        out[i] = losses[pairing == SAME_CONFIGURATION ? 0 : 1][b] - losses[0][a];
    }
}

typedef struct {
    double share[SEQUENTIAL_UNDECIDED + 1], pairs;
} Tally;

static Tally tally(const SequentialTest *test, Pairing pairing, int duels)
{
    Tally found = {{0}, 0};
    for (int d = 0; d < duels; d++) {
        double values[MOST];
        differences(pairing, (uint64_t)d, values);
        SequentialLook look = sequential_run(test, values, MOST);
        found.share[look.verdict] += 1.0 / duels;
        found.pairs += (double)look.count / duels;
    }
    return found;
}

static double fixed_power(Pairing pairing, int n, int duels)
{
    SequentialTest test = sequential_test(0.05, 0, n, n);
    double power = 0;
    for (int d = 0; d < duels; d++) {
        double values[MOST];
        differences(pairing, (uint64_t)d, values);
        power += (double)(sequential_look(&test, values, n).verdict == SEQUENTIAL_HIGHER) / duels;
    }
    return power;
}

static void test_duel_pool__equal_configurations(void **state)
{
    (void)state;
    SequentialTest test = sequential_test(0.05, 0.01, 3, MOST);
    int sizes[] = {300, DUELS};
    for (int i = 0; i < 2; i++) {
        Tally found = tally(&test, SAME_CONFIGURATION, sizes[i]);
        double wrong = found.share[SEQUENTIAL_LOWER] + found.share[SEQUENTIAL_HIGHER];
        printf("A/A, %d duels: false verdicts %.4f, no difference that matters %.4f, undecided "
               "%.4f, %.2f pairs\n",
               sizes[i], wrong, found.share[SEQUENTIAL_NEGLIGIBLE],
               found.share[SEQUENTIAL_UNDECIDED], found.pairs);
        assert_true(wrong <= 0.05);
    }
}

static void test_duel_pool__planted_difference(void **state)
{
    (void)state;
    Estimate of[2] = {estimate_of(losses[0], seeds), estimate_of(losses[1], seeds)};
    printf("%d seeds: A %.4f, B %.4f +- %.4f\n", seeds, of[0].mean, of[1].mean, of[1].half);
    SequentialTest test = sequential_test(0.05, 0.01, 3, MOST);
    static const char *const names[] = {
        [OTHER_SEEDS] = "seeds of their own", [SAME_SEEDS] = "the same seeds"};
    for (Pairing pairing = OTHER_SEEDS; pairing <= SAME_SEEDS; pairing++) {
        Tally found = tally(&test, pairing, DUELS);
        double power = found.share[SEQUENTIAL_HIGHER];
        int fixed = 2;
        while (fixed < MOST && fixed_power(pairing, fixed, DUELS) < power) {
            fixed++;
        }
        printf("A/B with %s, %d duels: power %.4f, wrong side %.4f, %.2f pairs; a test of fixed "
               "size needs %d\n",
               names[pairing], DUELS, power, found.share[SEQUENTIAL_LOWER], found.pairs, fixed);
        assert_true(found.share[SEQUENTIAL_LOWER] <= 0.025);
        assert_true(power >= 0.8);
    }
    assert_true(tally(&test, OTHER_SEEDS, DUELS).pairs < MOST);
}

int main(int argc, char **argv)
{
    path = argc > 1 ? argv[1] : path;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_duel_pool__equal_configurations),
        cmocka_unit_test(test_duel_pool__planted_difference),
    };
    read_losses();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
