#pragma once
#include "config/config.h"

/* A Config that was accepted is written as JSON, which must be accepted and give the same
 * values. */
void fuzz_config_again(const Config *cfg);
