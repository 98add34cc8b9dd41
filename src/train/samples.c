#include "train/samples.h"

#include "base/err.h"
#include "base/mem.h"
#include "model/generate.h"
#include "model/sample.h"
#include "text/decode.h"

#include <stdlib.h>

int samples_check(const Session *s)
{
    if (s->run.cfg->sample_every == 0) {
        return 0;
    }
    const char *what = s->ranks > 1                     ? "several ranks"
                       : s->run.backend->device != NULL ? "a GPU"
                       : s->run.setup.dtype != DT_F32   ? "another --dtype than f32"
                                                        : NULL;
    if (what != NULL) {
        return err_set(ERR_INPUT,
                       "--sample-every: not with %s; `pacer generate` writes from the run's "
                       "checkpoints, also while it trains",
                       what);
    }
    Tokenizer *tokenizer;
    uint32_t first;
    int code = dataset_tokenizer(&s->run.data, &tokenizer);
    if (code == 0) {
        code = tokenizer_end(tokenizer, NULL, &first);
        tokenizer_free(tokenizer);
    }
    return code != 0 ? err_wrap(code, "--sample-every") : 0;
}

/* Tokens behind the one that ends a document, until that comes again. */
static int write_text(Generator *generator, const Tokenizer *tokenizer, uint32_t first,
                      uint64_t seed, ByteList *text)
{
    int64_t vocab = generator->model->spec.vocab;
    vocab = tokenizer->vocab < vocab ? tokenizer->vocab : vocab;
    SampleSettings settings = {.temperature = SAMPLE_TEMPERATURE, .seed = seed};
    Decoding decoding = decoding_begin(tokenizer, true, false);
    int32_t next = (int32_t)first;
    generator_begin(generator, &next, 1);
    for (int i = 0; i < SAMPLE_TOKENS; i++) {
        next = sample_token(generator_logits(generator, 0), vocab, &settings, 0, (uint64_t)i, NULL);
        uint32_t token = (uint32_t)next;
        if (next < 0 || token == first) {
            break;
        }
        int code = decoding_add(&decoding, &token, 1, text);
        if (code != 0) {
            return code;
        }
        generator_append(generator, &next);
    }
    return 0;
}

/* The text of the model as it is now, recorded. */
static int make_sample(Session *s, const Tokenizer *tokenizer)
{
    Generator generator;
    ByteList text = {0};
    uint32_t first;
    int code = tokenizer_end(tokenizer, NULL, &first);
    code =
        code != 0 ? code : generator_open(&generator, &s->trainer.model, s->run.backend, 1, true);
    if (code != 0) {
        return code;
    }
    code = write_text(&generator, tokenizer, first, (uint64_t)s->run.cfg->seed, &text);
    generator_close(&generator);
    if (code == 0) {
        char *line = mem_alloc(text.size + 1);
        for (size_t i = 0; i < text.size; i++) {
            line[i] = text.bytes[i] != 0 ? (char)text.bytes[i] : ' ';
        }
        line[text.size] = '\0';
        code = record_sample(s->record, s->state.step, s->state.tokens, line);
        free(line);
    }
    byte_list_free(&text);
    return code;
}

int samples_write(Session *s)
{
    Tokenizer *tokenizer;
    s->last_update_ns = 0; /* something else than updates is done now */
    timers_enter(&s->timers, PHASE_LOG);
    int code = dataset_tokenizer(&s->run.data, &tokenizer);
    if (code == 0) {
        code = make_sample(s, tokenizer);
        tokenizer_free(tokenizer);
    }
    timers_leave(&s->timers, PHASE_LOG);
    return code != 0 ? err_wrap(code, "--sample-every") : 0;
}
