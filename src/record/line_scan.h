#pragma once
/* A line of metrics.jsonl without a tree: records of long runs are read for a few numbers only. */
#include <stdbool.h>
#include <stddef.h>

/* NAN: absent, null, or no number. */
typedef struct {
    double step, tokens, loss, val_loss, ms, noise_scale;
    bool evaluation; /* there is a "val_loss", whatever it is */
} LineNumbers;

/* Reads a line as pacer writes it: one object of names without escapes and plain values. False:
 * anything else, JSON or not, which is a parser's to judge. Of a name that is there twice the first
 * counts. */
bool line_scan(const char *text, size_t size, LineNumbers *numbers);
