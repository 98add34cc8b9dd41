#include "data/source_internal.h"

#include "base/mem.h"
#include "base/utf8.h"
#include "text/tokenizer.h"

#include <string.h>
#include <xxhash.h>

#define SEPARATOR_LENGTH (sizeof TOKENIZER_END - 1)
#define STEP ((size_t)1 << 20) /* bytes of a document that are hashed between two checks */

/* Hash of the bytes from reader->at to `end`, which the reader then has behind it. */
static int pass_document(DocumentReader *r, size_t end, uint64_t *hash)
{
    XXH3_state_t *state = mem_checked(XXH3_createState(), sizeof(XXH3_state_t *));
    XXH3_64bits_reset(state);
    int code = 0;
    while (code == 0 && r->at < end) {
        const uint8_t *bytes = r->file->map.data + r->at;
        size_t part = end - r->at;
        if (part > STEP) {
            part = STEP - utf8_cut_off(bytes, STEP);
            part -= bytes[part - 1] == '\r';
        }
        XXH3_64bits_update(state, bytes, part);
        size_t invalid = odd_look(&r->odd, bytes, part);
        if (invalid < part) {
            r->odd.first_line = r->line + 1 + source_count_lines(bytes, invalid);
            r->odd.first_offset = r->at + invalid;
        }
        r->line += source_count_lines(bytes, part);
        r->at += part;
        code = r->at < end ? source_file_check(r->file, r->at) : 0;
    }
    *hash = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return code;
}

/* Takes the separator at reader->at, and the line break behind it when it begins a line. */
static void pass_separator(DocumentReader *r, bool begins_line)
{
    r->at += SEPARATOR_LENGTH;
    const uint8_t *after = r->file->map.data + r->at;
    size_t left = r->file->map.size - r->at, line_break = 0;
    if (begins_line && left > 0 && after[0] == '\n') {
        line_break = 1;
    } else if (begins_line && left > 1 && memcmp(after, "\r\n", 2) == 0) {
        line_break = 2;
    }
    r->at += line_break;
    r->line += line_break > 0;
    r->inside_line = line_break == 0;
}

int text_document_next(DocumentReader *r, SourceDocument *document, bool *found)
{
    const uint8_t *text = r->file->map.data;
    *found = false;
    while (!*found && r->at < r->file->map.size) {
        size_t start = r->at, end;
        int code = source_file_find(r->file, start, TOKENIZER_END, &end);
        *document = (SourceDocument){
            .bytes = text + start, .size = end - start, .line = r->line + 1, .offset = start};
        code = code != 0 ? code : pass_document(r, end, &document->hash);
        if (code != 0) {
            return code;
        }
        *found = end > start;
        if (end < r->file->map.size) {
            pass_separator(r, *found ? text[end - 1] == '\n' : !r->inside_line);
        }
    }
    return 0;
}
