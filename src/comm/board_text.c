/* The sentences about ranks that are missed. A rank is behind when it has not entered the
 * collective that others wait in; when all have, the one that shows no life between two readings
 * is the one that is missed. */
#include "comm/board.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NAMED_MOST 4 /* ranks that are told in full */

typedef struct {
    char *text;
    size_t at;
} Sentence;

static void say(Sentence *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(Sentence *to, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = vsnprintf(to->text + to->at, BOARD_TEXT_SIZE - to->at, format, args);
    va_end(args);
    if (length > 0) {
        to->at += (size_t)length;
        if (to->at >= BOARD_TEXT_SIZE) {
            to->at = BOARD_TEXT_SIZE - 1;
        }
    }
}

static bool lives(const BoardEntry *first, const BoardEntry *second, int rank)
{
    return second[rank].there && second[rank].beats != first[rank].beats;
}

static int64_t entered(const BoardWait *wait, const BoardEntry *entry)
{
    return wait->on_device ? entry->device : entry->number;
}

static void say_name(Sentence *to, int rank, const BoardEntry *entry)
{
    say(to, "rank %d", rank);
    if (entry->there) {
        say(to, " on host %s (pid %lld)", entry->host, (long long)entry->pid);
    }
}

static void say_place(Sentence *to, const BoardWait *wait, const BoardEntry *entry)
{
    if (entry->step >= 0) {
        say(to, "at step %lld", (long long)entry->step);
    } else {
        say(to, "before its first step");
    }
    int64_t number = entered(wait, entry);
    if (entry->inside && !wait->on_device) {
        say(to, ", in %s %lld", entry->what, (long long)number);
    } else if (number >= wait->number) {
        say(to, ", past the start of %s %lld", wait->what, (long long)wait->number);
    } else if (number + 1 == wait->number) {
        say(to, ", before %s %lld", wait->what, (long long)wait->number);
    } else {
        say(to, ", before collective %lld", (long long)number + 1);
    }
}

static void say_missed(Sentence *to, const BoardWait *wait, int rank, const BoardEntry *first,
                       const BoardEntry *second)
{
    say_name(to, rank, &second[rank]);
    if (!second[rank].there) {
        say(to, " has told nothing of itself");
        return;
    }
    say(to, " is ");
    say_place(to, wait, &second[rank]);
    if (!lives(first, second, rank)) {
        say(to, ", and shows no sign of life");
    }
}

typedef enum { MISSED_BEHIND, MISSED_SILENT, MISSED_NONE } Missed;

static bool is_missed(const BoardWait *wait, Missed how, const BoardEntry *first,
                      const BoardEntry *second, int rank)
{
    if (rank == wait->rank || how == MISSED_NONE) {
        return false;
    }
    if (how == MISSED_SILENT) {
        return !lives(first, second, rank);
    }
    return !second[rank].there || entered(wait, &second[rank]) < wait->number;
}

/* The first way in which some rank is missed. */
static Missed find_missed(const BoardWait *wait, const BoardEntry *first, const BoardEntry *second)
{
    for (Missed how = MISSED_BEHIND; how < MISSED_NONE; how++) {
        for (int i = 0; i < wait->ranks; i++) {
            if (is_missed(wait, how, first, second, i)) {
                return how;
            }
        }
    }
    return MISSED_NONE;
}

static void say_what(Sentence *to, const BoardWait *wait)
{
    say(to, "%s %lld", wait->what, (long long)wait->number);
}

/* "ranks 0, 1, 3 have waited 60 s for it" */
static void say_waiting(Sentence *to, const BoardWait *wait, Missed how, int missed,
                        const BoardEntry *first, const BoardEntry *second)
{
    int waiting = wait->ranks - missed, told = 0;
    say(to, waiting > 1 ? "ranks " : "rank ");
    for (int i = 0; i < wait->ranks && told < 2 * NAMED_MOST; i++) {
        if (!is_missed(wait, how, first, second, i)) {
            say(to, "%s%d", told++ > 0 ? ", " : "", i);
        }
    }
    if (waiting > told) {
        say(to, " and %d more", waiting - told);
    }
    say(to, " %s waited %.3g s in ", waiting > 1 ? "have" : "has", wait->waited_s);
    say_what(to, wait);
    say(to, " for %s", missed > 1 ? "them" : "it");
}

void board_explain(const BoardWait *wait, const BoardEntry *first, const BoardEntry *second,
                   char text[BOARD_TEXT_SIZE])
{
    Sentence to = {text, 0};
    text[0] = '\0';
    bool any = false;
    for (int i = 0; i < wait->ranks; i++) {
        any = any || second[i].there;
    }
    if (!any) {
        say_what(&to, wait);
        say(&to, " was not finished within %.3g s: another rank is missing or stopped",
            wait->waited_s);
        return;
    }
    Missed how = find_missed(wait, first, second);
    int missed = 0;
    for (int i = 0; i < wait->ranks; i++) {
        if (is_missed(wait, how, first, second, i) && missed++ < NAMED_MOST) {
            say(&to, "%s", missed > 1 ? "; " : "");
            say_missed(&to, wait, i, first, second);
        }
    }
    if (how == MISSED_NONE) {
        say(&to, "all %d ranks are in ", wait->ranks);
        say_what(&to, wait);
        say(&to,
            " and alive, but it was not finished within %.3g s: the way between "
            "them is blocked",
            wait->waited_s);
        return;
    }
    if (missed > NAMED_MOST) {
        say(&to, "; and %d more", missed - NAMED_MOST);
    }
    say(&to, "; ");
    say_waiting(&to, wait, how, missed, first, second);
}

void board_explain_end(const BoardWait *wait, int rank, const BoardEntry *entry,
                       char text[BOARD_TEXT_SIZE])
{
    Sentence to = {text, 0};
    say_name(&to, rank, entry);
    say(&to, " has ended");
    if (entry->there) {
        say(&to, ": it was ");
        say_place(&to, wait, entry);
    }
    say(&to, "; rank %d waits for it in ", wait->rank);
    say_what(&to, wait);
}

int board_speaker(const BoardWait *wait, const BoardEntry *first, const BoardEntry *second)
{
    for (int i = 0; i < wait->rank; i++) {
        bool waits =
            entered(wait, &second[i]) == wait->number && (wait->on_device || second[i].inside);
        if (waits && lives(first, second, i)) {
            return i;
        }
    }
    return wait->rank;
}
