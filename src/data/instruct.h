#pragma once
/* Records of instruction data: a prompt with its completion, or the messages of a conversation, as
 * one text of which some pieces count in a loss and others are only read. */
#include "base/json.h"
#include "data/source.h"
#include "text/tokenizer.h"

typedef struct {
    char *text;          /* all pieces; NULL: there is no record */
    SourcePiece *pieces; /* none of them empty */
    size_t size, count;
} Instruct;

void instruct_free(Instruct *record); /* no-op on a zeroed one */

/* Whether the object has "messages", or one of "prompt" and "completion", which belong together. */
bool instruct_is(const cJSON *object);

/* A completion counts, and so does what the assistant says with what the template puts behind it.
 * ERR_INPUT naming the field that is wrong. chat: a template's text; NULL: there is none, and
 * messages are refused with advice. The record is made anew. */
int instruct_read(const cJSON *object, const char *chat, Instruct *record);

/* The template that --chat-template names: chatml, llama3, or a file, whose text it is; auto: the
 * one whose markers the tokenizer (may be NULL) has as added tokens, else none (*out NULL). Caller
 * frees. ERR_INPUT for a file that is none: it has {content} once, and may have {role} before. */
int chat_template_open(const char *name, const Tokenizer *tokenizer, char **out);
