#pragma once
/* The tokenizer that needs no training: a token is a byte, and one more ends a document. */
#include "base/io.h"

#define BYTES_NAME "bytes"
#define BYTES_END 256u /* end of document */
#define BYTES_VOCAB 257u

/* A line that is exactly this separates documents in a text file. */
#define BYTES_SEPARATOR "<|endoftext|>"

/* Identifies the tokenizer in shards and manifests. */
static inline uint64_t bytes_tokenizer_hash(void)
{
    return io_hash(BYTES_NAME, sizeof BYTES_NAME - 1);
}
