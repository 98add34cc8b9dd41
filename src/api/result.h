#pragma once
/* The outcome of a command: named numbers, and for a training its directory. */
#include "config/config.h"

#include <cjson/cJSON.h>
#include <pacer.h>

/* directory (may be NULL) and numbers (an object; NULL: empty) are taken over. */
pacer_result *result_new(char *directory, cJSON *numbers);
