#pragma once
/* Documents to ids with several threads, in order, in bounded memory: documents are pushed into the
 * stream's rounds (rounds.h), and their ids go to the sink in the order of the text. */
#include "text/encode.h"
#include "text/rounds.h"

/* Ids of a part of the document that was begun with `tag`; `bytes` of text became them; `ends`: the
 * document's last part (which may be empty). Called from the thread that pushes. */
typedef int (*EncodeSink)(void *context, uint64_t tag, const uint32_t *ids, size_t count,
                          uint64_t bytes, bool ends);

typedef struct {
    Encoder *encoder;
    TokenList ids; /* of this round */
} EncodeWorker;

typedef struct {
    TextRounds *rounds; /* where documents go; errors are the sink's */
    EncodeSink sink;
    void *context;
    int threads;
    EncodeWorker *workers; /* one per thread */
} EncodeStream;

EncodeStream *encode_stream_open(const Tokenizer *tokenizer, int threads, EncodeSink sink,
                                 void *context);
void encode_stream_close(EncodeStream *stream); /* NULL is fine; what was not flushed is dropped */

uint64_t encode_stream_invalid(const EncodeStream *stream); /* bytes flushed that are not UTF-8 */
