#include "comm/board.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x31647261426350ull
#define READ_TRIES 16
#define SLATE "rank-" /* files of the folder begin so */

/* The file. `place` is 2 x number + inside: stored behind `what`, so that a reader who finds the
 * same place before and after reading the name has the name that belongs to it. */
typedef struct {
    uint64_t magic, job;
    int64_t rank, pid;
    char host[BOARD_NAME_SIZE];
    _Atomic int64_t step, place, device, beats, at_files;
    char what[BOARD_NAME_SIZE];
} Slate;

struct Board {
    char *folder; /* NULL: no file */
    char *path;
    int file; /* open, and locked, while the rank lives; -1 */
    uint64_t job;
    int rank;
    Slate *slate;
};

/* Of its job alone: others in this folder, also one that is refused, have theirs. */
static char *slate_path(const Board *board, int rank)
{
    return mem_format("%s/" SLATE "%d-%016" PRIx64, board->folder, rank, board->job);
}

/* Files of ranks that were killed: nobody holds their locks. */
static void remove_left(const char *path)
{
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (strncmp(entry->d_name, SLATE, strlen(SLATE)) != 0) {
            continue;
        }
        int file =
            openat(dirfd(folder), entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0) {
            unlinkat(dirfd(folder), entry->d_name, 0);
        }
        if (file >= 0) {
            close(file);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

/* A file that is locked: remove_left of another job may have come in between. */
static int create_locked(const char *path)
{
    struct stat info = {.st_nlink = 1};
    int file;
    do {
        file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        while (file >= 0 && flock(file, LOCK_EX) != 0 && errno == EINTR) {}
    } while (file >= 0 && fstat(file, &info) == 0 && info.st_nlink == 0 && close(file) == 0);
    return file;
}

static int create(Board *board)
{
    int code = io_make_folders(board->folder);
    if (code != 0) {
        return code;
    }
    remove_left(board->folder);
    board->path = slate_path(board, board->rank);
    board->file = create_locked(board->path);
    if (board->file < 0) {
        return io_error(board->path, "create");
    }
    /* Written, not only made long: a full disk shows here and not as a signal later. */
    Slate empty = {0};
    void *map = MAP_FAILED;
    if (write(board->file, &empty, sizeof empty) == (ssize_t)sizeof empty) {
        map = mmap(NULL, sizeof empty, PROT_READ | PROT_WRITE, MAP_SHARED, board->file, 0);
    }
    int cause = errno;
    if (map == MAP_FAILED) {
        unlink(board->path);
        return err_set(ERR_FAILED, "%s: cannot be written: %s", board->path, strerror(cause));
    }
    board->slate = map;
    return 0;
}

int board_open(const char *folder, uint64_t job, int rank, const char *host, Board **out)
{
    Board *board = mem_zalloc(1, sizeof *board);
    board->job = job;
    board->rank = rank;
    board->file = -1;
    if (folder == NULL) {
        board->slate = mem_zalloc(1, sizeof *board->slate);
    } else {
        board->folder = mem_strdup(folder);
        int code = create(board);
        if (code != 0) {
            board_close(board);
            return code;
        }
    }
    Slate *slate = board->slate;
    slate->job = job;
    slate->rank = rank;
    slate->pid = getpid();
    snprintf(slate->host, sizeof slate->host, "%s", host);
    atomic_store(&slate->step, -1);
    slate->magic = MAGIC;
    board_flush(board);
    *out = board;
    return 0;
}

void board_close(Board *board)
{
    if (board == NULL) {
        return;
    }
    if (board->folder == NULL) {
        free(board->slate);
    } else if (board->slate != NULL) {
        munmap(board->slate, sizeof *board->slate);
        unlink(board->path);
    }
    if (board->file >= 0) {
        close(board->file);
    }
    free(board->path);
    free(board->folder);
    free(board);
}

void board_step(Board *board, int64_t step)
{
    atomic_store_explicit(&board->slate->step, step, memory_order_relaxed);
}

void board_enter(Board *board, int64_t number, const char *what)
{
    Slate *slate = board->slate;
    atomic_store(&slate->place, -1); /* between two places */
    size_t length = strnlen(what, BOARD_NAME_SIZE - 1);
    memcpy(slate->what, what, length);
    slate->what[length] = '\0';
    atomic_store(&slate->place, 2 * number + 1);
}

void board_leave(Board *board)
{
    atomic_fetch_and(&board->slate->place, ~(int64_t)1);
}

void board_device(Board *board, int64_t entered)
{
    atomic_store_explicit(&board->slate->device, entered, memory_order_relaxed);
}

void board_at_files(Board *board, bool at_files)
{
    atomic_store_explicit(&board->slate->at_files, at_files, memory_order_relaxed);
}

void board_beat(Board *board)
{
    atomic_fetch_add_explicit(&board->slate->beats, 1, memory_order_relaxed);
}

void board_flush(Board *board)
{
    if (board->folder != NULL) {
        msync(board->slate, sizeof *board->slate, MS_SYNC);
    }
}

/* True when the copy is of one moment. */
static bool read_once(int file, Slate *copy)
{
    Slate again;
    if (pread(file, copy, sizeof *copy, 0) != (ssize_t)sizeof *copy ||
        pread(file, &again, sizeof again, 0) != (ssize_t)sizeof again) {
        return false;
    }
    int64_t place = atomic_load(&copy->place);
    return place >= 0 && place == atomic_load(&again.place) &&
           memcmp(copy->what, again.what, sizeof again.what) == 0;
}

void board_read(const Board *board, int rank, BoardEntry *entry)
{
    *entry = (BoardEntry){0};
    if (board->folder == NULL) {
        return;
    }
    char *path = slate_path(board, rank);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    free(path);
    if (file < 0) {
        return;
    }
    Slate copy;
    bool read = false;
    for (int i = 0; i < READ_TRIES && !read; i++) {
        read = read_once(file, &copy);
    }
    close(file);
    if (!read || copy.magic != MAGIC || copy.job != board->job || copy.rank != rank) {
        return;
    }
    int64_t place = atomic_load(&copy.place);
    entry->there = true;
    entry->pid = copy.pid;
    entry->step = atomic_load(&copy.step);
    entry->device = atomic_load(&copy.device);
    entry->beats = atomic_load(&copy.beats);
    entry->at_files = atomic_load(&copy.at_files) != 0;
    entry->number = place / 2;
    entry->inside = place % 2 != 0;
    snprintf(entry->host, sizeof entry->host, "%.*s", BOARD_NAME_SIZE - 1, copy.host);
    snprintf(entry->what, sizeof entry->what, "%.*s", BOARD_NAME_SIZE - 1, copy.what);
}
