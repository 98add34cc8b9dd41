#include "record/lines.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAITING_MOST ((size_t)4 << 20) /* bytes: some 15,000 lines */

/* What is there no room for now, and may be later. */
static bool is_full(int cause)
{
    return cause == ENOSPC || cause == EDQUOT || cause == EFBIG;
}

/* more: flags beside those of every file. full: there was no room for one more. */
static int open_file(LineFile *lines, int more, bool *full)
{
    /* O_NONBLOCK: a pipe that nobody reads is an error instead of a wait. */
    int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | more;
    lines->file = open(lines->path, flags, 0644);
    *full = lines->file < 0 && is_full(errno);
    lines->written = lines->file >= 0 ? lseek(lines->file, 0, SEEK_END) : -1;
    return lines->written >= 0 ? 0 : io_error(lines->path, "write");
}

int lines_open(LineFile *lines, char *path, bool fresh)
{
    *lines = (LineFile){.path = path};
    bool full;
    int code = open_file(lines, fresh ? O_TRUNC : 0, &full);
    return full ? 0 : code;
}

void lines_close(LineFile *lines)
{
    if (lines->path != NULL && lines->file >= 0) {
        close(lines->file);
    }
    free(lines->path);
    free(lines->waiting);
    *lines = (LineFile){.file = -1};
}

/* All of it, or nothing: a write that failed may have left a part. full: there was no room. */
static int put(LineFile *lines, const char *text, size_t size, bool *full)
{
    size_t done = 0;
    int code = 0;
    *full = false;
    if (lines->file < 0 && (code = open_file(lines, 0, full)) != 0) {
        return code;
    }
    while (done < size && code == 0) {
        ssize_t part = write(lines->file, text + done, size - done);
        if (part >= 0) {
            done += (size_t)part;
        } else if (errno != EINTR) {
            *full = is_full(errno);
            code = io_error(lines->path, "write");
        }
    }
    if (code == 0) {
        lines->written += (off_t)size;
    } else if (ftruncate(lines->file, lines->written) != 0) {
        *full = false;
        code = err_wrap(code, "the last line is incomplete");
    }
    return code;
}

static int catch_up(LineFile *lines, bool *full)
{
    *full = false;
    int code = lines->size > 0 ? put(lines, lines->waiting, lines->size, full) : 0;
    if (code == 0 && lines->count > 0) {
        log_info("%s: there is room again; lines that waited and are written: %lld", lines->path,
                 (long long)lines->count);
        lines->count = 0;
        lines->size = 0;
    }
    return code;
}

int lines_catch_up(LineFile *lines)
{
    bool full;
    return catch_up(lines, &full);
}

int lines_append(LineFile *lines, const char *line)
{
    size_t size = strlen(line);
    bool full;
    int code = catch_up(lines, &full);
    code = code == 0 ? put(lines, line, size, &full) : code;
    if (!full) {
        return code;
    }
    if (lines->size + size > WAITING_MOST) {
        return err_wrap(code, "%lld lines wait in memory, which is too many",
                        (long long)lines->count);
    }
    if (lines->count == 0) {
        log_warn("%s; training goes on, and lines wait in memory until there is room",
                 err_message());
    }
    lines->waiting = mem_realloc(lines->waiting, lines->size + size, 1);
    memcpy(lines->waiting + lines->size, line, size);
    lines->size += size;
    lines->count++;
    return 0;
}
