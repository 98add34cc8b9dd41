#pragma once
/* A scaling law: loss = E + A / N^alpha + B / D^beta of N parameters and D tokens, fitted to runs,
 * with intervals by bootstrap (docs/reference/laws.md). */
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    double parameters, tokens, loss;
    double flops; /* of the whole run */
} LawPoint;

/* In the order in which tables show them. */
enum { LAW_E, LAW_A, LAW_B, LAW_ALPHA, LAW_BETA, LAW_TERMS };

typedef struct {
    double term[LAW_TERMS];
    double joint; /* 0, or the law is a rival: E + (A / N^alpha + B / D^beta)^joint */
} Law;

#define LAW_LEAST 7 /* points */
#define LAW_MOST 400
#define LAW_RESAMPLES 300
#define LAW_BUDGETS 32 /* the most that are told apart */
#define LAW_RIVALS 2

typedef struct {
    Law law;
    int count;                  /* of points */
    double noise;               /* standard deviation of a run's log loss about the law */
    double residuals[LAW_MOST]; /* that intervals are made of: larger where points are few */
    Law resampled[LAW_RESAMPLES];
    Law without[LAW_BUDGETS]; /* fitted to all points but those of one budget */
    int budgets;
    Law rivals[LAW_RIVALS]; /* other laws that the points do not rule out */
    int rival_count;
    double sizes[2]; /* the least and the greatest that was tried */
    double cost[2];  /* FLOP per token = exp(cost[0] + cost[1] log N), by the same runs */
} LawFit;

typedef struct {
    double value, low, high; /* a 95 % interval */
} LawEstimate;

double law_loss(const Law *law, double parameters, double tokens);

/* Fits the points, of which there are LAW_LEAST to LAW_MOST, all positive. False: they do not tell
 * the terms apart (fewer than three sizes or three numbers of tokens). */
bool law_fit(LawFit *fit, const LawPoint *points, int count, uint64_t seed);

LawEstimate law_term(const LawFit *fit, int term);

/* Whether the points tell the exponent of a term (LAW_ALPHA, LAW_BETA): its interval does not reach
 * the limits of the search. */
bool law_tells(const LawFit *fit, int exponent);

/* Where the loss of one more run would lie: the law's uncertainty and the noise of a run. */
LawEstimate law_predict(const LawFit *fit, double parameters, double tokens);

/* The size that is best for a budget of FLOP, between a tenth of the least that was tried and a
 * hundred times the greatest, and the loss of the law there. */
LawEstimate law_best_size(const LawFit *fit, double flops, LawEstimate *loss);
double law_tokens(const LawFit *fit, double parameters, double flops); /* that the budget buys */
