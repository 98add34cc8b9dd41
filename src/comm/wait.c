#include "comm/internal.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Between two readings every rank that lives has moved its counter, also as another host sees
 * it. */
#define APART_HERE 1.5 /* s */
#define APART_FAR 6.0
#define TURN 2.0 /* s that the speaker is given before others say the same */
/* The same when a rank has ended: a launcher notices too, and soon ends the rest. */
#define SHORT_TURN 0.5
#define SEEN_WITHIN 10.0 /* s for a new file to be seen by other hosts */
/* A rank that reads or writes a checkpoint is given so many times --comm-timeout: disks are slow,
 * and what one rank does there alone, as rank 0 reads all again, takes the longer the larger the
 * model is. */
#define FILES_TIMES 10

static void sleep_for(double seconds)
{
    time_t whole = (time_t)seconds;
    struct timespec left = {whole, (long)((seconds - (double)whole) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
}

static void read_all(Comm *comm, BoardEntry *entries)
{
    board_flush(comm->board);
    for (int i = 0; i < comm->ranks; i++) {
        board_read(comm->board, i, &entries[i]);
    }
}

/* Fills the readings of wait. */
static void read_twice(Comm *comm, BoardEntry *first, BoardEntry *second)
{
    read_all(comm, first);
    double apart = comm->local_ranks < comm->ranks ? APART_FAR : APART_HERE;
    for (double slept = 0; slept < apart; slept += 0.1) {
        board_beat(comm->board);
        sleep_for(0.1);
    }
    read_all(comm, second);
}

bool wait_is_over(Comm *comm, BoardWait wait, BoardMet *met, char text[BOARD_TEXT_SIZE])
{
    double timeout = comm->options.timeout_s;
    if (timeout <= 0 || board_waited(&wait, met) <= timeout) {
        return false;
    }
    BoardEntry *first = mem_zalloc((size_t)comm->ranks, sizeof *first);
    BoardEntry *second = mem_zalloc((size_t)comm->ranks, sizeof *second);
    if (comm->options.board != NULL) {
        read_twice(comm, first, second);
    }
    wait.first = first;
    wait.second = second;
    wait.files_s = FILES_TIMES * timeout;
    bool over = board_gives_up(&wait, met);
    if (over) {
        board_explain(&wait, text);
        launch_tell_lost(text, board_missed(&wait));
        if (board_speaker(&wait) != comm->rank) {
            sleep_for(TURN);
        }
    }
    free(first);
    free(second);
    return over;
}

int wait_find_dead(const Comm *comm)
{
    const Peer *me = &comm->peers[comm->rank];
    for (int i = 0; i < comm->ranks; i++) {
        const Peer *peer = &comm->peers[i];
        if (peer->pid != 0 && peer->pid_space == me->pid_space &&
            strcmp(peer->host, me->host) == 0 && kill((pid_t)peer->pid, 0) != 0 && errno == ESRCH) {
            return i;
        }
    }
    return -1;
}

void wait_explain_end(Comm *comm, const BoardWait *wait, int dead, char text[BOARD_TEXT_SIZE])
{
    BoardEntry entry;
    bool another_speaks = false;
    for (int i = 0; i < comm->rank && !another_speaks; i++) {
        board_read(comm->board, i, &entry);
        another_speaks = i != dead && entry.there && entry.inside && entry.number == wait->number;
    }
    board_read(comm->board, dead, &entry);
    board_explain_end(wait, dead, &entry, text);
    launch_tell_lost(text, dead);
    if (another_speaks) {
        sleep_for(SHORT_TURN);
    }
}

int wait_for_first(Comm *comm)
{
    BoardEntry entry;
    double timeout = comm->options.timeout_s; /* of those who see it, and wait for this rank */
    double within = timeout > 0 ? fmin(timeout / 2, SEEN_WITHIN) : SEEN_WITHIN;
    for (double slept = 0; slept < within; slept += 0.1) {
        board_read(comm->board, 0, &entry);
        if (entry.there) {
            return 0;
        }
        sleep_for(0.1);
    }
    return err_set(ERR_FAILED,
                   "%s: rank %d on host %s does not see there what rank 0 on host %s has written: "
                   "the run directory must be one folder for all hosts (--out on a shared file "
                   "system)",
                   comm->options.board, comm->rank, comm->peers[comm->rank].host,
                   comm->peers[0].host);
}
