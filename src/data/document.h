#pragma once
/* A document as the readers of one input hand it on (source_text.h, source_jsonl.h). */
#include <stdint.h>

typedef struct {
    const uint8_t *bytes; /* all of it, until the reader's next call; NULL: not all in memory */
    uint64_t size, hash, line; /* as in SourceDocument (source.h) */
} Document;
