#pragma once
/* The numbers of a line with the words around them. */
#include "audit/quantity.h"

#define SCAN_MAX_ITEMS 48

typedef struct {
    Number number;
    int start, end;           /* of the number and its unit in the text */
    char before[PHRASE_SIZE]; /* words since the last number or break, fill words at the end gone */
    char after[PHRASE_SIZE];  /* words up to the next number or break */
    char glue; /* what stands between the last word and the number: ' ', '=', ':', '(', '/' */
    bool in_parentheses;
} ScanItem;

int scan_line(const char *text, ScanItem items[SCAN_MAX_ITEMS]);

/* Whether a word or words stand in the text, as whole words. `words` is a phrase: " sub linear
 * ". */
bool scan_has(const char *text, const char *words);

/* Whether one of them does. */
bool scan_has_any(const char *text, const char *const *words, size_t count);
