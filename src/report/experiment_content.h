#pragma once
/* What is in the report of an experiment, before it is Markdown or HTML. */
#include "report/chart.h"
#include "report/findings.h"
#include "report/page.h"
#include "report/tables.h"

typedef struct {
    char *label, *value;
} ContentFact;

typedef struct {
    Chart chart;
    int table; /* that it stands beside: the first with a column that it draws; -1: none */
} ContentChart;

typedef struct {
    Results results;
    const char *title, *about;
    Findings findings;
    Table *tables;
    int table_count;
    ContentChart *charts; /* those that were drawn, as folder/charts/NAME.svg and .png */
    int chart_count;
    char **cautions; /* above everything else: sentences on what this report is not */
    int caution_count;
    ContentFact *facts; /* how it was made */
    int fact_count;
} Content;

/* Reads the records in dir and draws the charts into out/charts. What is wrong with single
 * tables and charts is a caution in the report and a warning; ERR_INPUT when dir is no
 * experiment. */
int content_make(Content *content, const char *dir, const char *out);
void content_free(Content *content);

/* Seconds that a run took as text, "-" when they are not known. */
const char *content_seconds(const Result *run, char text[32]);

void content_html(const Content *content, const char *out, Page *page);
void content_markdown(const Content *content, Page *page);
