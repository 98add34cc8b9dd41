#pragma once
/* The checks of a finished run once more, from its records alone (run.json, metrics.jsonl,
 * ranks/K.json): what the run said about itself is not believed but computed again. */
#include "record/checks.h"

/* ERR_INPUT when dir holds no readable record; 0 otherwise, whatever the verdicts are. */
int recheck_dir(const char *dir, Checks *checks);
