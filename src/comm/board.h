#pragma once
/* Where each rank is, for the others to read when one is missed: a small file per rank in a
 * folder that all of them see. A rank writes its own through a mapping, without system calls;
 * the others read the files when a wait has gone on for too long. Several jobs may have theirs in
 * one folder. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BOARD_NAME_SIZE 64

typedef struct Board Board;

typedef struct {
    bool there; /* the rest means something */
    int64_t pid;
    char host[BOARD_NAME_SIZE];
    int64_t step;   /* -1: not told */
    int64_t number; /* of the last collective entered; 0: none */
    bool inside;    /* it has not left that one */
    char what[BOARD_NAME_SIZE];
    int64_t
        device; /* collectives that its device has entered; the start of the channel is the first */
    int64_t beats; /* grows while the rank lives */
    bool at_files; /* it reads or writes large ones, which takes its time */
} BoardEntry;

/* folder NULL: kept to itself. Removes what ranks that were killed have left there. */
int board_open(const char *folder, uint64_t job, int rank, const char *host, Board **out);
void board_close(Board *board); /* removes the file; NULL is fine */

void board_step(Board *board, int64_t step);
/* One thread at a time. */
void board_enter(Board *board, int64_t number, const char *what);
void board_leave(Board *board);
void board_device(Board *board, int64_t entered);
void board_at_files(Board *board, bool at_files);
void board_beat(Board *board);
void board_flush(Board *board); /* to other hosts */

/* Rank's entry; not `there` when it has none of this job. */
void board_read(const Board *board, int rank, BoardEntry *entry);

/* A wait, as the rank that gave up sees it. */
typedef struct {
    int rank, ranks;
    int64_t number;   /* of the collective */
    const char *what; /* "all-reduce" */
    double waited_s;
    bool on_device;                   /* numbered as BoardEntry.device */
    const BoardEntry *first, *second; /* (ranks): two readings some time apart */
    double files_s;                   /* a rank that lives, and is at its files, may take so long */
} BoardWait;

/* Says who is behind, by the two readings, into text. */
#define BOARD_TEXT_SIZE 1024
void board_explain(const BoardWait *wait, char text[BOARD_TEXT_SIZE]);

/* "rank 2 on host a (pid 7) has ended: it was at step 40, before all-reduce 17"; without
 * readings. */
void board_explain_end(const BoardWait *wait, int rank, const BoardEntry *entry,
                       char text[BOARD_TEXT_SIZE]);

/* The first rank that board_explain names; -1: it names none. */
int board_missed(const BoardWait *wait);

/* A collective that all ranks were found in, alive, or at their files, by one that had waited for
 * so long. Zeroed: there is none. */
typedef struct {
    int64_t number;
    double waited_s;
    bool at_files;
} BoardMet;

/* What counts of a wait: since all were found to be there, if they were, as the last may have come
 * only then. */
double board_waited(const BoardWait *wait, const BoardMet *met);

/* After too long a wait, with readings: false, and *met is set, where all are there for the first
 * time that it is asked, or some still at their files. */
bool board_gives_up(const BoardWait *wait, BoardMet *met);

/* The lowest rank that is alive and inside what `wait` waits for: the one to speak for all of
 * them, by the two readings. */
int board_speaker(const BoardWait *wait);
