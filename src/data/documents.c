#include "data/documents.h"

#include "base/err.h"
#include "base/mem.h"
#include "data/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)1 << 20)
#define SEPARATOR_LENGTH (sizeof BYTES_SEPARATOR - 1)
#define HEAD_BYTES (SEPARATOR_LENGTH + 2) /* the separator with CR LF */

struct Documents {
    char *path;
    int file;
    uint64_t size;
    uint64_t document_start, line_start, position; /* position: of the next byte to look at */
    uint64_t buffer_start;
    size_t buffer_used;
    char head[HEAD_BYTES]; /* of the line at line_start */
    char buffer[BUFFER_BYTES];
};

int documents_open(const char *path, Documents **out)
{
    *out = NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return err_set(ERR_INPUT, "%s: cannot read: %s", path, strerror(errno));
    }
    struct stat info;
    if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(file);
        return err_set(ERR_INPUT, "%s: not a regular file; give text files", path);
    }
    Documents *documents = mem_zalloc(1, sizeof *documents);
    documents->path = mem_strdup(path);
    documents->file = file;
    documents->size = (uint64_t)info.st_size;
    *out = documents;
    return 0;
}

uint64_t documents_bytes(const Documents *documents)
{
    return documents->size;
}

int documents_read(Documents *documents, uint64_t offset, void *out, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t part =
            pread(documents->file, (char *)out + done, size - done, (off_t)(offset + done));
        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part < 0) {
            return err_set(ERR_INPUT, "%s: cannot read: %s", documents->path, strerror(errno));
        }
        if (part == 0) {
            return err_set(ERR_INPUT, "%s: became shorter while it was read; run again",
                           documents->path);
        }
        done += (size_t)part;
    }
    return 0;
}

static bool is_separator(const char *head, uint64_t length)
{
    if (length > HEAD_BYTES) {
        return false;
    }
    if (length > 0 && head[length - 1] == '\n') {
        length--;
    }
    if (length > 0 && head[length - 1] == '\r') {
        length--;
    }
    return length == SEPARATOR_LENGTH && memcmp(head, BYTES_SEPARATOR, SEPARATOR_LENGTH) == 0;
}

/* Advances to behind the next line break in the buffer, or to the buffer's end. True when the line
 * is complete. */
static bool scan_line(Documents *d)
{
    size_t at = (size_t)(d->position - d->buffer_start), left = d->buffer_used - at;
    const char *from = d->buffer + at, *found = memchr(from, '\n', left);
    size_t part = found == NULL ? left : (size_t)(found - from) + 1;
    uint64_t length = d->position - d->line_start; /* of the line so far */
    if (length < HEAD_BYTES) {
        size_t room = HEAD_BYTES - (size_t)length;
        memcpy(d->head + length, from, part < room ? part : room);
    }
    d->position += part;
    return found != NULL || d->position == d->size;
}

int documents_next(Documents *d, Document *document, bool *found)
{
    *found = false;
    while (!*found && d->document_start < d->size) {
        if (d->position == d->buffer_start + d->buffer_used) {
            uint64_t left = d->size - d->position;
            size_t part = left < BUFFER_BYTES ? (size_t)left : BUFFER_BYTES;
            int code = documents_read(d, d->position, d->buffer, part);
            if (code != 0) {
                return code;
            }
            d->buffer_start = d->position;
            d->buffer_used = part;
        }
        if (!scan_line(d)) {
            continue;
        }
        bool separator = is_separator(d->head, d->position - d->line_start);
        if (separator || d->position == d->size) {
            uint64_t end = separator ? d->line_start : d->position;
            *document = (Document){d->document_start, end - d->document_start};
            *found = document->size > 0;
            d->document_start = d->position;
        }
        d->line_start = d->position;
    }
    return 0;
}

void documents_close(Documents *documents)
{
    if (documents != NULL) {
        close(documents->file);
        free(documents->path);
        free(documents);
    }
}
