#include "use/writer.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "cpu/threads.h"
#include "model/generate.h"
#include "text/unicode.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

/* --- prompt --- */

/* What a text without a prompt begins with: elsewhere models may have a token for it. */
static int beginning(const LoadedModel *loaded, uint32_t *id)
{
    static const char *const names[] = {"<|begin_of_text|>", "<s>", "<bos>"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (tokenizer_find_added(loaded->tokenizer, (const uint8_t *)names[i], strlen(names[i]),
                                 id)) {
            return 0;
        }
    }
    return tokenizer_end(loaded->tokenizer, NULL, id);
}

int writer_prompt(const LoadedModel *loaded, const uint8_t *text, size_t size, TokenList *out)
{
    if (loaded->tokenizer == NULL) {
        return err_set(ERR_INPUT,
                       "%s comes without a tokenizer: give the one it was trained with as "
                       "--tokenizer (a tokenizer.json, a folder with one, or the word bytes)",
                       loaded->path);
    }
    uint32_t first = (uint32_t)loaded->first;
    if (loaded->first < 0 && size == 0) {
        int code = beginning(loaded, &first);
        if (code != 0) {
            return err_wrap(code,
                            "an empty prompt needs a token that begins a text; give --prompt");
        }
    }
    if (loaded->first >= 0 || size == 0) {
        token_list_add(out, &first, 1);
    }
    Encoder *encoder = encoder_open(loaded->tokenizer);
    encoder_run(encoder, text, size, out);
    encoder_close(encoder);
    return 0;
}

/* --- one text --- */

const char *wrote_reason_name(WroteReason reason)
{
    static const char *const names[] = {[WROTE_END] = "end",
                                        [WROTE_STOP] = "stop",
                                        [WROTE_LENGTH] = "length",
                                        [WROTE_INTERRUPTED] = "interrupted"};
    return names[reason];
}

typedef struct {
    const Tokenizer *tokenizer;
    const WriterSettings *settings;
    int64_t end; /* -1: the tokenizer has none */
} Writer;

/* Where the first stop in the text begins, looking only where the last `fresh` bytes take part;
 * or the text's size. */
static size_t find_stop(const Writer *writer, const ByteList *text, size_t fresh)
{
    size_t found = text->size;
    for (const char *const *stop = writer->settings->stops; fresh > 0 && *stop != NULL; stop++) {
        size_t size = strlen(*stop), from = text->size - fresh;
        from = from >= size ? from - size + 1 : 0;
        const uint8_t *at = memmem(text->bytes + from, text->size - from, *stop, size);
        if (at != NULL && (size_t)(at - text->bytes) < found) {
            found = (size_t)(at - text->bytes);
        }
    }
    return found;
}

/* Bytes at the end of the text that may be the beginning of a stop. */
static size_t held_back(const Writer *writer, const ByteList *text)
{
    size_t held = 0;
    for (const char *const *stop = writer->settings->stops; *stop != NULL; stop++) {
        size_t size = strlen(*stop), part = size - 1 < text->size ? size - 1 : text->size;
        while (part > held && memcmp(text->bytes + text->size - part, *stop, part) != 0) {
            part--;
        }
        held = part > held ? part : held;
    }
    return held;
}

/* How much of the text is certain. */
static size_t certain(const Writer *writer, const WrittenText *written)
{
    const ByteList *text = &written->text;
    if (written->done || text->size == 0) {
        return text->size;
    }
    size_t size = text->size - held_back(writer, text);
    return size - utf8_cut_off(text->bytes, size);
}

static int tell(const Writer *writer, WrittenText *written, int64_t sample)
{
    const WriterSettings *settings = writer->settings;
    size_t size = certain(writer, written), from = written->told;
    if (settings->tell == NULL || size <= from) {
        return 0;
    }
    written->told = size;
    return settings->tell(settings->user, sample, written->text.bytes + from, size - from);
}

static void finish(WrittenText *written, WroteReason reason)
{
    written->done = true;
    written->reason = reason;
}

static int add_token(const Writer *writer, WrittenText *written, int64_t sample, uint32_t token)
{
    token_list_add(&written->tokens, &token, 1);
    if ((int64_t)token == writer->end) {
        finish(written, WROTE_END);
        return tell(writer, written, sample);
    }
    size_t before = written->text.size, size;
    if (tokenizer_bytes(writer->tokenizer, token, &size) != NULL) {
        decoding_add(&written->decoding, &token, 1, &written->text); /* cannot fail */
    }
    size_t stop = find_stop(writer, &written->text, written->text.size - before);
    if (stop < written->text.size) {
        written->text.size = stop;
        finish(written, WROTE_STOP);
    } else if ((int64_t)written->tokens.count == writer->settings->max_tokens) {
        finish(written, WROTE_LENGTH);
    }
    return tell(writer, written, sample);
}

/* --- all of them --- */

/* What tokens are chosen with. */
typedef struct {
    const Generator *generator;
    int64_t vocab;
    int threads;           /* where it is worth them */
    int32_t *next;         /* (samples) */
    SampleCandidate *room; /* for each thread */
    int64_t room_size;     /* of one */
} Chooser;

/* A token for each text that goes on; one that is done repeats its last, which nobody looks at.
 * Every choice is a function of its own text's logits alone. */
static void choose(const Writer *writer, const Chooser *chooser, const Written *out, int64_t going)
{
    const WriterSettings *settings = writer->settings;
    bool worth = going > 1 && going * chooser->vocab >= THREADS_WORTH_ELEMENTS;
    int threads = worth ? chooser->threads : 1;
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int64_t s = 0; s < out->samples; s++) {
        const WrittenText *text = &out->texts[s];
        if (!text->done) {
            SampleCandidate *room = chooser->room + omp_get_thread_num() * chooser->room_size;
            chooser->next[s] =
                sample_token(generator_logits(chooser->generator, s), chooser->vocab,
                             &settings->sampling, (uint64_t)s, text->tokens.count, room);
        }
    }
}

/* The tokens chosen go into their texts, in the order of these. *going: how many go on. */
static int take_chosen(const Writer *writer, const Chooser *chooser, Written *out, int64_t *going)
{
    int code = 0;
    *going = 0;
    for (int64_t s = 0; code == 0 && s < out->samples; s++) {
        WrittenText *text = &out->texts[s];
        if (text->done) {
            continue;
        }
        int32_t token = chooser->next[s];
        if (token < 0 || token >= chooser->vocab) {
            return err_set(ERR_FAILED, "the model's logits are no numbers: its weights are broken");
        }
        code = add_token(writer, text, s, (uint32_t)token);
        out->tokens++;
        *going += !text->done;
    }
    return code;
}

static int go_on(const Writer *writer, Generator *generator, int64_t vocab, Written *out)
{
    const WriterSettings *settings = writer->settings;
    const Backend *backend = generator->ctx.backend;
    /* The same number all the time: the runtime keeps threads only while it does not change. So
     * where the processor computes it is that of the backend. */
    int64_t most = settings->threads < settings->samples ? settings->threads : settings->samples;
    most = backend->device == NULL ? backend->threads : most;
    Chooser chooser = {.generator = generator,
                       .vocab = vocab,
                       .threads = most > 1 ? (int)most : 1,
                       .next = mem_zalloc((size_t)out->samples, sizeof *chooser.next),
                       .room_size = sample_room(&settings->sampling, vocab)};
    chooser.room =
        mem_zalloc((size_t)chooser.threads * (size_t)chooser.room_size, sizeof *chooser.room);
    int64_t going = out->samples, steps = 0;
    double start = clock_seconds(), after[2] = {0, 0}; /* the first steps */
    int code = 0;
    while (code == 0 && going > 0) {
        choose(writer, &chooser, out, going);
        code = take_chosen(writer, &chooser, out, &going);
        if (code == 0 && going > 0 && settings->interrupted != NULL &&
            settings->interrupted() != 0) {
            for (int64_t s = 0; s < out->samples; s++) {
                if (!out->texts[s].done) {
                    finish(&out->texts[s], WROTE_INTERRUPTED);
                    tell(writer, &out->texts[s], s);
                }
            }
            going = 0;
        } else if (code == 0 && going > 0) {
            generator_append(generator, chooser.next);
            if (steps < 2) {
                after[steps] = clock_seconds() - start;
            }
            steps++;
        }
    }
    out->seconds = clock_seconds() - start;
    if (steps > 2) {
        log_debug("%lld steps: the first %.2f ms, the second %.2f ms, the others %.3f ms each",
                  (long long)steps, 1e3 * after[0], 1e3 * (after[1] - after[0]),
                  1e3 * (out->seconds - after[1]) / (double)(steps - 2));
    }
    free(chooser.room);
    free(chooser.next);
    return code;
}

static int run(const Writer *writer, LoadedModel *loaded, const TokenList *prompt, Written *out)
{
    Generator generator;
    int code = generator_open(&generator, &loaded->model, loaded->backend, out->samples,
                              writer->settings->cached);
    if (code != 0) {
        return code;
    }
    int32_t *tokens = mem_zalloc(prompt->count, sizeof *tokens);
    for (size_t i = 0; i < prompt->count; i++) {
        tokens[i] = (int32_t)prompt->ids[i];
    }
    /* Ids that the tokenizer has no text for are never chosen. */
    int64_t vocab = loaded->model.spec.vocab, known = loaded->tokenizer->vocab;
    double start = clock_seconds();
    generator_begin(&generator, tokens, (int64_t)prompt->count);
    out->prompt_seconds = clock_seconds() - start;
    code = go_on(writer, &generator, known < vocab ? known : vocab, out);
    free(tokens);
    generator_close(&generator);
    return code;
}

/* Whether a prompt has text already, which what is written goes on from. */
static bool begins_text(const Tokenizer *tokenizer, const TokenList *prompt)
{
    for (size_t i = 0; i < prompt->count; i++) {
        const AddedToken *added = tokenizer_added_of(tokenizer, prompt->ids[i]);
        if (added == NULL || !added->special) {
            return true;
        }
    }
    return false;
}

int writer_run(LoadedModel *loaded, const TokenList *prompt, const WriterSettings *settings,
               Written *out)
{
    Writer writer = {.tokenizer = loaded->tokenizer, .settings = settings, .end = loaded->end};
    *out = (Written){.samples = settings->samples};
    out->texts = mem_zalloc((size_t)settings->samples, sizeof *out->texts);
    bool begun = begins_text(loaded->tokenizer, prompt);
    for (int64_t s = 0; s < out->samples; s++) {
        out->texts[s].decoding = decoding_begin(loaded->tokenizer, false, begun);
    }
    int code = 0;
    if (settings->max_tokens > 0) {
        code = run(&writer, loaded, prompt, out);
    }
    for (int64_t s = 0; settings->max_tokens == 0 && s < out->samples; s++) {
        finish(&out->texts[s], WROTE_LENGTH);
    }
    if (code != 0) {
        written_free(out);
    }
    return code;
}

void written_free(Written *written)
{
    for (int64_t s = 0; s < written->samples && written->texts != NULL; s++) {
        token_list_free(&written->texts[s].tokens);
        byte_list_free(&written->texts[s].text);
    }
    free(written->texts);
    *written = (Written){0};
}
