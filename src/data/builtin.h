#pragma once
/* Datasets that pacer makes itself, in memory. */
#include "data/dataset.h"

#define BUILTIN_PREFIX "builtin:"

/* Fills the splits, tokenizer and vocabulary of a dataset whose source is "builtin:NAME". */
int builtin_open(Dataset *dataset, DatasetOptions options);
