#include "cli/commands.h"

#include "api/internal.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/output.h"
#include "base/progress.h"
#include "base/show.h"
#include "base/signals.h"
#include "base/utf8.h"
#include "text/decode.h"
#include "text/encode_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHOWN_TOKENS 12
#define SHOWN_BYTES 60 /* of a token: one of a text like aaaa... may have thousands */
#define CHUNK_BYTES ((size_t)1 << 20)
#define IDS_AT_ONCE 4096

int cmd_tokenizer_train(Config *cfg)
{
    TrainedTokenizer trained;
    signals_install();
    int code = api_tokenizer_train(cfg, cfg->argc, cfg->argv, &trained);
    if (code == 0) {
        struct stat info;
        if (stat(cfg->out, &info) == 0 && S_ISREG(info.st_mode)) {
            char *out = escape_shell_path(cfg->out);
            log_info("next: pacer data prepare --tokenizer %s --out shards FILE...", out);
            free(out);
        }
    }
    return code;
}

/* --- info --- */

static void show_token(const Tokenizer *tokenizer, uint32_t id)
{
    size_t size;
    const uint8_t *bytes = tokenizer_bytes(tokenizer, id, &size);
    size_t shown = size < SHOWN_BYTES ? size : SHOWN_BYTES;
    shown -= shown < size ? utf8_cut_off(bytes, shown) : 0;
    printf("  %7" PRIu32 "  \"", id);
    escape_write(stdout, bytes, shown, false);
    if (shown < size) {
        printf("\" ... %zu bytes\n", size);
    } else {
        printf("\"\n");
    }
}

static bool is_added(const Tokenizer *tokenizer, uint32_t id)
{
    const AddedToken *added = tokenizer->added;
    for (size_t i = 0; i < tokenizer->added_count; i++) {
        if (added[i].id == id) {
            return true;
        }
    }
    return false;
}

static void show_added(const Tokenizer *tokenizer)
{
    size_t count = tokenizer->added_count;
    const AddedToken *added = tokenizer->added;
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
    uint32_t longest[SHOWN_TOKENS], vocab = tokenizer->vocab;
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

int cmd_tokenizer_info(Config *cfg)
{
    static const char *const part_titles[TOKENIZER_PARTS] = {[PART_NORMALIZER] = "normalizer",
                                                             [PART_PRE_TOKENIZER] = "pieces",
                                                             [PART_DECODER] = "decoder"};
    const char *source = cfg->argv[0];
    Tokenizer *tokenizer;
    int code = tokenizer_open(source, &tokenizer);
    if (code != 0) {
        return code;
    }
    char count[SHOW_COUNT_SIZE];
    const Pretok *pretok = tokenizer->pretok;
    escape_printf(stdout, "tokenizer  %s (%s BPE)\n", source,
                  tokenizer->characters ? "character-level" : "byte-level");
    printf("vocabulary %s\n", show_count(tokenizer->vocab, true, count));
    printf("merges     %s%s\n", show_count(tokenizer->merge_count, true, count),
           tokenizer->ignore_merges ? ", not needed for pre-tokens that are entries" : "");
    if (pretok != NULL) {
        escape_printf(stdout, "pattern    %s: %s\n", pretok_name(pretok), pretok_regex(pretok));
    }
    for (int i = 0; i < TOKENIZER_PARTS; i++) {
        if (tokenizer->parts[i] != NULL) {
            escape_printf(stdout, "%-10s %s\n", part_titles[i], tokenizer->parts[i]);
        }
    }
    printf("hash       %016" PRIx64 "\n", tokenizer->hash);
    uint32_t end;
    if (tokenizer_end(tokenizer, NULL, &end) == 0) {
        size_t size;
        const uint8_t *bytes = tokenizer_bytes(tokenizer, end, &size);
        printf("document   ends with ");
        escape_write(stdout, bytes, size, false);
        printf(" (%" PRIu32 ")\n", end);
    }
    if (tokenizer->added_count > 0) {
        show_added(tokenizer);
    }
    if (tokenizer->merge_count > 0) {
        show_longest(tokenizer);
    }
    tokenizer_free(tokenizer);
    return 0;
}

/* --- encode and decode: files or pipes of any size, to ids and back --- */

typedef struct {
    Tokenizer *tokenizer;
    Output *output;
    int form; /* CONFIG_IDS_* */
    /* What is read. */
    const char *name;
    int file;
    uint64_t size, done; /* size 0: unknown */
    bool marked;         /* begins with a byte order mark */
    bool ended;          /* a terminal that is read again waits for another end */
    double started;
    Progress progress;
    uint8_t chunk[CHUNK_BYTES];
    /* Ids written by encode; ids read by decode and not decoded yet, the number of ids before
     * them, and a number or an integer that the chunk's end has cut. */
    uint64_t position;
    uint32_t ids[IDS_AT_ONCE];
    size_t count;
    uint64_t partial;
    int partial_length;
    Decoding decoding;
} Coding;

static int open_input(Coding *c, const char *path)
{
    bool standard = strcmp(path, "-") == 0;
    c->name = standard ? "standard input" : path;
    c->file = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    c->started = clock_seconds();
    c->progress = progress_begin(c->name);
    struct stat info;
    if (c->file < 0 || fstat(c->file, &info) != 0) {
        return io_error(path, "read");
    }
    if (S_ISDIR(info.st_mode)) {
        return err_set(ERR_INPUT, "%s: is a folder; name a file", path);
    }
    c->size = S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
    return 0;
}

/* What is read would be replaced by what is made of it. */
static int check_target(const Coding *c, const char *path)
{
    struct stat in, out;
    bool same = c->size > 0 && stat(path, &out) == 0 && fstat(c->file, &in) == 0 &&
                in.st_dev == out.st_dev && in.st_ino == out.st_ino;
    return same ? err_set(ERR_INPUT, "--out %s is the input too; name another file", path) : 0;
}

static int check_width(const Config *cfg, const Tokenizer *tokenizer)
{
    bool narrow = cfg->command == COMMAND_TOKENIZER_ENCODE && cfg->ids == CONFIG_IDS_UINT16;
    return narrow && tokenizer->vocab > 65536
               ? err_set(ERR_INPUT,
                         "--ids uint16 cannot hold the ids of %s, which has %" PRIu32
                         " entries; use uint32",
                         cfg->tokenizer, tokenizer->vocab)
               : 0;
}

/* To be ended by coding_close whatever it returns. */
static int coding_open(Coding *c, const Config *cfg)
{
    c->form = cfg->ids;
    int code = tokenizer_open(cfg->tokenizer, &c->tokenizer);
    code = code != 0 ? code : check_width(cfg, c->tokenizer);
    code = code != 0 ? code : open_input(c, cfg->argc > 0 ? cfg->argv[0] : "-");
    code = code != 0 ? code : check_target(c, cfg->out);
    code = code != 0 ? code : output_open(cfg->out, &c->output);
    if (code == 0) {
        signals_install();
    }
    return code;
}

/* Keeps what was written if code is 0. */
static int coding_close(Coding *c, int code)
{
    if (code == 0) {
        code = output_commit(c->output);
    } else {
        output_abandon(c->output);
    }
    if (c->file > STDIN_FILENO) {
        close(c->file);
    }
    tokenizer_free(c->tokenizer);
    return code;
}

/* The next bytes in c->chunk; 0 in *size at the end. */
static int read_chunk(Coding *c, size_t *size)
{
    *size = 0;
    while (!c->ended && *size < CHUNK_BYTES) {
        signals_wait_readable(c->file);
        int code = signals_pending();
        if (code != 0) {
            return err_set(code, "stopped; nothing was written");
        }
        ssize_t part = read(c->file, c->chunk + *size, CHUNK_BYTES - *size);
        if (part < 0 && errno == EINTR) {
            continue;
        }
        if (part < 0) {
            return io_error(c->name, "read");
        }
        c->ended = part == 0;
        *size += (size_t)part;
    }
    if (c->done == 0) {
        c->marked = utf8_mark(c->chunk, *size) > 0;
    }
    c->done += *size;
    if (c->size > 0) {
        progress_say(&c->progress, c->done, c->size);
    }
    return 0;
}

/* --- encode --- */

static size_t format_ids(const Coding *c, const uint32_t *ids, size_t count, char *out)
{
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        if (c->form == CONFIG_IDS_TEXT) {
            char digits[12];
            int length = 0;
            uint32_t rest = ids[i];
            do {
                digits[length++] = (char)('0' + rest % 10);
                rest /= 10;
            } while (rest > 0);
            if (c->position + i > 0) {
                out[used++] = ' ';
            }
            while (length > 0) {
                out[used++] = digits[--length];
            }
        } else {
            for (int byte = 0; byte < (c->form == CONFIG_IDS_UINT16 ? 2 : 4); byte++) {
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
    Coding *c = context;
    char text[IDS_AT_ONCE * 12];
    int code = 0;
    for (size_t at = 0; code == 0 && at < count; at += IDS_AT_ONCE) {
        size_t part = count - at < IDS_AT_ONCE ? count - at : IDS_AT_ONCE;
        code = output_put(c->output, text, format_ids(c, ids + at, part, text));
        c->position += part;
    }
    return code;
}

static int encode(Coding *c, EncodeStream *stream)
{
    size_t size = 1;
    int code = 0;
    rounds_begin(stream->rounds, 0);
    while (code == 0 && size > 0) {
        code = read_chunk(c, &size);
        code = code != 0 ? code : rounds_put(stream->rounds, c->chunk, size);
    }
    code = code != 0 ? code : rounds_end(stream->rounds);
    code = code != 0 ? code : rounds_flush(stream->rounds);
    if (code == 0 && c->form == CONFIG_IDS_TEXT && c->position > 0) {
        code = output_put(c->output, "\n", 1);
    }
    return code;
}

int cmd_tokenizer_encode(Config *cfg)
{
    static Coding c;
    uint64_t invalid = 0;
    double seconds = 0;
    int code = coding_open(&c, cfg);
    if (code == 0) {
        EncodeStream *stream = encode_stream_open(c.tokenizer, config_threads(cfg), write_ids, &c);
        code = encode(&c, stream);
        seconds = clock_seconds() - c.started;
        invalid = encode_stream_invalid(stream);
        encode_stream_close(stream);
    }
    code = coding_close(&c, code);
    if (code == 0) {
        log_info("%" PRIu64 " bytes are %" PRIu64 " tokens (%.3f bytes per token), %.1f MB/s",
                 c.done, c.position, c.position > 0 ? (double)c.done / (double)c.position : 0,
                 (double)c.done / 1e6 / seconds);
    }
    if (code == 0 && c.marked) {
        log_warn("%s: the byte order mark at its start is kept, as all bytes are", c.name);
    }
    if (code == 0 && invalid > 0) {
        log_warn("%s: %" PRIu64 " byte%s not UTF-8 (kept as found)", c.name, invalid,
                 invalid == 1 ? " is" : "s are");
    }
    return code;
}

/* --- decode --- */

static int decode_ids(Coding *c)
{
    ByteList bytes = {0};
    int code = decoding_add(&c->decoding, c->ids, c->count, &bytes);
    code = code != 0 ? err_wrap(code, "%s: behind %" PRIu64 " tokens", c->name, c->position)
                     : output_put(c->output, bytes.bytes, bytes.size);
    c->position += c->count;
    c->count = 0;
    byte_list_free(&bytes);
    return code;
}

static int add_id(Coding *c)
{
    c->ids[c->count++] = (uint32_t)c->partial;
    c->partial = 0;
    c->partial_length = 0;
    return c->count == IDS_AT_ONCE ? decode_ids(c) : 0;
}

static int read_text(Coding *c, uint8_t byte)
{
    if (byte >= '0' && byte <= '9' && c->partial_length < 10) {
        c->partial = c->partial * 10 + (uint64_t)(byte - '0');
        c->partial_length++;
        return c->partial <= UINT32_MAX
                   ? 0
                   : err_set(ERR_INPUT, "%s: token %" PRIu64 " is too large a number", c->name,
                             c->position + c->count);
    }
    if (byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r' || byte == ',') {
        return c->partial_length > 0 ? add_id(c) : 0;
    }
    return err_set(ERR_INPUT,
                   "%s: behind %" PRIu64 " tokens: not a list of numbers; binary ids are read with "
                   "--ids uint16 or uint32",
                   c->name, c->position + c->count);
}

static int read_binary(Coding *c, int width, uint8_t byte)
{
    c->partial |= (uint64_t)byte << 8 * c->partial_length++;
    return c->partial_length == width ? add_id(c) : 0;
}

static int decode(Coding *c)
{
    bool text = c->form == CONFIG_IDS_TEXT;
    size_t size = 1;
    int code = 0, width = c->form == CONFIG_IDS_UINT16 ? 2 : 4;
    while (code == 0 && size > 0) {
        code = read_chunk(c, &size);
        for (size_t i = 0; code == 0 && i < size; i++) {
            code = text ? read_text(c, c->chunk[i]) : read_binary(c, width, c->chunk[i]);
        }
    }
    if (code == 0 && c->partial_length > 0) {
        code =
            text ? add_id(c)
                 : err_set(ERR_INPUT, "%s: its size is not a multiple of %d bytes", c->name, width);
    }
    return code != 0 ? code : decode_ids(c);
}

int cmd_tokenizer_decode(Config *cfg)
{
    static Coding c;
    int code = coding_open(&c, cfg);
    if (code == 0) {
        c.decoding = decoding_begin(c.tokenizer, cfg->skip_special, false);
        code = decode(&c);
    }
    return coding_close(&c, code);
}
