#include "fuzz/source_check.h"
#include "fuzz/fuzz.h"

#include "base/assert.h"
#include "base/io.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* The document's bytes; caller frees. Returns 0 or the source's code. */
static int read_document(TextSource *source, const SourceDocument *document)
{
    uint8_t *whole = mem_alloc(document->size);
    const uint8_t *bytes;
    size_t size = 0, used = 0;
    int code;
    while ((code = source_chunk(source, &bytes, &size)) == 0 && size > 0) {
        PACER_ASSERT(size <= document->size - used, "more bytes than were announced");
        memcpy(whole + used, bytes, size);
        used += size;
    }
    if (code == 0) {
        PACER_ASSERT(used == document->size, "%zu of %zu bytes", used, (size_t)document->size);
        PACER_ASSERT(io_hash(whole, used) == document->hash, "another hash than announced");
    }
    free(whole);
    return code;
}

void fuzz_source(const char *path, int format, bool skip_bad)
{
    SourceOptions options = {
        .inputs = &path, .input_count = 1, .format = format, .skip_bad = skip_bad};
    TextSource *source;
    fuzz_forget();
    int code = source_open(options, &source);
    fuzz_expect(code);
    PACER_ASSERT((code == 0) == (source != NULL), "code %d with a source or without", code);
    bool found = code == 0;
    while (code == 0 && found) {
        SourceDocument document = {0};
        code = source_next(source, &document, &found);
        if (code == 0 && found) {
            PACER_ASSERT(document.size > 0 && document.line > 0, "an empty document, or no line");
            PACER_ASSERT(source_position(source) <= source_bytes(source), "past the end");
            code = read_document(source, &document);
        }
    }
    fuzz_expect(code);
    source_close(source);
}
