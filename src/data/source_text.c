#include "data/source_internal.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

#include <string.h>
#include <xxhash.h>

#define SEPARATOR_LENGTH (sizeof TOKENIZER_END - 1)
#define LEAST_BYTES ((size_t)4096) /* of a document that are looked at together, if it has them */

/* Hash of the bytes from reader->at to `end`, which the reader then has behind it, and whether the
 * last of them is a line break. */
static int pass_document(DocumentReader *r, size_t end, uint64_t *hash, bool *ends_line)
{
    XXH3_state_t *state = mem_checked(XXH3_createState(), sizeof(XXH3_state_t *));
    XXH3_64bits_reset(state);
    int code = 0;
    while (code == 0 && r->at < end) {
        size_t left = end - r->at, part;
        const uint8_t *bytes;
        code = source_file_bytes(r->file, r->at, left < LEAST_BYTES ? left : LEAST_BYTES, &bytes,
                                 &part);
        if (code != 0) {
            break;
        }
        if (part < left) {
            part -= utf8_cut_off(bytes, part);
            part -= bytes[part - 1] == '\r';
        } else {
            part = left;
        }
        XXH3_64bits_update(state, bytes, part);
        size_t invalid = odd_look(&r->odd, bytes, part);
        if (invalid < part) {
            r->odd.first_line = r->line + 1 + source_count_lines(bytes, invalid);
            r->odd.first_offset = r->at + invalid;
        }
        r->line += source_count_lines(bytes, part);
        r->at += part;
        *ends_line = bytes[part - 1] == '\n';
    }
    *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return code;
}

/* Takes the separator at reader->at, and the line break behind it when it begins a line. */
static int pass_separator(DocumentReader *r, bool begins_line)
{
    r->at += SEPARATOR_LENGTH;
    size_t left = r->file->size - r->at, line_break = 0, size;
    const uint8_t *after;
    int code = source_file_bytes(r->file, r->at, left < 2 ? left : 2, &after, &size);
    if (code != 0) {
        return code;
    }
    if (begins_line && left > 0 && after[0] == '\n') {
        line_break = 1;
    } else if (begins_line && left > 1 && memcmp(after, "\r\n", 2) == 0) {
        line_break = 2;
    }
    r->at += line_break;
    r->line += line_break > 0;
    r->inside_line = line_break == 0;
    return 0;
}

int text_document_next(DocumentReader *r, SourceDocument *document, bool *found)
{
    *found = false;
    while (!*found && r->at < r->file->size) {
        size_t start = r->at, end = 0;
        bool ends_line = !r->inside_line;
        int code = source_file_find(r->file, start, TOKENIZER_END, &end);
        *document = (SourceDocument){.size = end - start, .line = r->line + 1, .offset = start};
        code = code != 0 ? code : pass_document(r, end, &document->hash, &ends_line);
        *found = code == 0 && end > start;
        if (code == 0 && end < r->file->size) {
            code = pass_separator(r, ends_line);
        }
        if (code != 0) {
            return code;
        }
    }
    return 0;
}
