/* The fit is that of Hoffmann et al. (2022): Huber's loss of the residuals of log loss, with E, A
 * and B as logarithms, from several starts; here by Levenberg and Marquardt's method with
 * reweighting, and with Huber's threshold at 1.345 robust standard deviations of the residuals. */
#include "report/law.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/rng.h"
#include "report/statistics.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 200
#define FIRST_THRESHOLD 1e-3 /* Huber's, before the noise is known */
#define TUNING 1.345         /* 95 % of the efficiency of least squares for normal noise */
#define LEAST_POWER 0.01
#define MOST_POWER 4.0
#define FALL 8.0 /* E, A and B below exp(-FALL) of the least loss count as 0 */

/* --- what is minimised --- */

/* Points as logarithms; sizes and tokens relative to their means, so that terms are those of a
 * run in the middle. */
typedef struct {
    int count;
    double x[LAW_MOST], y[LAW_MOST], z[LAW_MOST];
    double x_mean, y_mean, z_least;
    double threshold;
    double joint; /* of the law that is fitted; see Law */
} Problem;

/* Logarithms of E, of A and B at the means, and of alpha and beta. */
typedef struct {
    double at[LAW_TERMS];
} Place;

static double value_at(const Problem *p, const Place *place, int i, double slope[LAW_TERMS])
{
    double alpha = exp(place->at[LAW_ALPHA]), beta = exp(place->at[LAW_BETA]);
    double terms[3] = {exp(place->at[LAW_E]), exp(place->at[LAW_A] - alpha * p->x[i]),
                       exp(place->at[LAW_B] - beta * p->y[i])};
    if (p->joint > 0) { /* each by its share of the two together */
        double both = terms[1] + terms[2], value = pow(both, p->joint);
        double sum = terms[0] + value;
        slope[LAW_E] = terms[0] / sum;
        slope[LAW_A] = p->joint * value / sum * terms[1] / both;
        slope[LAW_B] = p->joint * value / sum * terms[2] / both;
        slope[LAW_ALPHA] = -slope[LAW_A] * alpha * p->x[i];
        slope[LAW_BETA] = -slope[LAW_B] * beta * p->y[i];
        return log(sum);
    }
    double sum = terms[0] + terms[1] + terms[2];
    for (int k = 0; k < 3; k++) {
        slope[k] = terms[k] / sum;
    }
    slope[LAW_ALPHA] = -slope[LAW_A] * alpha * p->x[i];
    slope[LAW_BETA] = -slope[LAW_B] * beta * p->y[i];
    return log(sum);
}

static double huber(double residual, double threshold)
{
    double size = fabs(residual);
    return size <= threshold ? residual * residual / 2 : threshold * (size - threshold / 2);
}

static double cost_at(const Problem *p, const Place *place)
{
    double cost = 0, slope[LAW_TERMS];
    for (int i = 0; i < p->count; i++) {
        cost += huber(p->z[i] - value_at(p, place, i, slope), p->threshold);
    }
    return cost;
}

/* --- one descent --- */

/* Solves a symmetric positive system by Cholesky's method, in place; false: it is not positive. */
static bool solve(double m[LAW_TERMS][LAW_TERMS], double *v)
{
    for (int i = 0; i < LAW_TERMS; i++) {
        for (int k = 0; k <= i; k++) {
            double sum = m[i][k];
            for (int j = 0; j < k; j++) {
                sum -= m[i][j] * m[k][j];
            }
            if (i == k && !(sum > 0)) {
                return false;
            }
            m[i][k] = i == k ? sqrt(sum) : sum / m[k][k];
        }
        for (int j = 0; j < i; j++) {
            v[i] -= m[i][j] * v[j];
        }
        v[i] /= m[i][i];
    }
    for (int i = LAW_TERMS - 1; i >= 0; i--) {
        for (int j = i + 1; j < LAW_TERMS; j++) {
            v[i] -= m[j][i] * v[j];
        }
        v[i] /= m[i][i];
    }
    return true;
}

static double within(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

static void keep_sane(const Problem *p, Place *place)
{
    for (int k = LAW_E; k <= LAW_B; k++) {
        double wide = k > LAW_E && p->joint > 0 ? 1 / p->joint : 1;
        place->at[k] =
            within(place->at[k], p->z_least - FALL * wide, p->z_least + (k > LAW_E ? 3 * wide : 0));
    }
    for (int k = LAW_ALPHA; k <= LAW_BETA; k++) {
        place->at[k] = within(place->at[k], log(LEAST_POWER), log(MOST_POWER));
    }
}

static double descend(const Problem *p, Place *place)
{
    double damping = 1e-3, cost = cost_at(p, place);
    for (int step = 0; step < STEPS && damping < 1e12; step++) {
        double m[LAW_TERMS][LAW_TERMS] = {{0}}, v[LAW_TERMS] = {0}, slope[LAW_TERMS];
        for (int i = 0; i < p->count; i++) {
            double residual = p->z[i] - value_at(p, place, i, slope);
            double weight = fabs(residual) <= p->threshold ? 1 : p->threshold / fabs(residual);
            for (int k = 0; k < LAW_TERMS; k++) {
                v[k] += weight * slope[k] * residual;
                for (int j = 0; j <= k; j++) {
                    m[k][j] += weight * slope[k] * slope[j];
                }
            }
        }
        for (int k = 0; k < LAW_TERMS; k++) {
            m[k][k] += damping * m[k][k] + 1e-12;
        }
        Place next = *place;
        double lower = INFINITY;
        if (solve(m, v)) {
            for (int k = 0; k < LAW_TERMS; k++) {
                next.at[k] += within(v[k], -1, 1);
            }
            keep_sane(p, &next);
            lower = cost_at(p, &next);
        }
        if (lower < cost) {
            bool settled = cost - lower < 1e-7 * cost;
            *place = next;
            cost = lower;
            damping = fmax(damping / 5, 1e-9);
            if (settled) {
                break;
            }
        } else {
            damping *= 5;
        }
    }
    return cost;
}

/* --- the fit --- */

/* From places that split the least loss and its spread in different ways. */
static Place search(const Problem *p)
{
    static const double floors[] = {0.3, 0.6, 0.9}, shares[] = {0.2, 0.5, 0.8},
                        powers[] = {0.15, 0.4, 1};
    Place best = {{0}};
    double least = INFINITY;
    for (int i = 0; i<81; i += p->joint> 0 ? 3 : 1) { /* rivals: with one floor */
        double floor = floors[i % 3], share = shares[i / 3 % 3];
        double wide = p->joint > 0 ? 1 / p->joint : 1, rest = p->z_least + log(1.05 - floor);
        Place place = {{p->z_least + log(floor), wide * rest + log(share),
                        wide * rest + log(1 - share), log(powers[i / 9 % 3]), log(powers[i / 27])}};
        double cost = descend(p, &place);
        if (cost < least) {
            least = cost;
            best = place;
        }
    }
    return best;
}

static Law law_of(const Problem *p, const Place *place)
{
    Law law = {.joint = p->joint};
    for (int k = 0; k < LAW_TERMS; k++) {
        law.term[k] = exp(place->at[k]);
    }
    law.term[LAW_A] *= exp(law.term[LAW_ALPHA] * p->x_mean);
    law.term[LAW_B] *= exp(law.term[LAW_BETA] * p->y_mean);
    return law;
}

double law_loss(const Law *law, double parameters, double tokens)
{
    double both = law->term[LAW_A] * pow(parameters, -law->term[LAW_ALPHA]) +
                  law->term[LAW_B] * pow(tokens, -law->term[LAW_BETA]);
    return law->term[LAW_E] + (law->joint > 0 ? pow(both, law->joint) : both);
}

static bool state_problem(Problem *p, const LawPoint *points, int count)
{
    *p = (Problem){.count = count, .threshold = FIRST_THRESHOLD, .z_least = INFINITY};
    int sizes = 0, lengths = 0;
    for (int i = 0; i < count; i++) {
        bool new_size = true, new_length = true;
        p->x[i] = log(points[i].parameters);
        p->y[i] = log(points[i].tokens);
        p->z[i] = log(points[i].loss);
        for (int k = 0; k < i; k++) {
            new_size = new_size && fabs(p->x[k] - p->x[i]) > 0.05;
            new_length = new_length && fabs(p->y[k] - p->y[i]) > 0.05;
        }
        sizes += new_size;
        lengths += new_length;
        p->x_mean += p->x[i] / count;
        p->y_mean += p->y[i] / count;
        p->z_least = fmin(p->z_least, p->z[i]);
    }
    for (int i = 0; i < count; i++) {
        p->x[i] -= p->x_mean;
        p->y[i] -= p->y_mean;
    }
    return sizes >= 3 && lengths >= 3;
}

/* A straight line through log FLOP per token over log N. */
static void fit_cost(LawFit *fit, const Problem *p, const LawPoint *points)
{
    double mean = 0, xx = 0, xy = 0;
    for (int i = 0; i < p->count; i++) {
        double cost = log(points[i].flops / points[i].tokens);
        mean += cost / p->count;
        xx += p->x[i] * p->x[i];
        xy += p->x[i] * cost;
    }
    fit->sizes[0] = INFINITY;
    for (int i = 0; i < p->count; i++) {
        fit->sizes[0] = fmin(fit->sizes[0], points[i].parameters);
        fit->sizes[1] = fmax(fit->sizes[1], points[i].parameters);
    }
    fit->cost[1] = xy / xx;
    fit->cost[0] = mean - fit->cost[1] * p->x_mean;
}

/* Budgets are told apart by a tenth. Groups of points, from 0 in the order in which they appear;
 * returns how many there are. */
static int group_budgets(const LawPoint *points, int count, int *groups)
{
    int found = 0;
    for (int i = 0; i < count; i++) {
        int k = 0;
        while (k < i && fabs(log(points[k].flops / points[i].flops)) > 0.1) {
            k++;
        }
        groups[i] = k < i ? groups[k] : found++;
    }
    return found;
}

/* The law as each budget in turn would have it left out: where it bends, these differ by more than
 * the noise of runs makes them. */
static void fit_without(LawFit *fit, const Problem *all, const LawPoint *points, Place from)
{
    int groups[LAW_MOST], count = group_budgets(points, all->count, groups);
    Problem *p = malloc(sizeof *p);
    PACER_ASSERT(p != NULL, "no memory");
    for (int leave = 0; leave < count && leave < LAW_BUDGETS; leave++) {
        *p = *all;
        p->count = 0;
        for (int i = 0; i < all->count; i++) {
            if (groups[i] != leave) {
                p->x[p->count] = all->x[i];
                p->y[p->count] = all->y[i];
                p->z[p->count++] = all->z[i];
            }
        }
        if (p->count >= LAW_TERMS) {
            Place place = from;
            descend(p, &place);
            fit->without[fit->budgets++] = law_of(p, &place);
        }
    }
    free(p);
}

/* Laws of another form that fit about as well: what they say of a larger run is as possible. */
static void fit_rivals(LawFit *fit, const Problem *p, double least)
{
    static const double joints[LAW_RIVALS] = {0.3, 0.1};
    Problem *rival = malloc(sizeof *rival);
    PACER_ASSERT(rival != NULL, "no memory");
    *rival = *p;
    for (int i = 0; i < LAW_RIVALS; i++) {
        rival->joint = joints[i];
        Place place = search(rival);
        if (cost_at(rival, &place) <= least * (1 + 4.0 / (p->count - LAW_TERMS))) {
            fit->rivals[fit->rival_count++] = law_of(rival, &place);
        }
    }
    free(rival);
}

bool law_fit(LawFit *fit, const LawPoint *points, int count, uint64_t seed)
{
    *fit = (LawFit){.count = count};
    Problem *p = malloc(sizeof *p);
    PACER_ASSERT(p != NULL && count <= LAW_MOST, "%d points", count);
    if (count < LAW_LEAST || !state_problem(p, points, count)) {
        free(p);
        return false;
    }
    Place best = search(p);
    double slope[LAW_TERMS], sizes[LAW_MOST], own[LAW_MOST], fitted[LAW_MOST], mean = 0;
    double inflate = sqrt((double)count / (count - LAW_TERMS));
    for (int round = 0; round < 2; round++) { /* the noise, then the fit that knows it */
        for (int i = 0; i < count; i++) {
            sizes[i] = fabs(p->z[i] - value_at(p, &best, i, slope));
        }
        double noise = 1.4826 * inflate * clock_quantile(sizes, (size_t)count, 0.5);
        p->threshold = fmax(TUNING * noise, 1e-7);
        descend(p, &best);
    }
    fit->law = law_of(p, &best);
    fit_cost(fit, p, points);
    fit_without(fit, p, points, best);
    fit_rivals(fit, p, cost_at(p, &best));
    for (int i = 0; i < count; i++) {
        fitted[i] = value_at(p, &best, i, slope);
        own[i] = p->z[i] - fitted[i];
        mean += own[i] / count;
    }
    /* As wide as Student's t makes an interval when the noise is known from few points. */
    double few = student_quantile(0.05, count - LAW_TERMS) / student_quantile(0.05, 1e7);
    for (int i = 0; i < count; i++) {
        double residual = inflate * (own[i] - mean);
        fit->noise += residual * residual / count;
        fit->residuals[i] = few * residual;
    }
    fit->noise = sqrt(fit->noise);
    for (int r = 0; r < LAW_RESAMPLES; r++) {
        for (int i = 0; i < count; i++) {
            uint64_t from = rng_below(seed, (uint64_t)r, (uint64_t)i, (uint64_t)count);
            p->z[i] = fitted[i] + fit->residuals[from];
        }
        Place place = best;
        descend(p, &place);
        fit->resampled[r] = law_of(p, &place);
    }
    free(p);
    return true;
}

/* --- what follows from it --- */

static LawEstimate estimate(double value, double *resampled)
{
    return (LawEstimate){value, clock_quantile(resampled, LAW_RESAMPLES, 0.025),
                         clock_quantile(resampled, LAW_RESAMPLES, 0.975)};
}

LawEstimate law_term(const LawFit *fit, int term)
{
    double values[LAW_RESAMPLES];
    for (int r = 0; r < LAW_RESAMPLES; r++) {
        values[r] = fit->resampled[r].term[term];
    }
    return estimate(fit->law.term[term], values);
}

bool law_tells(const LawFit *fit, int exponent)
{
    LawEstimate power = law_term(fit, exponent);
    return power.low > 1.01 * LEAST_POWER && power.high < 0.99 * MOST_POWER;
}

/* How far the law may bend between the runs and this one, as a standard deviation of the log loss:
 * the jackknife over budgets. */
static double misfit_at(const LawFit *fit, double parameters, double tokens)
{
    double values[LAW_BUDGETS], mean = 0, sum = 0;
    int n = fit->budgets;
    for (int i = 0; i < n; i++) {
        values[i] = log(law_loss(&fit->without[i], parameters, tokens));
        mean += values[i] / n;
    }
    for (int i = 0; i < n; i++) {
        sum += (values[i] - mean) * (values[i] - mean);
    }
    return n > 1 ? sqrt(sum * (n - 1) / n) : INFINITY;
}

LawEstimate law_predict(const LawFit *fit, double parameters, double tokens)
{
    double values[LAW_RESAMPLES], value = law_loss(&fit->law, parameters, tokens);
    for (int r = 0; r < LAW_RESAMPLES; r++) {
        double noise = fit->residuals[rng_below(1, 0, (uint64_t)r, (uint64_t)fit->count)];
        values[r] = law_loss(&fit->resampled[r], parameters, tokens) * exp(noise);
    }
    LawEstimate drawn = estimate(value, values);
    double misfit = fit->budgets > 1 ? student_quantile(0.05, fit->budgets - 1) *
                                           misfit_at(fit, parameters, tokens)
                                     : INFINITY;
    drawn.low = value * exp(-hypot(log(value / drawn.low), misfit));
    drawn.high = value * exp(hypot(log(drawn.high / value), misfit));
    double low = drawn.low / value, high = drawn.high / value;
    for (int i = 0; i < fit->rival_count; i++) {
        double other = law_loss(&fit->rivals[i], parameters, tokens);
        drawn.low = fmin(drawn.low, other * low);
        drawn.high = fmax(drawn.high, other * high);
    }
    return drawn;
}

double law_tokens(const LawFit *fit, double parameters, double flops)
{
    return flops / exp(fit->cost[0] + fit->cost[1] * log(parameters));
}

/* By the golden section over log N. */
static double best_size(const LawFit *fit, const Law *law, double flops)
{
    double low = log(fit->sizes[0] / 10), high = log(fit->sizes[1] * 100);
    const double golden = (sqrt(5) - 1) / 2;
    while (high - low > 1e-6) {
        double a = high - golden * (high - low), b = low + golden * (high - low);
        double at_a = law_loss(law, exp(a), law_tokens(fit, exp(a), flops));
        double at_b = law_loss(law, exp(b), law_tokens(fit, exp(b), flops));
        *(at_a < at_b ? &high : &low) = at_a < at_b ? b : a;
    }
    return exp((low + high) / 2);
}

LawEstimate law_best_size(const LawFit *fit, double flops, LawEstimate *loss)
{
    double sizes[LAW_RESAMPLES], losses[LAW_RESAMPLES];
    for (int r = 0; r < LAW_RESAMPLES; r++) {
        sizes[r] = best_size(fit, &fit->resampled[r], flops);
        losses[r] = law_loss(&fit->resampled[r], sizes[r], law_tokens(fit, sizes[r], flops));
    }
    double size = best_size(fit, &fit->law, flops);
    *loss = estimate(law_loss(&fit->law, size, law_tokens(fit, size, flops)), losses);
    return estimate(size, sizes);
}
