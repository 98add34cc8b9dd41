#pragma once
/* A Hugging Face model as a run directory with one checkpoint, step 0, which has no optimizer
 * state. */

/* ERR_INPUT names what is wrong with the folder, or that `out` exists and is no empty folder. */
int import_model(const char *folder, const char *out);
