#pragma once
/* A file that grows by whole lines. While its disk is full, or a quota used up, lines wait in
 * memory and go, in order, with the first one that there is room for: training goes on meanwhile.
 * What a write leaves of a line is cut off at once; no line is there without those before it. */
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    char *path;    /* NULL: not open */
    int file;      /* descriptor, append mode; -1: there was no room for a new file yet */
    off_t written; /* its length, in whole lines */
    char *waiting; /* (size) bytes of `count` lines */
    size_t size;
    int64_t count;
} LineFile;

/* path: taken, whatever open returns. fresh: what is there goes. A file that a full disk has no
 * room for is made with its first line. */
int lines_open(LineFile *lines, char *path, bool fresh);
/* line: with its end. It has reached the system, or waits, which is told of once. An error where
 * it can be neither: another one than a full disk, or more lines than memory is given to. */
int lines_append(LineFile *lines, const char *line);
/* Tries what waits again. 0: nothing does any more, or `lines` is not open. */
int lines_catch_up(LineFile *lines);
void lines_close(LineFile *lines); /* what still waits is lost */
