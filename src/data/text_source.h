#pragma once
/* The inputs of a command that reads text, by its options. */
#include "config/config.h"
#include "data/source.h"

uint64_t text_source_seed(const Config *cfg); /* of stories */

/* Arguments and options (format, field, skip-bad, seed) to documents. Signals end it. */
int text_source_open(const Config *cfg, int argc, char **argv, TextSource **out);

SourceOptions text_source_options(const Config *cfg, int argc, char **argv);
