#pragma once
/* Texts from a model, several at once from one beginning. Each token is taken once: layers of
 * attention keep the keys and values of earlier tokens, TTT layers their inner state. Without the
 * cache every new token costs a pass over all the tokens before it; the result is the same up to
 * rounding. A TTT layer's state is no cache but the layer itself, and is kept either way.
 *
 * A text may be longer than the model's context. A layer of attention holds a context's tokens
 * at most: when they are all there and another comes, the older half is forgotten and the other
 * half is read anew. A TTT model has no limit and forgets nothing. */
#include "model/model.h"
#include "tensor/workspace.h"

typedef struct {
    Model *model; /* bound to its parameters; must outlive the generator */
    Ctx ctx;
    int64_t sequences;
    bool cached;
    Workspace work; /* state: what lives from token to token */
    /* (rows) i32: the tokens of a pass; of a step, one of each sequence, then the position */
    Tensor ids;
    Tensor logits;     /* (sequences, vocab_rows) act */
    void *host_logits; /* (sequences, vocab_rows) act, as they come from the device */
    float *rows;       /* (sequences, vocab_rows) the same in f32; NULL: they are */
    Decode decode;     /* states: none without the cache */
    /* Host: (sequences, context) those that attention holds, and behind them any; NULL for a TTT
     * model. */
    int32_t *tokens;
    int32_t *next; /* host: (sequences + 1) what is sent for a step */
    int64_t held;  /* tokens of each sequence that the model holds */
} Generator;

/* Needs memory for a pass over one context of tokens. ERR_MEMORY when there is no room. On a
 * backend that records work (Backend.replay) one generator at a time may be open. */
int generator_open(Generator *generator, Model *model, Backend *backend, int64_t sequences,
                   bool cached);
void generator_close(Generator *generator); /* a no-op on a zeroed generator */

/* All sequences begin anew with these tokens, count >= 1. Of more than attention can hold, the
 * last ones count. */
void generator_begin(Generator *generator, const int32_t *tokens, int64_t count);

/* Each sequence goes on with its token: next (sequences). */
void generator_append(Generator *generator, const int32_t *next);

/* Logits (vocab) f32 of the token that follows in a sequence, until the next call of begin or
 * append. Brought into f32 here: threads may ask for different sequences at the same time. */
const float *generator_logits(const Generator *generator, int64_t sequence);
