#pragma once
/* The choice of a token from logits: a function of the settings, the sample's number and the
 * token's place alone, so that a text does not depend on how many others are made beside it. */
#include <stdint.h>

typedef struct {
    double temperature; /* 0: the likeliest, the first of equals */
    int64_t top_k;      /* among the k likeliest; 0: all */
    double top_p;       /* among the likeliest whose probabilities reach p together; 0 or 1: all */
    uint64_t seed;
} SampleSettings;

typedef struct {
    int32_t token;
    float logit;
} SampleCandidate;

/* How many candidates a choice needs room for: none but for top-k and top-p. */
int64_t sample_room(const SampleSettings *settings, int64_t vocab);

/* room (sample_room). Logits that are NaN are never chosen; -1 when there are no others. */
int32_t sample_token(const float *logits, int64_t vocab, const SampleSettings *settings,
                     uint64_t sample, uint64_t place, SampleCandidate *room);
