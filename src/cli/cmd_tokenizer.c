#include "cli/commands.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/signals.h"
#include "cli/show.h"
#include "cli/tokenizer_files.h"
#include "data/source.h"
#include "text/bpe_train.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_VOCAB 10000
#define SHOWN_TOKENS 12

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

int cmd_tokenizer(Config *cfg, int argc, char **argv)
{
    switch (cfg->command) {
    case COMMAND_TOKENIZER_TRAIN:
        return train(cfg, argc, argv);
    case COMMAND_TOKENIZER_ENCODE:
        return tokenizer_encode_file(cfg, argc > 0 ? argv[0] : "-");
    case COMMAND_TOKENIZER_DECODE:
        return tokenizer_decode_file(cfg, argc > 0 ? argv[0] : "-");
    default:
        return info(argv[0]);
    }
}
