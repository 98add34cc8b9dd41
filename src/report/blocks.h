#pragma once
/* Blocks of a report as a document in JSON, one behind another within a list: what the page of
 * `pacer serve` and report.html show (docs/reference/report.md#documents). */
#include "report/findings.h"
#include "report/plot.h"
#include "report/tables.h"

/* Points of all curves of a document, each of which has at most CURVE_SHOWN and may have these. */
#define BLOCK_POINTS 50000
#define BLOCK_LEAST_POINTS 50

void block_text(Page *json, const char *text);
void block_heading(Page *json, const char *text);
void block_findings(Page *json, const Findings *findings); /* and the further ones, folded */
void block_table(Page *json, const Table *table);
void block_plot(Page *json, Plot *plot, const char *name); /* prepares the plot (plot_prepare) */

/* The losses of runs that have any. */
void block_curves(Page *json, const Results *results);

/* Configurations across what varies and what came of it; none with fewer than two of them, or
 * with nothing that varies. */
void block_parallel(Page *json, const Results *results);

/* Options of a run, those given first. */
void block_options(Page *json, const Result *run);

/* Blocks between these two are folded away. */
void block_begin_details(Page *json, const char *title);
void block_end_details(Page *json);
