#pragma once
/* Text from a loaded model: tokens of a prompt, and several texts that go on from them at once.
 * What a text is depends on the settings and on its number alone, not on how many others are
 * made beside it. */
#include "model/sample.h"
#include "text/decode.h"
#include "text/encode.h"
#include "use/loaded.h"

/* The tokens of a prompt as the model met them in training, added tokens (<|endoftext|>) in the
 * text included. Pacer's own models see the end of a document before each document, so it comes
 * first; models from elsewhere are given the token that their tokenizer_config.json puts there, or
 * the prompt alone. An empty prompt is the token that begins or ends a document. ERR_INPUT when
 * there is no tokenizer, or no such token. */
int writer_prompt(const LoadedModel *loaded, const uint8_t *text, size_t size, TokenList *out);

typedef enum { WROTE_END, WROTE_STOP, WROTE_LENGTH, WROTE_INTERRUPTED } WroteReason;

const char *wrote_reason_name(WroteReason reason); /* "end", "stop", "length", "interrupted" */

typedef struct {
    TokenList tokens; /* as chosen; the one that ended the text too */
    ByteList text;    /* what they are as text, up to the end or a stop */
    Decoding decoding;
    size_t told; /* bytes of it that no stop can take back, in whole characters while it goes on */
    bool done;
    WroteReason reason;
} WrittenText;

/* Told of text number `sample` as it grows, up to its end. Another code than 0 ends it all. */
typedef int WriterTell(void *user, int64_t sample, const uint8_t *text, size_t size);

typedef struct {
    SampleSettings sampling;
    int64_t samples, max_tokens;
    int threads; /* to choose tokens with where a GPU computes; 0: one. Texts do not depend on it */
    bool cached;
    const char *const *stops; /* texts, none empty, each ending a text before it; then NULL */
    int (*interrupted)(void); /* 0, or a code that ends all texts; may be NULL */
    WriterTell *tell;         /* may be NULL */
    void *user;
} WriterSettings;

typedef struct {
    WrittenText *texts; /* samples */
    int64_t samples;
    int64_t tokens; /* of all of them */
    double prompt_seconds,
        seconds; /* until the first token could be chosen; from there to the end */
} Written;

/* After an interruption 0 is returned, with texts as far as they came. On failure *out is
 * zeroed. */
int writer_run(LoadedModel *loaded, const TokenList *prompt, const WriterSettings *settings,
               Written *out);
void written_free(Written *written); /* a no-op on a zeroed one */
