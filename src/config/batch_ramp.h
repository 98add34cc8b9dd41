#pragma once
/* --batch-ramp as text: "8@0,16@20%,32@5M": sequences per update, from a place of the run on, which
 * is a share of its length or a number of tokens. */
#include <stdint.h>

#define BATCH_RAMP_MOST 64

typedef struct {
    int64_t sequences; /* per update, of all ranks */
    int64_t tokens;    /* from these on; -1: from the share on */
    double share;      /* 0 to 1 */
} BatchRampMark;

/* The marks in the order of the run, the first at 0. ERR_INPUT gives the reason alone. */
int batch_ramp_parse(const char *text, BatchRampMark marks[BATCH_RAMP_MOST], int *count);
