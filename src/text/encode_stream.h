#pragma once
/* Documents to ids with several threads, in order, in bounded memory: documents are pushed in, in
 * pieces of any size; when a round's worth is together, threads encode it in chunks (cut where that
 * changes nothing) and the ids go to the sink in the order of the text. */
#include "text/encode.h"

/* Ids of a part of the document that was begun with `tag`; `bytes` of text became them; `ends`: the
 * document's last part (which may be empty). Called from the thread that pushes. */
typedef int (*EncodeSink)(void *context, uint64_t tag, const uint32_t *ids, size_t count,
                          uint64_t bytes, bool ends);

typedef struct EncodeStream EncodeStream;
EncodeStream *encode_stream_open(const Tokenizer *tokenizer, int threads, EncodeSink sink,
                                 void *context);
void encode_stream_close(EncodeStream *stream); /* NULL is fine; what was not flushed is dropped */

/* A document: begin, put any number of times, end. Errors are the sink's. */
void encode_stream_begin(EncodeStream *stream, uint64_t tag);
int encode_stream_put(EncodeStream *stream, const void *bytes, size_t size);
int encode_stream_end(EncodeStream *stream);
int encode_stream_flush(EncodeStream *stream); /* all that was ended has reached the sink */

uint64_t encode_stream_invalid(const EncodeStream *stream); /* bytes flushed that are not UTF-8 */
