#pragma once
/* Text files to a dataset folder (out_folder.h): tokens in shards, a manifest at the end. Memory does
 * not depend on the size of the text. The same text and options give the same bytes. */
#include <stdint.h>

typedef struct {
    const char *out;
    const char *const *files; /* in this order */
    int file_count;
    const char *tokenizer; /* "bytes" */
    double val_fraction;   /* of the documents, chosen by a hash of their content alone: a document
                              stays in its split whatever is added around it */
    uint64_t shard_tokens; /* per shard, at most */
} PrepareOptions;

/* On error what the folder held before is still there. */
int prepare_dataset(const PrepareOptions *options);
