#pragma once
/* Text to a dataset folder (out_folder.h): tokens in shards, the tokenizer, a manifest at the end.
 * Memory does not depend on the size of the text. The same text and options give the same bytes,
 * whatever the number of threads. */
#include "data/source.h"
#include "text/tokenizer.h"

#include <stdint.h>

typedef struct {
    const char *out;
    SourceOptions source; /* the text; `interrupted` ends the preparation too */
    const Tokenizer *tokenizer;
    const char *tokenizer_name; /* for the manifest */
    uint32_t end;               /* the token that follows each document */
    double val_fraction;   /* of the documents, chosen by a hash of their content alone: a document
                              stays in its split whatever is added around it */
    uint64_t shard_tokens; /* per shard, at most */
    int threads;           /* that encode; at least 1 */
} PrepareOptions;

/* On error what the folder held before is still there. */
int prepare_dataset(const PrepareOptions *options);
