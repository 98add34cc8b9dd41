/* The sentences about ranks that are missed. A rank is behind when it has not entered the
 * collective that others wait in; when all have, the one that shows no life between two readings
 * is the one that is missed. */
#include "comm/board.h"

#include "base/mem.h"

#include <stdio.h>
#include <string.h>

#define NAMED_MOST 4 /* ranks that are told in full */

static bool lives(const BoardWait *wait, int rank)
{
    return wait->second[rank].there && wait->second[rank].beats != wait->first[rank].beats;
}

/* It is behind because of its files. */
static bool is_excused(const BoardWait *wait, int rank)
{
    return wait->second[rank].at_files && lives(wait, rank) && wait->waited_s < wait->files_s;
}

static int64_t entered(const BoardWait *wait, const BoardEntry *entry)
{
    return wait->on_device ? entry->device : entry->number;
}

static void say_name(FILE *to, int rank, const BoardEntry *entry)
{
    fprintf(to, "rank %d", rank);
    if (entry->there) {
        fprintf(to, " on host %s (pid %lld)", entry->host, (long long)entry->pid);
    }
}

static void say_place(FILE *to, const BoardWait *wait, const BoardEntry *entry)
{
    if (entry->step >= 0) {
        fprintf(to, "at step %lld", (long long)entry->step);
    } else {
        fputs("before its first step", to);
    }
    int64_t number = entered(wait, entry);
    if (entry->inside && !wait->on_device) {
        fprintf(to, ", in %s %lld", entry->what, (long long)number);
    } else if (number >= wait->number) {
        fprintf(to, ", past the start of %s %lld", wait->what, (long long)wait->number);
    } else if (number + 1 == wait->number) {
        fprintf(to, ", before %s %lld", wait->what, (long long)wait->number);
    } else {
        fprintf(to, ", before collective %lld", (long long)number + 1);
    }
}

static void say_missed(FILE *to, const BoardWait *wait, int rank)
{
    const BoardEntry *entry = &wait->second[rank];
    say_name(to, rank, entry);
    if (!entry->there) {
        fputs(" has told nothing of itself", to);
        return;
    }
    fputs(" is ", to);
    say_place(to, wait, entry);
    if (entry->at_files) {
        fputs(", at its files", to);
    }
    if (!lives(wait, rank)) {
        fputs(", and shows no sign of life", to);
    }
}

typedef enum { MISSED_BEHIND, MISSED_SILENT, MISSED_NONE } Missed;

static bool is_missed(const BoardWait *wait, Missed how, int rank)
{
    if (rank == wait->rank || how == MISSED_NONE) {
        return false;
    }
    if (how == MISSED_SILENT) {
        return !lives(wait, rank);
    }
    return !wait->second[rank].there ||
           (entered(wait, &wait->second[rank]) < wait->number && !is_excused(wait, rank));
}

/* The first way in which some rank is missed. */
static Missed find_missed(const BoardWait *wait)
{
    for (Missed how = MISSED_BEHIND; how < MISSED_NONE; how++) {
        for (int i = 0; i < wait->ranks; i++) {
            if (is_missed(wait, how, i)) {
                return how;
            }
        }
    }
    return MISSED_NONE;
}

int board_missed(const BoardWait *wait)
{
    Missed how = find_missed(wait);
    for (int i = 0; i < wait->ranks; i++) {
        if (is_missed(wait, how, i)) {
            return i;
        }
    }
    return -1;
}

double board_waited(const BoardWait *wait, const BoardMet *met)
{
    return wait->waited_s - (met->number == wait->number ? met->waited_s : 0);
}

bool board_gives_up(const BoardWait *wait, BoardMet *met)
{
    bool at_files = false;
    for (int i = 0; i < wait->ranks; i++) {
        at_files = at_files || is_excused(wait, i);
    }
    bool again = met->number == wait->number && !met->at_files;
    if (board_missed(wait) >= 0 || (again && !at_files)) {
        return true;
    }
    *met = (BoardMet){wait->number, wait->waited_s, at_files};
    return false;
}

static void say_what(FILE *to, const BoardWait *wait)
{
    fprintf(to, "%s %lld", wait->what, (long long)wait->number);
}

/* "ranks 0, 1, 3 have waited 60 s for it" */
static void say_waiting(FILE *to, const BoardWait *wait, Missed how, int missed)
{
    int waiting = wait->ranks - missed, told = 0;
    fputs(waiting > 1 ? "ranks " : "rank ", to);
    for (int i = 0; i < wait->ranks && told < 2 * NAMED_MOST; i++) {
        if (!is_missed(wait, how, i)) {
            fprintf(to, "%s%d", told++ > 0 ? ", " : "", i);
        }
    }
    if (waiting > told) {
        fprintf(to, " and %d more", waiting - told);
    }
    fprintf(to, " %s waited %.3g s in ", waiting > 1 ? "have" : "has", wait->waited_s);
    say_what(to, wait);
    fprintf(to, " for %s", missed > 1 ? "them" : "it");
}

static void explain(FILE *to, const BoardWait *wait)
{
    bool any = false;
    for (int i = 0; i < wait->ranks; i++) {
        any = any || wait->second[i].there;
    }
    if (!any) {
        say_what(to, wait);
        fprintf(to, " was not finished within %.3g s: another rank is missing or stopped",
                wait->waited_s);
        return;
    }
    Missed how = find_missed(wait);
    int missed = 0;
    for (int i = 0; i < wait->ranks; i++) {
        if (is_missed(wait, how, i) && missed++ < NAMED_MOST) {
            fputs(missed > 1 ? "; " : "", to);
            say_missed(to, wait, i);
        }
    }
    if (how == MISSED_NONE) {
        fprintf(to, "all %d ranks are in ", wait->ranks);
        say_what(to, wait);
        fprintf(to,
                " and alive, but it was not finished within %.3g s: the way between them is "
                "blocked",
                wait->waited_s);
        return;
    }
    if (missed > NAMED_MOST) {
        fprintf(to, "; and %d more", missed - NAMED_MOST);
    }
    fputs("; ", to);
    say_waiting(to, wait, how, missed);
}

/* A stream into text, which is cut when it is full. */
static FILE *open_text(char text[BOARD_TEXT_SIZE])
{
    memset(text, 0, BOARD_TEXT_SIZE);
    return mem_checked(fmemopen(text, BOARD_TEXT_SIZE - 1, "w"), BOARD_TEXT_SIZE);
}

void board_explain(const BoardWait *wait, char text[BOARD_TEXT_SIZE])
{
    FILE *to = open_text(text);
    explain(to, wait);
    fclose(to);
}

void board_explain_end(const BoardWait *wait, int rank, const BoardEntry *entry,
                       char text[BOARD_TEXT_SIZE])
{
    FILE *to = open_text(text);
    say_name(to, rank, entry);
    fputs(" has ended", to);
    if (entry->there) {
        fputs(": it was ", to);
        say_place(to, wait, entry);
    }
    fprintf(to, "; rank %d waits for it in ", wait->rank);
    say_what(to, wait);
    fclose(to);
}

int board_speaker(const BoardWait *wait)
{
    for (int i = 0; i < wait->rank; i++) {
        const BoardEntry *entry = &wait->second[i];
        bool waits = entered(wait, entry) == wait->number && (wait->on_device || entry->inside);
        if (waits && lives(wait, i)) {
            return i;
        }
    }
    return wait->rank;
}
