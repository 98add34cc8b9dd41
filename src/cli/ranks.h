#pragma once
/* For commands that several ranks run together. */
#include "api/internal.h"

/* Joins the ranks that this process was started among; cfg then has their number. Not started
 * so, with --ranks above 1, the process becomes mpirun and starts them: it returns only when
 * that fails. *comm is NULL without ranks. board: CommOptions.board. more: words that the ranks get
 * behind those that this process was given, then NULL; NULL: none. */
int ranks_enter(Config *cfg, const char *board, char *const *more, Comm **comm);

/* Whether this rank is the one that prints and writes; also without ranks. */
bool ranks_lead(const Comm *comm);

/* Whether a process that is started with the same words will find the same options. */
int words_check(const Config *cfg);

/* The words that this process was started with, and more (NULL: none), then NULL; NULL: the system
 * does not show them. words_free. */
char **words_of_process(char *const *more);
void words_add(char ***words, size_t *count, char *word); /* takes it */
void words_free(char **words);                            /* NULL is fine */
