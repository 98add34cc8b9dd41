#include "data/instruct.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROLE "{role}"
#define CONTENT "{content}"
#define ASSISTANT "assistant"
#define MAX_TEMPLATE_BYTES ((size_t)64 << 10)

/* --- templates --- */

/* A template is put around every message; markers are the tokens by which a tokenizer that was made
 * for it is known. */
static const struct {
    const char *name, *text;
    const char *markers[4];
} templates[] = {
    {"chatml",
     "<|im_start|>" ROLE "\n" CONTENT "<|im_end|>\n",
     {"<|im_start|>", "<|im_end|>", NULL}},
    {"llama3",
     "<|start_header_id|>" ROLE "<|end_header_id|>\n\n" CONTENT "<|eot_id|>",
     {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", NULL}},
};
#define TEMPLATES (sizeof templates / sizeof templates[0])

static bool has_markers(const Tokenizer *tokenizer, const char *const *markers)
{
    uint32_t id;
    while (*markers != NULL &&
           tokenizer_find_added(tokenizer, (const uint8_t *)*markers, strlen(*markers), &id)) {
        markers++;
    }
    return *markers == NULL;
}

static int read_template(const char *path, char **out)
{
    size_t size;
    int code = io_read_all(path, MAX_TEMPLATE_BYTES, out, &size);
    if (code != 0) {
        return err_wrap(code, "--chat-template (auto, chatml, llama3 or a file)");
    }
    const char *content = strstr(*out, CONTENT), *role = strstr(*out, ROLE);
    const char *wrong = strlen(*out) != size                   ? "has a byte 0"
                        : content == NULL                      ? "has no " CONTENT
                        : strstr(content + 1, CONTENT) != NULL ? "has " CONTENT " twice"
                        : role != NULL && (role > content || strstr(role + 1, ROLE) != NULL)
                            ? "has " ROLE " behind " CONTENT " or twice"
                            : NULL;
    if (wrong != NULL) {
        code = err_set(ERR_INPUT,
                       "--chat-template %s: %s; a template is what a message looks like, such as "
                       "%s",
                       path, wrong, "<|im_start|>{role}\\n{content}<|im_end|>\\n");
        free(*out);
        *out = NULL;
    }
    return code;
}

int chat_template_open(const char *name, const Tokenizer *tokenizer, char **out)
{
    *out = NULL;
    bool any = strcmp(name, "auto") == 0;
    for (size_t i = 0; i < TEMPLATES; i++) {
        bool meant = any ? tokenizer != NULL && has_markers(tokenizer, templates[i].markers)
                         : strcmp(name, templates[i].name) == 0;
        if (meant) {
            *out = mem_strdup(templates[i].text);
            return 0;
        }
    }
    return any ? 0 : read_template(name, out);
}

/* --- records --- */

void instruct_free(Instruct *record)
{
    free(record->text);
    free(record->pieces);
    *record = (Instruct){0};
}

/* Neighbours that agree are one piece, so that words across them are encoded as words. */
static void add_piece(Instruct *record, const char *text, size_t size, bool counts)
{
    if (size == 0) {
        return;
    }
    record->text = mem_realloc(record->text, record->size + size + 1, 1);
    memcpy(record->text + record->size, text, size);
    record->size += size;
    record->text[record->size] = '\0';
    if (record->count == 0 || record->pieces[record->count - 1].counts != counts) {
        record->pieces = mem_realloc(record->pieces, record->count + 1, sizeof *record->pieces);
        record->pieces[record->count++].counts = counts;
    }
    record->pieces[record->count - 1].end = record->size;
}

static void add_message(Instruct *record, const char *chat, const char *role, const char *content)
{
    bool counts = strcmp(role, ASSISTANT) == 0;
    const char *before = strstr(chat, CONTENT), *name = strstr(chat, ROLE);
    const char *behind = before + strlen(CONTENT);
    if (name != NULL) {
        add_piece(record, chat, (size_t)(name - chat), false);
        add_piece(record, role, strlen(role), false);
        chat = name + strlen(ROLE);
    }
    add_piece(record, chat, (size_t)(before - chat), false);
    add_piece(record, content, strlen(content), counts);
    add_piece(record, behind, strlen(behind), counts);
}

static int read_messages(const cJSON *messages, const char *chat, Instruct *record)
{
    if (!cJSON_IsArray(messages) || cJSON_GetArraySize(messages) == 0) {
        return err_set(ERR_INPUT, "field \"messages\" must be a list of objects with \"role\" and "
                                  "\"content\"");
    }
    if (chat == NULL) {
        return err_set(ERR_INPUT,
                       "has \"messages\", and the tokenizer has the markers of no chat template "
                       "that pacer knows (chatml: <|im_start|>, <|im_end|>; llama3: "
                       "<|start_header_id|>, <|end_header_id|>, <|eot_id|>): give --chat-template "
                       "chatml, llama3, or a file with {role} and {content}");
    }
    int number = 0;
    const cJSON *message;
    cJSON_ArrayForEach(message, messages)
    {
        const char *role = json_text_or(message, "role", NULL);
        const char *content = json_text_or(message, "content", NULL);
        number++;
        if (role == NULL || content == NULL) {
            return err_set(ERR_INPUT, "message %d: \"%s\" must be a string", number,
                           role == NULL ? "role" : "content");
        }
        add_message(record, chat, role, content);
    }
    return 0;
}

static const char *const halves[] = {"prompt", "completion"};

bool instruct_is(const cJSON *object)
{
    return !json_is_nothing(json_get(object, "messages")) || json_get(object, halves[0]) != NULL ||
           json_get(object, halves[1]) != NULL;
}

int instruct_read(const cJSON *object, const char *chat, Instruct *record)
{
    instruct_free(record);
    const cJSON *messages = json_get(object, "messages");
    if (!json_is_nothing(messages)) {
        return read_messages(messages, chat, record);
    }
    for (int i = 0; i < 2; i++) {
        const char *text = json_text_or(object, halves[i], NULL);
        if (json_get(object, halves[i]) == NULL) {
            return err_set(ERR_INPUT,
                           "field \"%s\" without \"%s\", which instruction data has beside it (for "
                           "text that counts as a whole choose its field with --field)",
                           halves[1 - i], halves[i]);
        }
        if (text == NULL) {
            return err_set(ERR_INPUT, "field \"%s\" must be a string", halves[i]);
        }
        add_piece(record, text, strlen(text), i == 1);
    }
    /* Of an empty completion the end of the document is left, and counts. */
    if (record->count > 0 && !record->pieces[record->count - 1].counts) {
        record->pieces = mem_realloc(record->pieces, record->count + 1, sizeof *record->pieces);
        record->pieces[record->count++] = (SourcePiece){.end = record->size, .counts = true};
    }
    return 0;
}
