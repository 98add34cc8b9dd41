/* The work of `pacer tokenizer train` and pacer_tokenizer_train: texts to a tokenizer.json. */
#include "api/internal.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/progress.h"
#include "base/show.h"
#include "base/signals.h"
#include "data/instruct.h"
#include "text/bpe_train.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_VOCAB 10000

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
}

static int train_on(const Config *cfg, TextSource *source, WordCount *words,
                    const BpeTrainOptions *options, Progress *progress, TrainedTokenizer *out)
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
        *out = (TrainedTokenizer){.vocab = tokenizer->vocab,
                                  .merges = tokenizer->merge_count,
                                  .bytes = source_bytes(source),
                                  .pieces = word_count_total(words),
                                  .different = word_count_words(words),
                                  .dropped = word_count_dropped(words)};
        log_info("wrote %s: %s entries, %zu merges (%.1f s)",
                 strcmp(cfg->out, "-") == 0 ? "standard output" : cfg->out,
                 show_count(out->vocab, true, entries), tokenizer->merge_count,
                 clock_seconds() - counted);
        if (out->vocab < options->vocab) {
            log_warn("the text has no more pairs to merge: %" PRIu32 " entries instead of %" PRIu32
                     "; give more text or a smaller --vocab",
                     out->vocab, options->vocab);
        }
    }
    tokenizer_free(tokenizer);
    return code;
}

int api_tokenizer_train(const Config *cfg, int count, char **inputs, TrainedTokenizer *out)
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
    int code = bpe_train_check(&options);
    code = code != 0 ? code : tokenizer_check_target(cfg->out);
    code = code != 0 ? code : pretok_open(cfg->pattern, &pretok);
    SourceOptions texts = text_source_options(cfg, count, inputs);
    char *chat = NULL;
    code = code != 0 ? code : chat_template_open(cfg->chat_template, NULL, &chat);
    texts.chat = chat;
    code = code != 0 ? code : source_open(texts, &source);
    if (code == 0) {
        size_t limit = cfg->memory_limit > 0 ? (size_t)cfg->memory_limit : mem_available() / 4;
        WordCount *words =
            word_count_open((WordCountOptions){.pretok = pretok,
                                               .specials = specials,
                                               .special_count = special_count,
                                               .by_line = cfg->unit == CONFIG_UNIT_LINE,
                                               .threads = config_threads(cfg),
                                               .table_limit = limit});
        code = train_on(cfg, source, words, &options, &progress, out);
        word_count_close(words);
    }
    source_close(source);
    free(chat);
    pretok_close(pretok);
    free(specials);
    return code;
}

/* --- as a function of the library --- */

int pacer_tokenizer_train(const pacer_options *options, const char *const *texts, size_t count,
                          pacer_result **result)
{
    Config cfg;
    TrainedTokenizer trained;
    int code = api_begin(options, COMMAND_TOKENIZER_TRAIN, result, &cfg);
    code = code != 0 ? code : api_tokenizer_train(&cfg, (int)count, (char **)texts, &trained);
    if (code == 0 && result != NULL) {
        cJSON *numbers = json_object();
        json_put_whole(numbers, "vocab", trained.vocab);
        json_put_whole(numbers, "merges", (int64_t)trained.merges);
        json_put_whole(numbers, "bytes", (int64_t)trained.bytes);
        json_put_whole(numbers, "pieces", (int64_t)trained.pieces);
        json_put_whole(numbers, "different_pieces", (int64_t)trained.different);
        json_put_whole(numbers, "dropped_pieces", (int64_t)trained.dropped);
        *result = result_new(NULL, numbers);
    }
    return api_end(&cfg, code);
}
