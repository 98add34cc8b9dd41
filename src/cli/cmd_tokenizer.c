#include "cli/commands.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/output.h"
#include "base/progress.h"
#include "base/signals.h"
#include "cli/show.h"
#include "data/source.h"
#include "text/bpe_train.h"
#include "text/encode_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_VOCAB 10000
#define SHOWN_TOKENS 12
#define CHUNK_BYTES ((size_t)1 << 20)
#define IDS_AT_ONCE 4096

/* --- train --- */

static void say_merging(void *context, uint32_t done, uint32_t all)
{
    if (progress_due(context)) {
        (log_is_terminal() ? log_live : log_info)("merging: %" PRIu32 " of %" PRIu32 " entries",
                                                  done, all);
    }
}

/* The lines of the option as byte strings; they point into `text`. Caller frees. */
static ByteString *lines_of(const char *text, size_t *count)
{
    ByteString *lines = mem_alloc((strlen(text) + 1) * sizeof *lines);
    *count = 0;
    for (const char *at = text; *at != '\0';) {
        size_t length = strcspn(at, "\n");
        lines[(*count)++] = (ByteString){(const uint8_t *)at, length};
        at += length + (at[length] == '\n');
    }
    return lines;
}

static int count_words(TextSource *source, WordCount *words, Progress *progress)
{
    SourceDocument document;
    bool found = true;
    int code = 0;
    while (code == 0 && found) {
        code = source_next(source, &document, &found);
        size_t size = found && code == 0 ? 1 : 0;
        while (code == 0 && size > 0) {
            const uint8_t *bytes;
            code = source_chunk(source, &bytes, &size);
            if (code == 0 && size > 0) {
                word_count_put(words, bytes, size);
                progress_say(progress, source_position(source), source_bytes(source));
            }
        }
        if (code == 0 && found) {
            word_count_end(words);
        }
        if (code == 0 && (code = signals_pending()) != 0) {
            err_set(code, "stopped; no tokenizer was written");
        }
    }
    word_count_flush(words);
    return code;
}

static void say_what_was_read(const WordCount *words, const TextSource *source, double seconds)
{
    char kinds[SHOW_COUNT_SIZE], total[SHOW_COUNT_SIZE];
    log_info("counted %s pre-tokens, %s different, in %.1f MB (%.1f s)",
             show_count(word_count_total(words), true, total),
             show_count(word_count_words(words), true, kinds), (double)source_bytes(source) / 1e6,
             seconds);
    if (word_count_dropped(words) > 0) {
        log_warn("%s rare pre-tokens were dropped to stay within the memory limit; --memory-limit "
                 "raises it",
                 show_count(word_count_dropped(words), true, total));
    }
    if (word_count_invalid(words) > 0) {
        log_warn("%s bytes are not UTF-8; they were counted as they are",
                 show_count(word_count_invalid(words), true, total));
    }
}

static int train_on(const Config *cfg, TextSource *source, WordCount *words,
                    const BpeTrainOptions *options, Progress *progress)
{
    int code = count_words(source, words, progress);
    if (code != 0) {
        return code;
    }
    double counted = clock_seconds();
    say_what_was_read(words, source, counted - progress->started);
    Tokenizer *tokenizer;
    code = bpe_train(words, *options, &tokenizer);
    code = code != 0 ? code : tokenizer_write_json(tokenizer, cfg->out);
    if (code == 0) {
        char entries[SHOW_COUNT_SIZE];
        uint32_t vocab = tokenizer_vocab(tokenizer);
        log_info("wrote %s: %s entries, %zu merges (%.1f s)", cfg->out,
                 show_count(vocab, true, entries), tokenizer_merge_count(tokenizer),
                 clock_seconds() - counted);
        if (vocab < options->vocab) {
            log_warn("the text has no more pairs to merge: %" PRIu32 " entries instead of %" PRIu32
                     "; give more text or a smaller --vocab",
                     vocab, options->vocab);
        }
        char *out = escape_shell_path(cfg->out);
        log_info("next: pacer data prepare --tokenizer %s --out shards FILE...", out);
        free(out);
    }
    tokenizer_free(tokenizer);
    return code;
}

static int train(Config *cfg, int argc, char **argv)
{
    Progress progress = progress_begin("counting");
    size_t special_count;
    ByteString *specials = lines_of(cfg->special, &special_count);
    BpeTrainOptions options = {
        .vocab = cfg->fields.vocab > 0 ? (uint32_t)cfg->fields.vocab : DEFAULT_VOCAB,
        .specials = specials,
        .special_count = special_count,
        .ties = cfg->ties == CONFIG_TIES_IDS ? TIES_IDS : TIES_LEXICOGRAPHIC,
        .min_frequency = (uint64_t)cfg->min_frequency,
        .pattern = cfg->pattern,
        .progress = say_merging,
        .context = &progress,
    };
    Pretok *pretok = NULL;
    TextSource *source = NULL;
    signals_install();
    int code = bpe_train_check(&options);
    code = code != 0 ? code : pretok_open(cfg->pattern, &pretok);
    code = code != 0 ? code : source_open(text_source_options(cfg, argc, argv), &source);
    if (code == 0) {
        size_t limit = cfg->memory_limit > 0 ? (size_t)cfg->memory_limit : mem_available() / 4;
        WordCount *words =
            word_count_open((WordCountOptions){.pretok = pretok,
                                               .specials = specials,
                                               .special_count = special_count,
                                               .by_line = cfg->unit == CONFIG_UNIT_LINE,
                                               .threads = config_threads(cfg),
                                               .table_limit = limit});
        code = train_on(cfg, source, words, &options, &progress);
        word_count_close(words);
    }
    source_close(source);
    pretok_close(pretok);
    free(specials);
    return code;
}

/* --- info --- */

static void show_token(const Tokenizer *tokenizer, uint32_t id)
{
    size_t size;
    const uint8_t *bytes = tokenizer_bytes(tokenizer, id, &size);
    printf("  %7" PRIu32 "  \"", id);
    escape_write(stdout, bytes, size, false);
    printf("\"\n");
}

static bool is_added(const Tokenizer *tokenizer, uint32_t id)
{
    const AddedToken *added = tokenizer_added(tokenizer);
    for (size_t i = 0; i < tokenizer_added_count(tokenizer); i++) {
        if (added[i].id == id) {
            return true;
        }
    }
    return false;
}

static void show_added(const Tokenizer *tokenizer)
{
    size_t count = tokenizer_added_count(tokenizer);
    const AddedToken *added = tokenizer_added(tokenizer);
    printf("\nadded tokens\n");
    for (size_t i = 0; i < count && i < SHOWN_TOKENS; i++) {
        show_token(tokenizer, added[i].id);
    }
    if (count > SHOWN_TOKENS) {
        printf("  ... and %zu more\n", count - SHOWN_TOKENS);
    }
}

/* The longest entries tell what kind of text the tokenizer knows. */
static void show_longest(const Tokenizer *tokenizer)
{
    uint32_t longest[SHOWN_TOKENS], vocab = tokenizer_vocab(tokenizer);
    size_t sizes[SHOWN_TOKENS];
    int count = 0;
    for (uint32_t id = 0; id < vocab; id++) {
        size_t size;
        if (tokenizer_bytes(tokenizer, id, &size) == NULL ||
            (count == SHOWN_TOKENS && size <= sizes[count - 1]) || is_added(tokenizer, id)) {
            continue;
        }
        int at = count < SHOWN_TOKENS ? count++ : count - 1;
        for (; at > 0 && sizes[at - 1] < size; at--) {
            sizes[at] = sizes[at - 1];
            longest[at] = longest[at - 1];
        }
        sizes[at] = size;
        longest[at] = id;
    }
    printf("\nlongest tokens\n");
    for (int i = 0; i < count; i++) {
        show_token(tokenizer, longest[i]);
    }
}

static int info(const char *source)
{
    Tokenizer *tokenizer;
    int code = tokenizer_open(source, &tokenizer);
    if (code != 0) {
        return code;
    }
    char count[SHOW_COUNT_SIZE];
    const Pretok *pretok = tokenizer_pretok(tokenizer);
    escape_printf(stdout, "tokenizer  %s (byte-level BPE)\n", source);
    printf("vocabulary %s\n", show_count(tokenizer_vocab(tokenizer), true, count));
    printf("merges     %s%s\n", show_count(tokenizer_merge_count(tokenizer), true, count),
           tokenizer_ignore_merges(tokenizer) ? ", not needed for pre-tokens that are entries"
                                              : "");
    escape_printf(stdout, "pattern    %s: %s\n", pretok_name(pretok), pretok_regex(pretok));
    printf("hash       %016" PRIx64 "\n", tokenizer_hash(tokenizer));
    uint32_t end;
    if (tokenizer_end(tokenizer, NULL, &end) == 0) {
        size_t size;
        const uint8_t *bytes = tokenizer_bytes(tokenizer, end, &size);
        printf("document   ends with ");
        escape_write(stdout, bytes, size, false);
        printf(" (%" PRIu32 ")\n", end);
    }
    if (tokenizer_added_count(tokenizer) > 0) {
        show_added(tokenizer);
    }
    if (tokenizer_merge_count(tokenizer) > 0) {
        show_longest(tokenizer);
    }
    tokenizer_free(tokenizer);
    return 0;
}

/* --- encode and decode: files or pipes of any size, to ids and back --- */

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

static int encode_file(const Config *cfg, const char *path)
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

static int decode_file(const Config *cfg, const char *path)
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

int cmd_tokenizer(Config *cfg, int argc, char **argv)
{
    switch (cfg->command) {
    case COMMAND_TOKENIZER_TRAIN:
        return train(cfg, argc, argv);
    case COMMAND_TOKENIZER_ENCODE:
        return encode_file(cfg, argc > 0 ? argv[0] : "-");
    case COMMAND_TOKENIZER_DECODE:
        return decode_file(cfg, argc > 0 ? argv[0] : "-");
    default:
        return info(argv[0]);
    }
}
