/* One tail for all looks, computed exactly for normal values of mean 0 and any variance.
 *
 * Let R_n be the length of (x_1 .. x_n) and u_n = (x_1 + .. + x_n) / (sqrt(n) R_n), so that t_n =
 * u_n sqrt((n - 1) / (1 - u_n^2)). The direction of normal values is uniform on the sphere and
 * independent of their length; hence c = x_(n+1) / R_(n+1) = sin(theta) is independent of u_1 ..
 * u_n, its density is proportional to cos^(n-1)(theta) in theta, and
 *     u_(n+1) = (sqrt(n) u_n cos(theta) + sin(theta)) / sqrt(n + 1).
 * So u_n is a Markov chain on [-1, 1], without a scale. stay(n, u), the probability that no later
 * look crosses its bound, follows from stay(n + 1, .) by one integral over theta. */
#include "report/sequential.h"

#include "base/assert.h"
#include "report/statistics.h"

#include <math.h>
#include <stddef.h>

#define GRID 100  /* cells of [0, bound], in which stay is taken as linear in asin(u) */
#define PIECE 0.4 /* radians of one Gauss-Legendre rule */
#define REACH 9.0 /* standard deviations of theta beyond which there is nothing */

/* stay over angles 0 .. top; it is even. */
typedef struct {
    double top;
    double at[GRID + 1];
} Stay;

static double stay_at(const Stay *stay, double u)
{
    double place = asin(fmin(fabs(u), 1)) / stay->top * GRID;
    int cell = place < GRID ? (int)place : GRID - 1;
    double part = place - cell;
    return (1 - part) * stay->at[cell] + part * stay->at[cell + 1];
}

/* Of cos^power(theta) weight(theta) over [low, high]: weight is that of a chain at a = sqrt(n) u
 * which goes on to n + 1, or 1. */
typedef struct {
    int power;
    const Stay *stay; /* of n + 1; NULL: the weight is 1 */
    double a, root;   /* sqrt(n) u, sqrt(n + 1) */
} Integrand;

static double integrand_at(const Integrand *f, double theta)
{
    double weight =
        f->stay == NULL ? 1 : stay_at(f->stay, (f->a * cos(theta) + sin(theta)) / f->root);
    return pow(cos(theta), f->power) * weight;
}

static double integrate(const Integrand *f, double low, double high)
{
    static const double node[4] = {0.1834346424956498, 0.5255324099163290, 0.7966664774136267,
                                   0.9602898564975363};
    static const double share[4] = {0.3626837833783620, 0.3137066458778873, 0.2223810344533745,
                                    0.1012285362903763};
    double sum = 0, most = f->power > 0 ? fmin(M_PI / 2, REACH / sqrt(f->power)) : M_PI / 2;
    low = fmax(low, -most);
    high = fmin(high, most);
    int pieces = high > low ? (int)ceil((high - low) / PIECE) : 0;
    for (int i = 0; i < pieces; i++) {
        double half = (high - low) / pieces / 2, middle = low + (2 * i + 1) * half;
        for (int k = 0; k < 4; k++) {
            sum += half * share[k] *
                   (integrand_at(f, middle - half * node[k]) +
                    integrand_at(f, middle + half * node[k]));
        }
    }
    return sum;
}

static double bound_angle(double tail, int n)
{
    double t = student_quantile(tail, n - 1);
    return atan(t / sqrt(n - 1)); /* asin of t / sqrt(n - 1 + t^2) */
}

/* The chance that the chain at u goes on to n + 1 and then never crosses. |sin(theta + phi)| must
 * stay at or below b, where a cos(theta) + sin(theta) = sqrt(1 + a^2) sin(theta + phi). */
static double go_on(const Stay *next, double u, int n)
{
    Integrand f = {n - 1, next, sqrt(n) * u, sqrt(n + 1)};
    double phi = atan(f.a), b = sin(next->top) * f.root / sqrt(1 + f.a * f.a);
    if (b >= 1) {
        return integrate(&f, -M_PI / 2, M_PI / 2);
    }
    double width = asin(b), low = -M_PI / 2, high = M_PI / 2;
    return integrate(&f, fmax(low, -width - phi), fmin(high, width - phi)) +
           integrate(&f, fmax(low, M_PI - width - phi), high) +
           integrate(&f, low, fmin(high, -M_PI + width - phi));
}

/* The chance that some look crosses when each uses this tail. */
static double crossing(double tail, int least, int most)
{
    Stay next = {.top = bound_angle(tail, most)}, own;
    for (int i = 0; i <= GRID; i++) {
        next.at[i] = 1;
    }
    for (int n = most - 1; n >= least; n--) {
        Integrand all = {.power = n - 1};
        double whole = integrate(&all, -M_PI / 2, M_PI / 2);
        own.top = bound_angle(tail, n);
        for (int i = 0; i <= GRID; i++) {
            own.at[i] = go_on(&next, sin(own.top * i / GRID), n) / whole;
        }
        next = own;
    }
    Integrand all = {.power = least - 2}, first = {.power = least - 2, .stay = &next, .root = 1};
    return 1 - integrate(&first, -next.top, next.top) / integrate(&all, -M_PI / 2, M_PI / 2);
}

SequentialTest sequential_test(double error, double margin, int least, int most)
{
    PACER_ASSERT(least >= 2 && least <= most && most <= SEQUENTIAL_MOST && error > 0 && error < 1,
                 "error %g, %d to %d values", error, least, most);
    SequentialTest test = {error, margin, least, most, error, {0}};
    double low = error / (most - least + 1), high = error; /* Bonferroni's; a single look's */
    if (least < most) {
        while (high / low > 1 + 1e-5) {
            double middle = sqrt(low * high);
            *(crossing(middle, least, most) > error ? &high : &low) = middle;
        }
        test.tail = low;
    }
    for (int n = least; n <= most; n++) {
        test.bound[n] = student_quantile(test.tail, n - 1);
    }
    return test;
}

SequentialLook sequential_look(const SequentialTest *test, const double *values, int count)
{
    SequentialLook look = {SEQUENTIAL_OPEN, count, NAN, NAN, NAN, NAN};
    double sum = 0, squares = 0;
    for (int i = 0; i < count; i++) {
        sum += values[i];
    }
    if (count > 0) {
        look.mean = sum / count;
    }
    if (count < test->least || count > test->most) {
        return look;
    }
    for (int i = 0; i < count; i++) {
        squares += (values[i] - look.mean) * (values[i] - look.mean);
    }
    double deviation = sqrt(squares / (count - 1) / count);
    double half = test->bound[count] * deviation;
    look.low = look.mean - half;
    look.high = look.mean + half;
    look.p = deviation > 0 ? student_tail(look.mean / deviation, count - 1) : look.mean == 0;
    if (look.low > -test->margin && look.high < test->margin) {
        look.verdict = SEQUENTIAL_NEGLIGIBLE;
    } else if (look.high < 0 || look.low > 0) {
        look.verdict = look.high < 0 ? SEQUENTIAL_LOWER : SEQUENTIAL_HIGHER;
    } else if (look.low == 0 && look.high == 0) {
        look.verdict = SEQUENTIAL_NEGLIGIBLE; /* margin 0, and no value differs from 0 */
    } else if (count >= test->most) {
        look.verdict = SEQUENTIAL_UNDECIDED;
    }
    return look;
}

SequentialLook sequential_run(const SequentialTest *test, const double *values, int count)
{
    int n = count < test->least ? count : test->least;
    SequentialLook look = sequential_look(test, values, n);
    while (look.verdict == SEQUENTIAL_OPEN && n < count && n < test->most) {
        look = sequential_look(test, values, ++n);
    }
    return look;
}
