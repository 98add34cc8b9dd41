#include "data/source_internal.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/signals.h"
#include "data/stories.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define TEXT_BUFFER ((size_t)1 << 20)
#define MAX_JSONL_LINE ((size_t)256 << 20)
#define CHUNK_BYTES ((size_t)1 << 20)
#define DEFAULT_FIELD "text"

/* builtin:stories: the stories that stories_fill would put into the same bytes. */
typedef struct {
    uint64_t index, used;
    char text[STORY_MAX_BYTES];
} Stories;

/* One input is open at a time: `file` (its own, or a copy of the input's kept one) and the
 * reader of its kind. */
struct TextSource {
    SourceOptions options;
    SourceInputs inputs;
    size_t at; /* input that is being read */
    bool open;
    SourceFile file;
    TextDocuments *text;
    JsonlDocuments *jsonl;
    Stories stories;
    uint64_t documents_here, documents; /* of this input, of all */
    uint64_t passed;                    /* bytes of the inputs before this one */
    BadLines bad;
    Document document;
    uint64_t read; /* bytes of the document that were handed out */
};

uint64_t text_source_seed(const Config *cfg)
{
    return config_is_set(cfg, "seed") ? (uint64_t)cfg->seed : STORIES_SEED;
}

SourceOptions text_source_options(const Config *cfg, int argc, char **argv)
{
    return (SourceOptions){.inputs = (const char *const *)argv,
                           .input_count = argc,
                           .format = cfg->format,
                           .field = cfg->field,
                           .skip_bad = cfg->skip_bad,
                           .stories_seed = text_source_seed(cfg),
                           .interrupted = signals_pending};
}

int source_open(SourceOptions options, TextSource **out)
{
    *out = NULL;
    options.field = options.field == NULL ? DEFAULT_FIELD : options.field;
    SourceInputs inputs;
    int code = source_inputs_open(&inputs, &options);
    if (code == 0) {
        TextSource *source = mem_zalloc(1, sizeof *source);
        source->options = options;
        source->inputs = inputs;
        *out = source;
    }
    return code;
}

static const SourceInput *current(const TextSource *source)
{
    return &source->inputs.list[source->at];
}

static void close_input(TextSource *source)
{
    text_documents_close(source->text);
    jsonl_documents_close(source->jsonl);
    source->text = NULL;
    source->jsonl = NULL;
    if (source->open && current(source)->kept.name == NULL) {
        source_file_close(&source->file);
    }
    source->file = (SourceFile){0};
    source->open = false;
}

void source_close(TextSource *source)
{
    if (source != NULL) {
        close_input(source);
        source_inputs_close(&source->inputs);
        free(source->bad.first);
        free(source);
    }
}

/* The file was looked at before; it may have become another one since. */
static int open_file(TextSource *source, const SourceInput *input)
{
    if (input->kept.name != NULL) {
        source->file = input->kept;
        return 0;
    }
    int code = source_file_open(&source->file, input->name, source->options.interrupted);
    if (code != 0) {
        return code;
    }
    char *objection;
    code = source_file_inspect(&source->file, &objection);
    if (objection != NULL) {
        code = err_set(ERR_INPUT, "%s: %s", input->name, objection);
        free(objection);
    }
    if (code == 0 && source->file.size < input->bytes) {
        code = err_set(ERR_INPUT, "%s: became shorter while it was read; run again", input->name);
    }
    if (code != 0) {
        source_file_close(&source->file);
    }
    return code;
}

static int open_input(TextSource *source)
{
    const SourceInput *input = current(source);
    source->documents_here = 0;
    source->stories.index = source->stories.used = 0;
    int code = input->kind == INPUT_STORIES ? 0 : open_file(source, input);
    if (code != 0) {
        return code;
    }
    source->open = true;
    if (input->kind == INPUT_TEXT) {
        source->text = text_documents_open(&source->file, TEXT_BUFFER);
    } else if (input->kind == INPUT_JSONL) {
        JsonlOptions options = {.field = source->options.field,
                                .bad = source->options.skip_bad ? &source->bad : NULL,
                                .max_line = MAX_JSONL_LINE};
        source->jsonl = jsonl_documents_open(&source->file, options);
    }
    return 0;
}

static bool next_story(TextSource *source, uint64_t bytes)
{
    Stories *stories = &source->stories;
    size_t size = story_write(source->options.stories_seed, stories->index, stories->text,
                              sizeof stories->text);
    size_t taken = size + sizeof STORY_SEPARATOR - 1;
    if (taken > bytes - stories->used) {
        return false;
    }
    const uint8_t *text = (const uint8_t *)stories->text;
    source->document = (Document){text, size, XXH3_64bits(text, size), stories->index + 1};
    stories->used += taken;
    stories->index++;
    return true;
}

static int next_here(TextSource *source, bool *found)
{
    switch (current(source)->kind) {
    case INPUT_TEXT:
        return text_documents_next(source->text, &source->document, found);
    case INPUT_JSONL:
        return jsonl_documents_next(source->jsonl, &source->document, found);
    case INPUT_STORIES:
        break;
    }
    *found = next_story(source, current(source)->bytes);
    return 0;
}

/* What is to be said when everything was read. */
static int finish(TextSource *source)
{
    if (source->bad.count > 0) {
        log_warn("%" PRIu64 " bad line%s left out; the first: %s", source->bad.count,
                 source->bad.count == 1 ? " was" : "s were", source->bad.first);
        source->bad.count = 0;
    }
    if (source->inputs.left_out > SOURCE_MOST_WARNINGS) {
        log_warn("%" PRIu64 " files were left out in all", source->inputs.left_out);
        source->inputs.left_out = 0;
    }
    return source->documents > 0 ? 0 : err_set(ERR_INPUT, "no text in the files given");
}

int source_next(TextSource *source, SourceDocument *document, bool *found)
{
    *found = false;
    source->read = source->document.size = 0;
    while (source->at < source->inputs.count) {
        int code = source->open ? 0 : open_input(source);
        code = code != 0 ? code : next_here(source, found);
        if (code != 0) {
            return code;
        }
        if (*found) {
            source->documents_here++;
            source->documents++;
            *document = (SourceDocument){source->document.size, source->document.hash,
                                         current(source)->name, source->document.line};
            return 0;
        }
        if (source->documents_here == 0) {
            source_inputs_leave_out(&source->inputs, current(source)->name, "no text in it");
        }
        close_input(source);
        source->passed += current(source)->bytes;
        source->at++;
        source->document.size = 0;
    }
    return finish(source);
}

int source_chunk(TextSource *source, const uint8_t **bytes, size_t *size)
{
    const Document *document = &source->document;
    uint64_t left = document->size - source->read;
    int code = 0;
    if (document->bytes != NULL || left == 0) {
        *bytes = left == 0 ? NULL : document->bytes + source->read;
        *size = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
    } else {
        code = text_documents_chunk(source->text, source->read, bytes, size);
    }
    source->read += code == 0 ? *size : 0;
    return code;
}

uint64_t source_bytes(const TextSource *source)
{
    return source->inputs.bytes;
}

uint64_t source_position(const TextSource *source)
{
    if (!source->open) {
        return source->passed;
    }
    uint64_t here = source->text != NULL    ? text_documents_position(source->text)
                    : source->jsonl != NULL ? jsonl_documents_position(source->jsonl)
                                            : source->stories.used;
    uint64_t bytes = current(source)->bytes; /* a file may have grown since it was measured */
    return source->passed + (here < bytes ? here : bytes);
}
