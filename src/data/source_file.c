#include "data/source_file.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPOOL_BYTES ((size_t)1 << 18)
#define HEAD_BYTES ((size_t)64 << 10)

static int read_error(const char *name)
{
    return io_error(name, "read");
}

int source_file_open(SourceFile *file, const char *path, int (*interrupted)(void))
{
    *file = (SourceFile){0};
    /* Without O_NONBLOCK a named pipe would wait here for somebody to write. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        return read_error(path);
    }
    struct stat info;
    if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(descriptor);
        return err_set(
            ERR_INPUT,
            "%s: not a regular file; give files or folders, or pipe the text in and give "
            "- as the input",
            path);
    }
    *file = (SourceFile){.name = mem_strdup(path),
                         .file = descriptor,
                         .size = (uint64_t)info.st_size,
                         .interrupted = interrupted};
    return 0;
}

void source_file_close(SourceFile *file)
{
    if (file->name != NULL) {
        close(file->file);
        free(file->name);
    }
    *file = (SourceFile){0};
}

static int check_interrupted(const SourceFile *file)
{
    int code = file->interrupted == NULL ? 0 : file->interrupted();
    return code == 0 ? 0 : err_set(code, "interrupted while reading %s", file->name);
}

int source_file_read(const SourceFile *file, uint64_t offset, void *out, size_t size)
{
    int code = check_interrupted(file);
    if (code != 0) {
        return code;
    }
    for (size_t done = 0; done < size;) {
        ssize_t part = pread(file->file, (char *)out + done, size - done, (off_t)(offset + done));
        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part < 0) {
            return read_error(file->name);
        }
        if (part == 0) {
            return err_set(ERR_INPUT, "%s: became shorter while it was read; run again",
                           file->name);
        }
        done += (size_t)part;
    }
    return 0;
}

static const char *temporary_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder != NULL && folder[0] != '\0' ? folder : "/tmp";
}

static int keep_error(const char *name)
{
    return err_set(ERR_FAILED,
                   "%s: cannot keep it in %s: %s; set TMPDIR to a folder with enough room", name,
                   temporary_folder(), strerror(errno));
}

static int keep(int file, const char *name, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t part = write(file, bytes, size);
        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part <= 0) {
            return keep_error(name);
        }
        bytes += part;
        size -= (size_t)part;
    }
    return 0;
}

/* Copies to the end of `from`, or until an end is asked for. */
static int copy_all(SourceFile *file, int from)
{
    char *buffer = mem_alloc(SPOOL_BYTES);
    int code = 0;
    for (;;) {
        signals_wait_readable(from);
        code = check_interrupted(file);
        if (code != 0) {
            break;
        }
        ssize_t part = read(from, buffer, SPOOL_BYTES);
        if (part < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (part <= 0) {
            code = part < 0 ? read_error(file->name) : 0;
            break;
        }
        code = keep(file->file, file->name, buffer, (size_t)part);
        if (code != 0) {
            break;
        }
        file->size += (uint64_t)part;
    }
    free(buffer);
    return code;
}

int source_file_spool(SourceFile *file, int from, const char *name, int (*interrupted)(void))
{
    *file = (SourceFile){0};
    char *path = mem_format("%s/pacer-input-XXXXXX", temporary_folder());
    int descriptor = mkostemp(path, O_CLOEXEC);
    int code = descriptor < 0 ? keep_error(name) : 0;
    if (code == 0) {
        unlink(path);
        *file =
            (SourceFile){.name = mem_strdup(name), .file = descriptor, .interrupted = interrupted};
        code = copy_all(file, from);
    }
    free(path);
    if (code != 0) {
        source_file_close(file);
    }
    return code;
}

/* Packed files by their first bytes, and the program that unpacks them to standard output. */
typedef struct {
    const char *bytes;
    size_t size;
    const char *name, *program;
} Packed;

static const Packed packed[] = {
    {"\x1f\x8b", 2, "gzip", "gzip -dc"},
    {"\x28\xb5\x2f\xfd", 4, "zstd", "zstd -dc"},
    {"\xfd\x37zXZ\0", 6, "xz", "xz -dc"},
    {"PK\x03\x04", 4, "zip", "unzip -p"},
};

static bool begins(const uint8_t *head, size_t size, const char *bytes, size_t length)
{
    return size >= length && memcmp(head, bytes, length) == 0;
}

static const char *unpacker(const uint8_t *head, size_t size, const char **name)
{
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        if (begins(head, size, packed[i].bytes, packed[i].size)) {
            *name = packed[i].name;
            return packed[i].program;
        }
    }
    /* BZh, a digit, then the digits of pi: the first three characters alone could begin a text. */
    bool bzip2 = begins(head, size, "BZh", 3) && size >= 10 && memcmp(head + 4, "1AY&SY", 6) == 0;
    *name = "bzip2";
    return bzip2 ? "bzip2 -dc" : NULL;
}

static char *find_objection(const char *path, const uint8_t *head, size_t size)
{
    const char *name, *program = unpacker(head, size, &name);
    if (program != NULL) {
        return mem_format("compressed (%s); decompress it into a pipe and give - as the input: %s "
                          "%s | pacer ... -",
                          name, program, path);
    }
    if (begins(head, size, "PAR1", 4)) {
        return mem_format("a Parquet file; convert it to JSONL (one JSON object per line) first");
    }
    bool utf32 = begins(head, size, "\xff\xfe\0\0", 4) || begins(head, size, "\0\0\xfe\xff", 4);
    if (utf32 || begins(head, size, "\xff\xfe", 2) || begins(head, size, "\xfe\xff", 2)) {
        const char *encoding = utf32 ? "UTF-32" : "UTF-16";
        return mem_format("text in %s; convert it first: iconv -f %s -t UTF-8 %s > NEW", encoding,
                          encoding, path);
    }
    const uint8_t *zero = memchr(head, '\0', size);
    if (zero != NULL) {
        return mem_format("not text: byte %zu is 0", (size_t)(zero - head));
    }
    return NULL;
}

int source_file_inspect(SourceFile *file, char **objection)
{
    *objection = NULL;
    size_t size = file->size < HEAD_BYTES ? (size_t)file->size : HEAD_BYTES;
    uint8_t *head = mem_alloc(HEAD_BYTES);
    int code = source_file_read(file, 0, head, size);
    if (code == 0) {
        file->start = begins(head, size, "\xef\xbb\xbf", 3) ? 3 : 0;
        *objection = find_objection(file->name, head, size);
    }
    free(head);
    return code;
}
