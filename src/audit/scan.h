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

/* Whether one of the phrases stands in the text, as whole words: " step time | step ". */
bool scan_has_any(const char *text, const char *words);
