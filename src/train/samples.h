#pragma once
/* Text that a model writes while it learns (--sample-every). */
#include "train/session.h"

/* ERR_INPUT names what --sample-every cannot be combined with, or that the data has no tokenizer.
 * No-op without the option. */
int samples_check(const Session *session);

/* Writes a text of the model as it is now into samples.jsonl: from the beginning of a document, at
 * temperature SAMPLE_TEMPERATURE, with the same random numbers each time. The weights stay as they
 * are. */
#define SAMPLE_TOKENS 100
#define SAMPLE_TEMPERATURE 0.8
int samples_write(Session *session);
