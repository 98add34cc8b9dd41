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

#define MAX_JSONL_LINE ((size_t)256 << 20)
#define CHUNK_BYTES ((size_t)1 << 20)
#define DEFAULT_FIELD "text"

/* One input is open at a time: `file` (`own`, or the input's kept one) with the reader of its
 * documents; or builtin:stories, of which `reader` counts bytes and stories. */
struct TextSource {
    SourceOptions options;
    SourceInputs inputs;
    size_t at; /* input that is being read */
    bool open;
    SourceFile own, *file;
    DocumentReader reader;
    char story[STORY_MAX_BYTES];
    uint64_t documents_here, documents; /* of this input, of all */
    uint64_t passed;                    /* bytes of the inputs before this one */
    BadLines bad;
    OddFiles odd;
    SourceDocument document;
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

static SourceInput *current(const TextSource *source)
{
    return &source->inputs.list[source->at];
}

static void close_input(TextSource *source)
{
    cJSON_Delete(source->reader.root);
    source->reader.root = NULL;
    instruct_free(&source->reader.record);
    source_file_close(&source->own);
    source->file = NULL;
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
static int open_file(TextSource *source, SourceInput *input)
{
    source->file = input->kept.name != NULL ? &input->kept : &source->own;
    if (input->kept.name != NULL) {
        return 0;
    }
    char *objection;
    int code = source_file_open(&source->own, input->name, source->options.interrupted, &objection);
    if (code != 0) {
        return code;
    }
    if (objection != NULL) {
        code = err_set(ERR_INPUT, "%s: %s", input->name, objection);
        free(objection);
    } else if (source->own.size < input->bytes) {
        code = err_set(ERR_INPUT, "%s: became shorter while it was read; run again", input->name);
    }
    if (code != 0) {
        source_file_close(&source->own);
    }
    return code;
}

static int open_input(TextSource *source)
{
    SourceInput *input = current(source);
    source->documents_here = 0;
    int code = input->kind == INPUT_STORIES ? 0 : open_file(source, input);
    source->open = code == 0;
    source->reader = (DocumentReader){.file = source->file,
                                      .at = source->file != NULL ? source->file->start : 0,
                                      .field = source->options.field,
                                      .chat = source->options.chat,
                                      .bad = source->options.skip_bad ? &source->bad : NULL,
                                      .max_line = MAX_JSONL_LINE};
    return code;
}

/* As many stories as stories_write would put into the same bytes. */
static bool next_story(TextSource *source, uint64_t bytes)
{
    DocumentReader *reader = &source->reader;
    size_t size = story_write(source->options.stories_seed, reader->line, source->story,
                              sizeof source->story);
    size_t taken = size + sizeof STORY_SEPARATOR - 1;
    if (taken > bytes - reader->at) {
        return false;
    }
    const uint8_t *text = (const uint8_t *)source->story;
    source->document = (SourceDocument){.bytes = text,
                                        .size = size,
                                        .hash = XXH3_64bits(text, size),
                                        .line = ++reader->line,
                                        .offset = reader->at};
    reader->at += taken;
    return true;
}

static int next_here(TextSource *source, bool *found)
{
    const SourceInput *input = current(source);
    if (input->kind == INPUT_STORIES) {
        *found = next_story(source, input->bytes);
        return 0;
    }
    int code = source_file_interrupted(source->file);
    return code != 0 ? code
                     : (input->kind == INPUT_TEXT ? text_document_next : jsonl_document_next)(
                           &source->reader, &source->document, found);
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
    odd_say_rest(&source->odd);
    return source->documents > 0 ? 0 : err_set(ERR_INPUT, "no text in the files given");
}

int source_next(TextSource *source, SourceDocument *document, bool *found)
{
    *found = false;
    source->document = (SourceDocument){0};
    source->read = 0;
    while (source->at < source->inputs.count) {
        int code = source->open ? 0 : open_input(source);
        code = code != 0 ? code : next_here(source, found);
        if (code != 0) {
            return code;
        }
        if (*found) {
            source->documents_here++;
            source->documents++;
            source->document.file = current(source)->name;
            *document = source->document;
            return 0;
        }
        odd_say(&source->odd, &source->reader.odd, current(source)->name,
                source->file != NULL && source->file->start > 0);
        if (source->documents_here == 0) {
            source_inputs_leave_out(&source->inputs, current(source)->name, "no text in it");
        }
        close_input(source);
        source->passed += current(source)->bytes;
        source->at++;
    }
    return finish(source);
}

int source_chunk(TextSource *source, const uint8_t **bytes, size_t *size)
{
    const SourceDocument *document = &source->document;
    uint64_t left = document->size - source->read;
    *size = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
    *bytes = NULL;
    if (left > 0 && document->bytes != NULL) {
        *bytes = document->bytes + source->read;
    } else if (left > 0) {
        size_t part;
        int code = source_file_bytes(source->file, (size_t)(document->offset + source->read), 1,
                                     bytes, &part);
        if (code != 0) {
            return code;
        }
        *size = *size < part ? *size : part;
    }
    source->read += *size;
    return source->file != NULL ? source_file_interrupted(source->file) : 0;
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
    uint64_t here = source->document.offset + source->read;
    uint64_t bytes = current(source)->bytes; /* a file may have grown since it was measured */
    return source->passed + (here < bytes ? here : bytes);
}
