#include "cli/tokenizer_files.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/output.h"
#include "base/progress.h"
#include "base/signals.h"
#include "text/encode_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES ((size_t)1 << 20)
#define IDS_AT_ONCE 4096

/* What both directions read from. */
typedef struct {
    const char *name;
    int file;
    uint64_t size, done; /* size 0: unknown */
    double started;
    Progress progress;
    uint8_t chunk[CHUNK_BYTES];
} Input;

static int input_open(const char *path, Input *input)
{
    bool standard = strcmp(path, "-") == 0;
    input->name = standard ? "standard input" : path;
    input->file = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    input->size = input->done = 0;
    input->started = clock_seconds();
    input->progress = progress_begin(input->name);
    struct stat info;
    if (input->file < 0 || fstat(input->file, &info) != 0) {
        return io_error(path, "read");
    }
    if (S_ISDIR(info.st_mode)) {
        return err_set(ERR_INPUT, "%s: is a folder; name a file", path);
    }
    input->size = S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
    return 0;
}

static void input_close(Input *input)
{
    if (input->file > STDIN_FILENO) {
        close(input->file);
    }
}

/* The next bytes in input->chunk; 0 in *size at the end. */
static int input_read(Input *input, size_t *size)
{
    *size = 0;
    int code = signals_pending();
    if (code != 0) {
        return err_set(code, "stopped; nothing was written");
    }
    while (*size < CHUNK_BYTES) {
        ssize_t part = read(input->file, input->chunk + *size, CHUNK_BYTES - *size);
        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part < 0) {
            return io_error(input->name, "read");
        }
        if (part == 0) {
            break;
        }
        *size += (size_t)part;
    }
    input->done += *size;
    if (input->size > 0) {
        progress_say(&input->progress, input->done, input->size);
    }
    return 0;
}

/* --- encode --- */

typedef struct {
    Output *output;
    int form; /* CONFIG_IDS_* */
    uint64_t written;
} IdWriter;

static size_t format_ids(const IdWriter *writer, const uint32_t *ids, size_t count, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (writer->form == CONFIG_IDS_TEXT) {
            char digits[12];
            int length = 0;
            uint32_t rest = ids[i];
            do {
                digits[length++] = (char)('0' + rest % 10);
                rest /= 10;
            } while (rest > 0);
            if (writer->written + i > 0) {
                out[used++] = ' ';
            }
            while (length > 0) {
                out[used++] = digits[--length];
            }
        } else {
            for (int byte = 0; byte < (writer->form == CONFIG_IDS_UINT16 ? 2 : 4); byte++) {
                out[used++] = (char)(ids[i] >> 8 * byte & 0xff);
            }
        }
    }
    return used;
}

static int write_ids(void *context, uint64_t tag, const uint32_t *ids, size_t count, uint64_t bytes,
                     bool ends)
{
    (void)tag, (void)bytes, (void)ends;
    IdWriter *writer = context;
    char text[IDS_AT_ONCE * 12];
    int code = 0;
    for (size_t at = 0; code == 0 && at < count; at += IDS_AT_ONCE) {
        size_t part = count - at < IDS_AT_ONCE ? count - at : IDS_AT_ONCE;
        code = output_put(writer->output, text, format_ids(writer, ids + at, part, text));
        writer->written += part;
    }
    return code;
}

static int encode(Input *input, EncodeStream *stream, IdWriter *writer)
{
    size_t size = 1;
    int code = 0;
    encode_stream_begin(stream, 0);
    while (code == 0 && size > 0) {
        code = input_read(input, &size);
        code = code != 0 ? code : encode_stream_put(stream, input->chunk, size);
    }
    code = code != 0 ? code : encode_stream_end(stream);
    code = code != 0 ? code : encode_stream_flush(stream);
    if (code == 0 && writer->form == CONFIG_IDS_TEXT && writer->written > 0) {
        code = output_put(writer->output, "\n", 1);
    }
    return code;
}

static int check_width(const Config *cfg, const Tokenizer *tokenizer)
{
    bool narrow = cfg->ids == CONFIG_IDS_UINT16;
    return narrow && tokenizer_vocab(tokenizer) > 65536
               ? err_set(ERR_INPUT,
                         "--ids uint16 cannot hold the ids of %s, which has %" PRIu32
                         " entries; use uint32",
                         cfg->tokenizer, tokenizer_vocab(tokenizer))
               : 0;
}

int tokenizer_encode_file(const Config *cfg, const char *path)
{
    Tokenizer *tokenizer;
    int code = tokenizer_open(cfg->tokenizer, &tokenizer);
    if (code != 0) {
        return code;
    }
    static Input input;
    IdWriter writer = {.form = cfg->ids};
    code = check_width(cfg, tokenizer);
    code = code != 0 ? code : input_open(path, &input);
    code = code != 0 ? code : output_open(cfg->out, &writer.output);
    if (code == 0) {
        signals_install();
        EncodeStream *stream =
            encode_stream_open(tokenizer, config_threads(cfg), write_ids, &writer);
        code = encode(&input, stream, &writer);
        double seconds = clock_seconds() - input.started;
        if (code == 0) {
            code = output_commit(writer.output);
        } else {
            output_abandon(writer.output);
        }
        if (code == 0) {
            log_info("%" PRIu64 " bytes are %" PRIu64 " tokens (%.3f bytes per token), %.1f MB/s",
                     input.done, writer.written,
                     writer.written > 0 ? (double)input.done / (double)writer.written : 0,
                     (double)input.done / 1e6 / seconds);
        }
        if (code == 0 && encode_stream_invalid(stream) > 0) {
            log_warn("%s: %" PRIu64 " bytes are not UTF-8; they are kept as they are", input.name,
                     encode_stream_invalid(stream));
        }
        encode_stream_close(stream);
    }
    input_close(&input);
    tokenizer_free(tokenizer);
    return code;
}

/* --- decode --- */

/* Ids read so far that are not decoded yet, and a number or an integer that the chunk's end has
 * cut. */
typedef struct {
    const Tokenizer *tokenizer;
    Output *output;
    uint64_t position; /* of ids[0] in the input */
    uint32_t ids[IDS_AT_ONCE];
    size_t count;
    uint64_t partial;
    int partial_length;
} IdReader;

static int decode_ids(IdReader *reader)
{
    ByteList bytes = {0};
    int code = tokenizer_decode(reader->tokenizer, reader->ids, reader->count, &bytes);
    if (code != 0) {
        code = err_wrap(code, "behind %" PRIu64 " tokens", reader->position);
    } else {
        code = output_put(reader->output, bytes.bytes, bytes.size);
    }
    reader->position += reader->count;
    reader->count = 0;
    byte_list_free(&bytes);
    return code;
}

static int add_id(IdReader *reader)
{
    reader->ids[reader->count++] = (uint32_t)reader->partial;
    reader->partial = 0;
    reader->partial_length = 0;
    return reader->count == IDS_AT_ONCE ? decode_ids(reader) : 0;
}

static int read_text(IdReader *reader, const Input *input, uint8_t byte)
{
    if (byte >= '0' && byte <= '9' && reader->partial_length < 10) {
        reader->partial = reader->partial * 10 + (uint64_t)(byte - '0');
        reader->partial_length++;
        return reader->partial <= UINT32_MAX
                   ? 0
                   : err_set(ERR_INPUT, "%s: token %" PRIu64 " is too large a number", input->name,
                             reader->position + reader->count);
    }
    if (byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r' || byte == ',') {
        return reader->partial_length > 0 ? add_id(reader) : 0;
    }
    return err_set(ERR_INPUT,
                   "%s: behind %" PRIu64 " tokens: not a list of numbers; binary ids are read with "
                   "--ids uint16 or uint32",
                   input->name, reader->position + reader->count);
}

static int read_binary(IdReader *reader, int width, uint8_t byte)
{
    reader->partial |= (uint64_t)byte << 8 * reader->partial_length++;
    return reader->partial_length == width ? add_id(reader) : 0;
}

static int decode(Input *input, IdReader *reader, int form)
{
    size_t size = 1;
    int code = 0, width = form == CONFIG_IDS_UINT16 ? 2 : 4;
    while (code == 0 && size > 0) {
        code = input_read(input, &size);
        for (size_t i = 0; code == 0 && i < size; i++) {
            code = form == CONFIG_IDS_TEXT ? read_text(reader, input, input->chunk[i])
                                           : read_binary(reader, width, input->chunk[i]);
        }
    }
    if (code == 0 && reader->partial_length > 0) {
        code = form == CONFIG_IDS_TEXT
                   ? add_id(reader)
                   : err_set(ERR_INPUT, "%s: its size is not a multiple of %d bytes", input->name,
                             width);
    }
    return code != 0 ? code : decode_ids(reader);
}

int tokenizer_decode_file(const Config *cfg, const char *path)
{
    Tokenizer *tokenizer;
    int code = tokenizer_open(cfg->tokenizer, &tokenizer);
    if (code != 0) {
        return code;
    }
    static Input input;
    IdReader reader = {.tokenizer = tokenizer};
    code = input_open(path, &input);
    code = code != 0 ? code : output_open(cfg->out, &reader.output);
    if (code == 0) {
        signals_install();
        code = decode(&input, &reader, cfg->ids);
        if (code == 0) {
            code = output_commit(reader.output);
        } else {
            output_abandon(reader.output);
        }
    }
    input_close(&input);
    tokenizer_free(tokenizer);
    return code;
}
