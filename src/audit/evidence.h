#pragma once
/* What a document says, as facts: a quantity of a run, with the number and the line. A run is
 * what rows, headings and words single out by settings ("batch size 64", "2-GPU", "b64_g2"); run
 * 0 is the document itself, whose settings hold for every run that does not say otherwise. */
#include "audit/document.h"
#include "audit/quantity.h"

#include <stdint.h>

#define EVIDENCE_MAX_NUMBERS 200000 /* looked at, in sentences and cells */
#define EVIDENCE_MAX_FACTS 20000
#define EVIDENCE_MAX_RUNS 1000
#define IDENTITY_LABEL_SIZE 64

typedef struct {
    double values[SETTING_COUNT]; /* 0: not said */
    char label[IDENTITY_LABEL_SIZE];
} Identity;

/* Where facts stand: a row, a section, a sentence. Scopes are joined to runs once all are read. */
typedef struct {
    Identity identity;
    int line;
    int table;  /* line of the table's header, 0 if none: rows of one table are different runs */
    bool prose; /* names a run, never makes one */
    int run;    /* -1: no run, or more than one fits */
} Scope;

typedef struct {
    Quantity quantity;
    Number number;
    int line;
    int scope, run;
    int order;  /* in the document */
    int rank;   /* -1: the run's */
    int point;  /* line of a row in a log, 0: the run's */
    int moment; /* step or epoch that its line names, -1: none */
    bool step;  /* the moment is a step */
    bool mean;  /* of one call: "111.5 s (0.031 s)" */
    bool prose; /* out of a sentence */
} Fact;

typedef struct {
    Identity identity;
    int line;
} Run;

typedef struct {
    const Document *document;
    Names names;
    Fact *facts;
    int fact_count, fact_capacity;
    Scope *scopes;
    int scope_count, scope_capacity;
    Run *runs;
    int run_count;
    int numbers;
    bool cut; /* more numbers, facts or runs than are kept */
} Evidence;

/* Reads all facts of a document, which must outlive them. */
void evidence_read(Evidence *evidence, const Document *document, const Names *names);
void evidence_free(Evidence *evidence);

/* Parts of evidence_read. */
int evidence_scope(Evidence *evidence, const Scope *scope); /* its index */
void evidence_add(Evidence *evidence, const Fact *fact);
void evidence_resolve(Evidence *evidence);
/* Reads the table whose header is line `header` into facts; parent is the scope around it. Returns
 * the index of the first line behind it. */
int evidence_read_table(Evidence *evidence, int header, int parent, bool hypothetical);

int identity_settings(const Identity *identity); /* how many it says */

/* A setting of a run, or else of the document; 0 if neither says. */
double evidence_setting(const Evidence *evidence, int run, Quantity setting);

/* The batch a run is identified by, of whichever kind; 0 if by none. */
double evidence_batch(const Evidence *evidence, int run);

/* The run's own fact, as a whole and not of a rank or call; tables before sentences. With
 * `document` also the document's. NULL if there is none. */
const Fact *evidence_find(const Evidence *evidence, int run, Quantity quantity, bool document);

/* Facts are in order of run and quantity: the index of the first one, and whether `at` still is
 * one. */
int evidence_first(const Evidence *evidence, int run, Quantity quantity);
bool evidence_is(const Evidence *evidence, int at, int run, Quantity quantity);

/* "batch 64, 2 ranks" for findings. */
#define RUN_TEXT_SIZE 160
const char *evidence_run_text(const Evidence *evidence, int run, char text[RUN_TEXT_SIZE]);
