#pragma once
/* Which keys a query sees, and how its scores are capped, as HeadShape says. The keys that a query
 * sees begin at one that never falls from query to query, with a window and with documents alike;
 * kernels need no more than that to know which blocks of a sequence meet. */
#include "cuda/device.cuh"

typedef struct Sight {
    const int32_t *starts; /* (B,T), or NULL */
    int window, seq;       /* window: 1 .. seq */
    float cap;             /* 0: none, as are the next two */
    float bend, inverse;   /* 2 log2(e) scale / cap, 1 / cap */

    /* The first key that query t of sequence b sees. Beyond the sequence that of its last query. */
    __device__ __forceinline__ int first(int b, int t) const
    {
        t = min(t, seq - 1);
        int key = max(t - window + 1, 0);
        return starts == NULL ? key : max(key, __ldg(starts + (int64_t)b * seq + t));
    }

    /* The last query that sees a key of sequence b. Beyond the sequence that of its last key. */
    __device__ __forceinline__ int last(int b, int key) const
    {
        key = min(key, seq - 1);
        int query = min(key + window - 1, seq - 1);
        if (starts == NULL) {
            return query;
        }
        const int32_t *of = starts + (int64_t)b * seq;
        if (__ldg(of + query) <= key) {
            return query;
        }
        int seen = key; /* and `query` is of a later document */
        while (query - seen > 1) {
            int middle = (seen + query) / 2;
            if (__ldg(of + middle) <= key) {
                seen = middle;
            } else {
                query = middle;
            }
        }
        return seen;
    }
} Sight;

static inline Sight sight_of(HeadShape s)
{
    Sight sight = {};
    sight.starts = tensor_given(s.starts) ? (const int32_t *)s.starts.data : NULL;
    sight.window = (int)keys_at_most(s, s.seq);
    sight.seq = (int)s.seq;
    sight.cap = (float)s.cap;
    if (s.cap > 0) {
        sight.bend = (float)(2.0 * 1.4426950408889634 * score_scale(s) / s.cap);
        sight.inverse = (float)(1.0 / s.cap);
    }
    return sight;
}
