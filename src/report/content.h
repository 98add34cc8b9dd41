#pragma once
/* What a report tells, collected from records: once, for its Markdown and for its document. */
#include "report/chart.h"
#include "report/findings.h"
#include "report/tables.h"

typedef struct {
    Chart chart;
    Plot plot;
    int table; /* that it stands beside: the first with a column that it draws; -1: none */
} PlacedChart;

typedef struct {
    Results results;
    const char *title, *about;
    char **banners; /* above everything else: sentences on what this report is not */
    int banner_count;
    Findings findings;
    Table *tables;
    int table_count;
    PlacedChart *charts;
    int chart_count;
    Table runs; /* what became of each */
    Table made; /* how it was made */
} Content;

/* Of an experiment. What is wrong with single tables and charts is a banner and a warning. */
int content_make(Content *content, const char *dir);
void content_free(Content *content);
void content_add_banner(Content *content, char *text); /* takes text */

/* Of a run: facts about it, its loss and its noise scale over the updates, which may be empty, and
 * what the latter says about the batch (caller frees; NULL: it was not measured). */
void run_facts(const cJSON *run, Table *table);
Plot run_loss(const Curve *curve);
Plot run_noise(const Curve *curve);
char *run_noise_text(const cJSON *run);

/* Its document in JSON (document.h), added to the page. */
void content_document(const Content *content, Page *json);
