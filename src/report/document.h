#pragma once
/* A report as a document in JSON, which the page of `pacer serve` and report.html show. */
#include "report/page.h"

/* Adds the document of a run or an experiment directory to `json`. ERR_INPUT when it is neither.
 * Long curves are thinned (blocks.h). */
int report_document(const char *dir, Page *json);

/* Writes folder/report.html, one file that shows the document without a request to anything. */
int document_save_html(const Page *json, const char *title, const char *folder);
