/* Profiles of several ranks as one table and one file. A rank's lanes are text that goes to the
 * first rank in pieces of fixed size, so neither the number of ranks nor the length of a step costs
 * memory.
 *
 * Ranks of one machine read the same clock, so their times can be compared as they are. Between
 * machines all that is known is that a step begins behind a barrier: the file's time begins
 * where the first rank of a machine left it, and machines are as far apart in the file as these
 * ranks were, which is about the way of a message. */
#include "analyse/profile_lanes.h"
#include "base/assert.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
    char host[64], device[64];
    double step_s, exposed_s, hidden_s;
} RankLine;

/* Without what it waited for others. */
static double own_seconds(const RankLine *line)
{
    return line->step_s - line->exposed_s;
}

static int find_slowest(const RankLine *lines, int ranks)
{
    int slowest = 0;
    for (int i = 1; i < ranks; i++) {
        slowest = own_seconds(&lines[i]) > own_seconds(&lines[slowest]) ? i : slowest;
    }
    return slowest;
}

static void print_lines(const RankLine *lines, int ranks, FILE *file)
{
    fprintf(file, "\n%4s %12s %12s %12s %12s  %s\n", "rank", "step ms", "own ms", "exposed ms",
            "hidden ms", "on");
    for (int i = 0; i < ranks; i++) {
        const RankLine *line = &lines[i];
        fprintf(file, "%4d %12.3f %12.3f %12.3f %12.3f  %s, %s\n", i, 1e3 * line->step_s,
                1e3 * own_seconds(line), 1e3 * line->exposed_s, 1e3 * line->hidden_s, line->host,
                line->device);
    }
}

int profile_print_ranks(const Profile *profile, ProfileCeilings ceilings, ProfileRanks ranks,
                        FILE *file)
{
    int count = comm_ranks(ranks.comm);
    RankLine *lines = mem_zalloc((size_t)count, sizeof *lines), mine = {
                                                                    .step_s = profile->traced_s,
                                                                    .exposed_s = profile->exposed_s,
                                                                    .hidden_s = profile->hidden_s,
                                                                };
    snprintf(mine.host, sizeof mine.host, "%s", comm_host(ranks.comm));
    snprintf(mine.device, sizeof mine.device, "%s", ranks.device);
    int code = comm_gather(ranks.comm, &mine, sizeof mine, lines);
    if (code != 0) {
        return code; /* a message may still come into lines */
    }
    struct {
        Profile profile;
        ProfileCeilings ceilings;
    } slowest = {*profile, ceilings};
    int rank = find_slowest(lines, count);
    slowest.profile.fastest = (ProfiledStep){0}; /* memory of this process */
    code = comm_broadcast(ranks.comm, &slowest, sizeof slowest, rank);
    if (code == 0 && comm_rank(ranks.comm) == 0) {
        fprintf(file, "%s\nops of rank %d, the slowest by its own time\n", ranks.title, rank);
        profile_print(&slowest.profile, slowest.ceilings, file);
        print_lines(lines, count, file);
    }
    free(lines);
    return code;
}

#define SAME_CLOCK_NS 1000000000LL /* ranks that leave a barrier further apart have two clocks */

/* Which clock a rank reads, and when its step began by it. */
typedef struct {
    char host[64], boot[40];
    uint64_t space; /* time namespace */
    int64_t start_ns;
} RankClock;

static RankClock describe_clock(const Comm *comm, int64_t start_ns)
{
    RankClock clock = {.start_ns = start_ns};
    snprintf(clock.host, sizeof clock.host, "%s", comm_host(comm));
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (file == NULL || fgets(clock.boot, sizeof clock.boot, file) == NULL) {
        snprintf(clock.boot, sizeof clock.boot, "of rank %d", comm_rank(comm));
    }
    if (file != NULL) {
        fclose(file);
    }
    struct stat space;
    clock.space = stat("/proc/self/ns/time", &space) == 0 ? (uint64_t)space.st_ino : 0;
    return clock;
}

static bool same_clock(const RankClock *a, const RankClock *b)
{
    return strcmp(a->host, b->host) == 0 && strcmp(a->boot, b->boot) == 0 && a->space == b->space &&
           llabs(a->start_ns - b->start_ns) < SAME_CLOCK_NS;
}

/* Where the file's time begins by this rank's clock. */
static int find_origin(Comm *comm, int64_t start_ns, int64_t *origin_ns)
{
    int ranks = comm_ranks(comm);
    RankClock mine = describe_clock(comm, start_ns);
    RankClock *all = mem_zalloc((size_t)ranks, sizeof *all);
    int code = comm_gather(comm, &mine, sizeof mine, all);
    if (code != 0) {
        return code; /* a message may still come into it */
    }
    *origin_ns = start_ns;
    for (int i = 0; i < ranks; i++) {
        if (same_clock(&all[i], &mine) && all[i].start_ns < *origin_ns) {
            *origin_ns = all[i].start_ns;
        }
    }
    free(all);
    return 0;
}

#define PIECE_TEXT 65000

/* Of a rank's lanes, on its way from that rank. */
typedef struct {
    Comm *comm;
    int from;
    size_t size; /* 0: that was all */
    char text[PIECE_TEXT];
} Piece;

static int pass_on(Piece *piece)
{
    int code = comm_broadcast(piece->comm, &piece->size, sizeof piece->size, piece->from);
    PACER_ASSERT(code != 0 || piece->size <= PIECE_TEXT, "a piece of %zu bytes", piece->size);
    return code != 0 ? code : comm_broadcast(piece->comm, piece->text, piece->size, piece->from);
}

static int put_piece(void *user, const char *text, size_t size)
{
    Piece *piece = user;
    int code = 0;
    while (size > 0 && code == 0) {
        size_t room = PIECE_TEXT - piece->size, taken = size < room ? size : room;
        memcpy(piece->text + piece->size, text, taken);
        piece->size += taken;
        text += taken;
        size -= taken;
        if (piece->size == PIECE_TEXT) {
            code = pass_on(piece);
            piece->size = 0;
        }
    }
    return code;
}

/* The other end. An output that fails does not stop the rank that sends. */
static int take_pieces(Piece *piece, Output *output)
{
    int code = 0, written = 0;
    do {
        code = pass_on(piece);
        if (code == 0 && output != NULL && written == 0) {
            written = output_put(output, piece->text, piece->size);
        }
    } while (code == 0 && piece->size > 0);
    return code != 0 ? code : written;
}

static int send_lanes(const Profile *profile, ProfileCeilings ceilings, ProfileLanes lanes,
                      Piece *piece)
{
    piece->size = 0;
    int code = profile_put_lanes(profile, ceilings, lanes, (ProfileSink){put_piece, piece});
    if (code == 0 && piece->size > 0) {
        code = pass_on(piece);
    }
    piece->size = 0;
    return code == 0 ? pass_on(piece) : code;
}

int profile_write_ranks(const Profile *profile, ProfileCeilings ceilings, ProfileRanks ranks,
                        Output *output)
{
    int64_t origin_ns;
    int rank = comm_rank(ranks.comm);
    int code = find_origin(ranks.comm, profile->fastest.start_ns, &origin_ns);
    if (code != 0) {
        return code;
    }
    char *name = mem_format("rank %d (%s, %s)", rank, comm_host(ranks.comm), ranks.device);
    ProfileLanes lanes = {.rank = rank,
                          .name = name,
                          .label = ranks.title,
                          .origin_ns = origin_ns,
                          .has_comm = true,
                          .first = rank == 0};
    ProfileSink sink = {profile_put_output, output};
    Piece *piece = mem_zalloc(1, sizeof *piece);
    piece->comm = ranks.comm;
    if (rank == 0) {
        code = profile_put_head(sink);
        code = code == 0 ? profile_put_lanes(profile, ceilings, lanes, sink) : code;
    }
    for (int from = 1; from < comm_ranks(ranks.comm); from++) {
        piece->from = from;
        int passed = from == rank ? send_lanes(profile, ceilings, lanes, piece)
                                  : take_pieces(piece, code == 0 ? output : NULL);
        code = code == 0 ? passed : code;
    }
    if (rank == 0) {
        code = code == 0 ? profile_put_tail(sink) : code;
    }
    free(piece);
    free(name);
    return comm_agree(ranks.comm, code);
}
