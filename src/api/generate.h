#pragma once
#include "use/writer.h"

typedef int WriterTell(void *user, int64_t sample, const uint8_t *text, size_t size);

/* The lines of --stop as texts, then NULL; stops_free. */
char **stops_read(const char *lines);
void stops_free(char **stops);

/* writer_run with what `generate`'s options say of sampling and lengths. Ctrl-C or
 * signals_request ends it. */
int api_write(LoadedModel *loaded, const Config *cfg, char **stops, const TokenList *prompt,
              WriterTell *tell, void *user, Written *out);
