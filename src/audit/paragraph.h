#pragma once
/* Lines that a text is wrapped into, with their numbers, for the rules about sentences. */
#include "audit/findings.h"
#include "audit/scan.h"

typedef struct {
    char text[DOCUMENT_LINE_SIZE];
    int lines, first; /* how many, and the number of the first */
    size_t starts[64];
    LineKind kind;
    bool code;
    ScanItem items[SCAN_MAX_ITEMS];
    int count;
} Paragraph;

/* The number of the line that holds the character. */
int paragraph_line(const Paragraph *paragraph, int offset);

/* Parts of rules_text. */
void sentence_check_ratios(const Paragraph *paragraph, Findings *findings);
void sentence_check_expressions(const Paragraph *paragraph, Findings *findings);
void sentence_check_sums(const Paragraph *paragraph, Findings *findings);
/* Losses beside their perplexities; all paragraphs bear witness, so there is a last word. */
typedef struct {
    int agree, disagree;
    bool bare;     /* the one that disagrees is not called a loss */
    Finding first; /* that disagrees */
} Perplexities;
void sentence_note_perplexity(const Paragraph *paragraph, Perplexities *all);
void sentence_check_perplexities(const Perplexities *all, Findings *findings);
