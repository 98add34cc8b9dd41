#pragma once
/* The report of a run or an experiment as a document of blocks in JSON, which web/view.js shows. */
#include "report/page.h"

/* Appends the document of a run directory or an experiment's folder. ERR_INPUT when it is
 * neither. */
int report_document(const char *dir, Page *json);
