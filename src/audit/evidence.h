#pragma once
/* What a document says, as facts, gathered in records: a row of a table, a section (its heading,
 * its "key: value" lines), or a line that names a run of its own ("Batch 8: 3.06 hrs"). Only facts
 * of one record are surely about one run. What a record does not say itself it may take from the
 * sections around it, and from the document where that has one value only. */
#include "audit/document.h"
#include "audit/quantity.h"

#define EVIDENCE_MAX_NUMBERS 200000 /* looked at, in sentences and cells */
#define EVIDENCE_MAX_FACTS 20000
#define EVIDENCE_MAX_RECORDS 20000
#define TABLE_ROWS_MAX 1000 /* of a table of results; longer ones are logs */
#define RECORD_LABEL_SIZE 64
#define SECTIONS_MAX 30 /* of a document about one thing; a book has settings of many */
#define NO_FACT (-1)
#define SEVERAL_FACTS (-2) /* that do not agree */

typedef struct {
    Quantity quantity;
    unsigned marks;
    Number number;
    int line, record;
    int column; /* of its table; -1 */
    int order;  /* in the document */
    int rank;   /* -1: the run's */
    int moment; /* step or epoch that its line names; -1 */
    bool step;  /* the moment is a step */
    bool call;  /* of one call: "111.5 s (0.031 s)" */
} Fact;

typedef enum { RECORD_SECTION, RECORD_ROW, RECORD_LINE } RecordKind;

typedef struct {
    RecordKind kind;
    int line;
    int around;    /* the section it stands in; -1: the document itself */
    int table;     /* line of the table's header; 0: none */
    bool point;    /* a moment of a run: a row of a log */
    bool sum;      /* a row of means or totals */
    bool supposed; /* a plan, not a result */
    char label[RECORD_LABEL_SIZE];
    int first, count; /* its facts */
} Record;

typedef struct {
    const Document *document;
    Names names;
    Fact *facts; /* in order of records */
    int fact_count;
    Record *records; /* in order of lines; 0 is what stands before all headings */
    int record_count;
    int (*own)[Q_COUNT]; /* of each record: the fact with its one value, NO_FACT or SEVERAL_FACTS */
    int single[Q_COUNT]; /* of the document */
    double peak;         /* FLOP/s of the one kind of GPU that the document names; 0 */
    bool split;          /* speaks of models split over ranks, which then share a batch */
    int sections;
    int numbers;
    bool cut; /* more numbers, facts or records than are kept */
} Evidence;

/* Reads all facts of a document, which must outlive them. */
void evidence_read(Evidence *evidence, const Document *document, const Names *names);
void evidence_free(Evidence *evidence);

/* Parts of evidence_read. */
int evidence_record(Evidence *evidence, const Record *record); /* its index */
void evidence_add(Evidence *evidence, const Fact *fact);
/* The settings above 0 as facts of a record. */
void evidence_add_settings(Evidence *evidence, const double settings[Q_LAST_SETTING + 1], int line,
                           int record);
void evidence_finish(Evidence *evidence);
/* Reads the table whose header is line `header`; returns the index of the first line behind it. */
int evidence_read_table(Evidence *evidence, int header, int section);
/* Settings with a number in a heading or label, "2-GPU", "Batch-size 64", "128 Tokens", into
 * settings[]; returns whether there are any. One that has two values there has none. */
bool evidence_label(const Names *names, const char *text, double settings[Q_LAST_SETTING + 1]);

/* The record's own fact of a run as a whole: not of a rank or a call. NULL if there is none, or if
 * there are several values. */
const Fact *evidence_own(const Evidence *evidence, int record, Quantity quantity);

/* The record's one fact of a rate of each rank (MARK_PER_RANK) or of all (MARK_TOTAL), by its
 * name. NULL as above. */
const Fact *evidence_marked(const Evidence *evidence, int record, Quantity quantity, unsigned mark);

/* The record's own fact, or that of the sections around it, or the document's. */
const Fact *evidence_known(const Evidence *evidence, int record, Quantity quantity);

/* The record's own fact, or that of the sections around it. */
const Fact *evidence_around(const Evidence *evidence, int record, Quantity quantity);

/* The value that is known, or 0. */
double evidence_value(const Evidence *evidence, int record, Quantity quantity);

/* The batch a record is identified by, of whichever kind; 0 if by none. */
double evidence_batch(const Evidence *evidence, int record);

/* Rows of one table belong together: the record behind those that start at `first`. */
int evidence_table_end(const Evidence *evidence, int first);

/* Whether both records name settings, and every one that `a` names has that value in `b`. */
bool evidence_names(const Evidence *evidence, int a, int b);

/* Whether one of the phrases stands somewhere in the document. */
bool evidence_has_any(const Evidence *evidence, const char *words);

/* "batch 64, ranks 2" for findings; settings of the sections around it included. */
#define RUN_TEXT_SIZE 160
const char *evidence_text(const Evidence *evidence, int record, char text[RUN_TEXT_SIZE]);
