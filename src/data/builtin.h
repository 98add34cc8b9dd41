#pragma once
/* Datasets that pacer makes itself, in memory. */
#include "data/dataset.h"

#define BUILTIN_PREFIX "builtin:"
#define STORIES_SEED 1 /* of builtin:stories, whatever the seed of the run, so that runs compare */

/* "builtin:stories" or "builtin:stories:BYTES" as a source of text: how many bytes. ERR_INPUT
 * for any other name. */
int builtin_stories_bytes(const char *name, uint64_t *bytes);

/* Fills the splits, tokenizer and vocabulary of a dataset whose source is "builtin:NAME". */
int builtin_open(Dataset *dataset, DatasetOptions options);
