#include "data/source_internal.h"

#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "base/utf8.h"
#include "data/dataset.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define SPOOL_BYTES ((size_t)1 << 18)
#define HEAD_BYTES ((size_t)64 << 10)
#define WINDOW_BYTES ((size_t)1 << 20)
#define STANDARD_INPUT "standard input"
#define STORIES_TEXT_BYTES 16000000 /* of builtin:stories, unless the name says how many */

/* ---- One file ---- */

void source_file_close(SourceFile *file)
{
    io_file_close(file->file);
    free(file->window);
    free(file->name);
    *file = (SourceFile){0};
}

int source_file_interrupted(const SourceFile *file)
{
    int code = file->interrupted == NULL ? 0 : file->interrupted();
    return code == 0 ? 0 : err_set(code, "interrupted while reading %s", file->name);
}

int source_file_bytes(SourceFile *file, size_t at, size_t least, const uint8_t **bytes,
                      size_t *size)
{
    if (at < file->window_at || at + least > file->window_at + file->window_size) {
        size_t wanted = file->size - at < WINDOW_BYTES ? file->size - at : WINDOW_BYTES;
        wanted = wanted > least ? wanted : least;
        int code = source_file_interrupted(file);
        if (code != 0) {
            return code;
        }
        if (file->window_room < wanted) {
            free(file->window);
            file->window = mem_alloc(wanted);
            file->window_room = wanted;
        }
        file->window_at = at;
        file->window_size = wanted;
        code = io_file_read(file->file, at, file->window, wanted);
        if (code != 0) {
            file->window_size = 0;
            return code;
        }
    }
    *bytes = file->window + (at - file->window_at);
    *size = file->window_size - (at - file->window_at);
    return 0;
}

int source_file_find(SourceFile *file, size_t from, const char *what, size_t *at)
{
    size_t length = strlen(what);
    while (file->size - from >= length) {
        const uint8_t *bytes;
        size_t size;
        int code = source_file_bytes(file, from, length, &bytes, &size);
        if (code != 0) {
            return code;
        }
        const uint8_t *found = memmem(bytes, size, what, length);
        if (found != NULL) {
            *at = from + (size_t)(found - bytes);
            return 0;
        }
        from += size - (length - 1);
    }
    *at = file->size;
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

/* Copies all that can be read from standard input, or until an end is asked for. */
static int copy_all(const SourceFile *file, int to)
{
    char *buffer = mem_alloc(SPOOL_BYTES);
    int code = 0;
    for (ssize_t part = 1; code == 0 && part != 0;) {
        signals_wait_readable(STDIN_FILENO);
        code = source_file_interrupted(file);
        part = code == 0 ? read(STDIN_FILENO, buffer, SPOOL_BYTES) : 0;
        if (part > 0) {
            code = keep(to, file->name, buffer, (size_t)part);
        } else if (part < 0 && errno != EINTR && errno != EAGAIN) {
            code = io_error(file->name, "read");
        }
    }
    free(buffer);
    return code;
}

/* Standard input is kept in a file without a name in $TMPDIR or /tmp: it is read more than once. */
static int keep_standard_input(SourceFile *file)
{
    char *path = mem_format("%s/pacer-input-XXXXXX", temporary_folder());
    int descriptor = mkostemp(path, O_CLOEXEC);
    int code = descriptor < 0 ? keep_error(file->name) : 0;
    if (code == 0) {
        unlink(path);
        code = copy_all(file, descriptor);
    }
    free(path);
    code = code != 0 ? code : io_file_adopt(descriptor, file->name, &file->file);
    if (code != 0 && descriptor >= 0) {
        close(descriptor);
    }
    return code;
}

static int open_file(SourceFile *file)
{
    struct stat info;
    if (stat(file->name, &info) == 0 && !S_ISREG(info.st_mode)) {
        return err_set(
            ERR_INPUT,
            "%s: not a regular file; give files or folders, or pipe the text in and give "
            "- as the input",
            file->name);
    }
    return io_file_open(file->name, &file->file);
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

int source_file_open(SourceFile *file, const char *path, int (*interrupted)(void), char **objection)
{
    bool standard = strcmp(path, "-") == 0;
    *file = (SourceFile){.name = mem_strdup(standard ? STANDARD_INPUT : path),
                         .interrupted = interrupted};
    *objection = NULL;
    int code = standard ? keep_standard_input(file) : open_file(file);
    if (code == 0) {
        file->size = (size_t)io_file_size(file->file);
        const uint8_t *head;
        size_t size = file->size < HEAD_BYTES ? file->size : HEAD_BYTES, more;
        code = source_file_bytes(file, 0, size, &head, &more);
        if (code == 0 && size > 0) {
            file->start = utf8_mark(head, size);
            *objection = find_objection(file->name, head, size);
        }
    }
    if (code != 0) {
        source_file_close(file);
    }
    return code;
}

/* ---- All inputs ---- */

void source_inputs_leave_out(SourceInputs *inputs, const char *name, const char *why)
{
    if (inputs->left_out++ < SOURCE_MOST_WARNINGS) {
        log_warn("%s: %s; left out", name, why);
    }
}

static void add_input(SourceInputs *inputs, SourceInput input)
{
    inputs->list = mem_grow(inputs->list, inputs->count, &inputs->capacity, sizeof *inputs->list);
    inputs->list[inputs->count++] = input;
    inputs->bytes += input.bytes;
}

static InputKind kind_of(const char *path, int format)
{
    const char *dot = strrchr(path, '.');
    bool named = dot != NULL && (strcasecmp(dot, ".jsonl") == 0 || strcasecmp(dot, ".ndjson") == 0);
    return format == CONFIG_FORMAT_JSONL || (format == CONFIG_FORMAT_AUTO && named) ? INPUT_JSONL
                                                                                    : INPUT_TEXT;
}

/* Says when a file that is taken as text has JSON in it. */
static void warn_of_json(SourceFile *file)
{
    const uint8_t *text;
    size_t size, at = 1;
    int code = source_file_bytes(file, file->start, 0, &text, &size); /* it was looked at before */
    if (code != 0 || size < 2 || (text[0] != '{' && text[0] != '[')) {
        return;
    }
    while (at < size && strchr(" \t\r\n", text[at]) != NULL) {
        at++;
    }
    if (at < size && text[0] == '{' && text[at] == '"') {
        log_warn("%s looks like JSON and is taken as text; --format jsonl would take one field "
                 "of each line",
                 file->name);
    } else if (at < size && text[0] == '[' && text[at] == '{') {
        log_warn("%s looks like a JSON list and is taken as text; jq -c '.[]' makes JSONL of it",
                 file->name);
    }
}

/* A file, or "-". `named`: the user gave it, and not a folder that it is in. */
static int add_file(SourceInputs *inputs, const SourceOptions *options, const char *path,
                    bool named)
{
    SourceFile file;
    char *objection;
    int code = source_file_open(&file, path, options->interrupted, &objection);
    if (code != 0) {
        return code;
    }
    bool kept = strcmp(path, "-") == 0;
    if (objection != NULL && named) {
        code = err_set(ERR_INPUT, "%s: %s", file.name, objection);
    } else if (objection != NULL) {
        source_inputs_leave_out(inputs, path, objection);
    } else {
        InputKind kind = kind_of(path, options->format);
        if (named && kind == INPUT_TEXT && options->format == CONFIG_FORMAT_AUTO) {
            warn_of_json(&file);
        }
        add_input(inputs, (SourceInput){.name = mem_strdup(file.name),
                                        .kind = kind,
                                        .bytes = file.size,
                                        .kept = kept ? file : (SourceFile){0}});
    }
    if (!kept || objection != NULL) {
        source_file_close(&file);
    }
    free(objection);
    return code;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* An entry of the walk through a folder. A folder that links lead into again is left out. */
static int add_entry(SourceInputs *inputs, const SourceOptions *options, const FTSENT *entry)
{
    const char *path = entry->fts_path;
    struct stat info;
    switch (entry->fts_info) {
    case FTS_F:
        return add_file(inputs, options, path, false);
    case FTS_DEFAULT:
        source_inputs_leave_out(inputs, path, "not a regular file");
        return 0;
    case FTS_NS:
    case FTS_SLNONE:
        /* A link to nowhere, or a file that has just been removed: neither is text. */
        if (stat(path, &info) != 0 && errno != ENOENT && errno != ELOOP) {
            return io_error(path, "read");
        }
        source_inputs_leave_out(inputs, path, "a link that leads nowhere");
        return 0;
    case FTS_DNR:
    case FTS_ERR:
        errno = entry->fts_errno;
        return io_error(path, "read the folder");
    }
    return 0;
}

static int add_folder(SourceInputs *inputs, const SourceOptions *options, const char *path)
{
    size_t before = inputs->count;
    char *const roots[] = {(char *)path, NULL};
    FTS *tree = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    int code = tree == NULL ? io_error(path, "read the folder") : 0;
    for (FTSENT *entry; code == 0 && (entry = fts_read(tree)) != NULL;) {
        if (entry->fts_level > 0 && entry->fts_name[0] == '.') {
            fts_set(tree, entry, FTS_SKIP);
        } else {
            code = add_entry(inputs, options, entry);
        }
    }
    if (tree != NULL) {
        fts_close(tree);
    }
    if (code == 0 && inputs->count == before) {
        code = err_set(ERR_INPUT, "%s: no text files in this folder", path);
    }
    return code;
}

static int add_standard_input(SourceInputs *inputs, const SourceOptions *options)
{
    for (size_t i = 0; i < inputs->count; i++) {
        if (inputs->list[i].kept.name != NULL) {
            return err_set(ERR_INPUT, "-: standard input can be given only once");
        }
    }
    return add_file(inputs, options, "-", true);
}

/* "builtin:stories" or "builtin:stories:BYTES" as a source of text: how many bytes. */
static int stories_bytes(const char *name, uint64_t *bytes)
{
    static const char prefix[] = BUILTIN_PREFIX "stories";
    const char *rest =
        strncmp(name, prefix, sizeof prefix - 1) == 0 ? name + sizeof prefix - 1 : "?";
    if (*rest == '\0') {
        *bytes = STORIES_TEXT_BYTES;
        return 0;
    }
    if (*rest != ':') {
        return err_set(ERR_INPUT, "%s: the text that is built in is %s or %s:BYTES, as in %s:64M",
                       name, prefix, prefix, prefix);
    }
    int64_t number;
    int code = config_parse_bytes(rest + 1, &number);
    if (code != 0) {
        return err_wrap(code, "%s", name);
    }
    *bytes = (uint64_t)number;
    return 0;
}

static int add_any(SourceInputs *inputs, const SourceOptions *options, const char *name)
{
    if (strcmp(name, "-") == 0) {
        return add_standard_input(inputs, options);
    }
    if (strncmp(name, BUILTIN_PREFIX, strlen(BUILTIN_PREFIX)) == 0) {
        uint64_t bytes = 0;
        int code = stories_bytes(name, &bytes);
        if (code == 0) {
            add_input(inputs, (SourceInput){mem_strdup(name), INPUT_STORIES, bytes, {0}});
        }
        return code;
    }
    return io_is_folder(name) ? add_folder(inputs, options, name)
                              : add_file(inputs, options, name, true);
}

int source_inputs_open(SourceInputs *inputs, const SourceOptions *options)
{
    *inputs = (SourceInputs){0};
    int code = options->input_count > 0
                   ? 0
                   : err_set(ERR_INPUT, "no input given: name text files, JSONL files, folders, - "
                                        "(standard input) or builtin:stories");
    for (int i = 0; code == 0 && i < options->input_count; i++) {
        code = add_any(inputs, options, options->inputs[i]);
    }
    if (code != 0) {
        source_inputs_close(inputs);
    }
    return code;
}

void source_inputs_close(SourceInputs *inputs)
{
    for (size_t i = 0; i < inputs->count; i++) {
        source_file_close(&inputs->list[i].kept);
        free(inputs->list[i].name);
    }
    free(inputs->list);
    *inputs = (SourceInputs){0};
}
