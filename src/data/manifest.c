#include "data/manifest.h"

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT_NAME "pacer-dataset"
#define FORMAT_VERSION 1
#define MAX_FILE_BYTES ((size_t)64 << 20)
#define MAX_EXACT 999999999999999.0 /* 15 digits: what cJSON writes and reads without loss */

void manifest_init(Manifest *manifest, const char *tokenizer, uint64_t hash, uint64_t vocab)
{
    *manifest =
        (Manifest){.tokenizer = mem_strdup(tokenizer), .tokenizer_hash = hash, .vocab = vocab};
}

void manifest_add(Manifest *manifest, bool validation, ShardInfo info)
{
    manifest->shards =
        mem_realloc(manifest->shards, (size_t)manifest->shard_count + 1, sizeof *manifest->shards);
    manifest->shards[manifest->shard_count++] = (ManifestShard){info, validation};
}

void manifest_free(Manifest *manifest)
{
    for (int i = 0; i < manifest->shard_count; i++) {
        free(manifest->shards[i].info.file);
    }
    free(manifest->shards);
    free(manifest->tokenizer);
    free(manifest->tokenizer_file);
    *manifest = (Manifest){0};
}

const ManifestShard *manifest_find(const Manifest *manifest, const char *file)
{
    for (int i = 0; i < manifest->shard_count; i++) {
        if (strcmp(manifest->shards[i].info.file, file) == 0) {
            return &manifest->shards[i];
        }
    }
    return NULL;
}

bool manifest_lists(const Manifest *manifest, const char *file)
{
    const char *tokenizer = manifest->tokenizer_file;
    return manifest_find(manifest, file) != NULL ||
           (tokenizer != NULL && strcmp(tokenizer, file) == 0);
}

static int wrong(const char *key, const char *wanted)
{
    return err_set(ERR_INPUT, "\"%s\" must be %s; prepare the data again", key, wanted);
}

static int get_text(const cJSON *object, const char *key, const char **out)
{
    const cJSON *item = json_get(object, key);
    if (!cJSON_IsString(item)) {
        return wrong(key, "a string");
    }
    *out = item->valuestring;
    return 0;
}

static int get_count(const cJSON *object, const char *key, uint64_t *out)
{
    const cJSON *item = json_get(object, key);
    int64_t value;
    if (!json_whole(item, MAX_EXACT, &value)) {
        return wrong(key, "a whole number");
    }
    *out = (uint64_t)value;
    return 0;
}

static int get_hash(const cJSON *object, const char *key, uint64_t *out)
{
    const char *text = NULL;
    int code = get_text(object, key, &text);
    if (code != 0) {
        return code;
    }
    bool valid = strlen(text) == 16;
    for (int i = 0; valid && i < 16; i++) {
        valid = isxdigit((unsigned char)text[i]) != 0;
    }
    if (!valid) {
        return wrong(key, "16 hexadecimal digits");
    }
    *out = strtoull(text, NULL, 16);
    return 0;
}

/* A file of the dataset lies in the folder itself: a manifest from elsewhere must not point outside
 * it. */
static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL;
}

static int parse_shard(Manifest *manifest, const cJSON *object)
{
    const char *file = NULL, *split = NULL;
    ShardInfo info = {0};
    int code = get_text(object, "file", &file);
    code = code != 0 ? code : get_text(object, "split", &split);
    code = code != 0 ? code : get_count(object, "tokens", &info.tokens);
    code = code != 0 ? code : get_count(object, "documents", &info.documents);
    code = code != 0 ? code : get_count(object, "bytes", &info.text_bytes);
    code = code != 0 ? code : get_hash(object, "hash", &info.hash);
    if (code == 0 && json_get(object, "left_out") != NULL) {
        code = get_count(object, "left_out", &info.left_out);
    }
    if (code != 0) {
        return code;
    }
    if (!is_plain_name(file)) {
        return wrong("file", "the name of a file beside the manifest");
    }
    if (manifest_find(manifest, file) != NULL) {
        return err_set(ERR_INPUT, "%s is listed twice; prepare the data again", file);
    }
    bool validation = strcmp(split, "validation") == 0;
    if (!validation && strcmp(split, "train") != 0) {
        return wrong("split", "\"train\" or \"validation\"");
    }
    info.file = mem_strdup(file);
    manifest_add(manifest, validation, info);
    return 0;
}

/* *out is NULL where there is none. */
static int get_tokenizer_file(const cJSON *root, const char **out)
{
    *out = NULL;
    if (json_get(root, "tokenizer_file") == NULL) {
        return 0;
    }
    int code = get_text(root, "tokenizer_file", out);
    return code != 0 || is_plain_name(*out)
               ? code
               : wrong("tokenizer_file", "the name of a file beside the manifest");
}

static int parse_root(Manifest *manifest, const cJSON *root)
{
    const cJSON *format = json_get(root, "format");
    if (!cJSON_IsString(format) || strcmp(format->valuestring, FORMAT_NAME) != 0) {
        return err_set(ERR_INPUT, "not the manifest of a pacer dataset (\"format\" is not \"%s\")",
                       FORMAT_NAME);
    }
    uint64_t version = 0;
    int code = get_count(root, "version", &version);
    if (code == 0 && version != FORMAT_VERSION) {
        code = err_set(ERR_INPUT,
                       "dataset version %" PRIu64
                       ", this pacer reads version %d; prepare it again with this pacer",
                       version, FORMAT_VERSION);
    }
    const char *tokenizer = NULL, *tokenizer_file = NULL;
    uint64_t hash = 0, vocab = 0;
    code = code != 0 ? code : get_text(root, "tokenizer", &tokenizer);
    code = code != 0 ? code : get_tokenizer_file(root, &tokenizer_file);
    code = code != 0 ? code : get_hash(root, "tokenizer_hash", &hash);
    code = code != 0 ? code : get_count(root, "vocab", &vocab);
    if (code == 0 && (vocab == 0 || vocab > SHARD_MAX_VOCAB)) {
        code = wrong("vocab", "from 1 to 2147483647");
    }
    const cJSON *shards = json_get(root, "shards");
    if (code == 0 && !cJSON_IsArray(shards)) {
        code = wrong("shards", "a list");
    }
    if (code != 0) {
        return code;
    }
    manifest_init(manifest, tokenizer, hash, vocab);
    manifest->tokenizer_file = tokenizer_file == NULL ? NULL : mem_strdup(tokenizer_file);
    for (const cJSON *item = shards->child; code == 0 && item != NULL; item = item->next) {
        if (manifest->shard_count == MANIFEST_MAX_SHARDS) {
            return err_set(ERR_INPUT,
                           "more than %d shards; prepare the data again with a larger "
                           "--shard-tokens",
                           MANIFEST_MAX_SHARDS);
        }
        int index = manifest->shard_count;
        code = parse_shard(manifest, item);
        code = code != 0 ? err_wrap(code, "shard %d", index) : 0;
    }
    return code;
}

int manifest_parse(Manifest *manifest, const char *path, const char *text, size_t size)
{
    *manifest = (Manifest){0};
    JsonFault fault;
    cJSON *root = json_parse(text, size, &fault);
    if (root == NULL) {
        return err_set(ERR_INPUT, "%s:%d: not valid JSON; prepare the data again", path,
                       fault.line);
    }
    int code = parse_root(manifest, root);
    cJSON_Delete(root);
    if (code != 0) {
        manifest_free(manifest);
        err_wrap(code, "%s", path);
    }
    return code;
}

int manifest_read(Manifest *manifest, const char *folder)
{
    *manifest = (Manifest){0};
    char *path = io_join(folder, MANIFEST_FILE), *text;
    size_t size;
    int code = io_read_all(path, MAX_FILE_BYTES, &text, &size);
    if (code == 0) {
        code = manifest_parse(manifest, path, text, size);
        free(text);
    }
    free(path);
    return code;
}

static void put_hash(cJSON *object, const char *key, uint64_t hash)
{
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    json_put_text(object, key, text);
}

int manifest_write(const Manifest *manifest, const char *folder)
{
    cJSON *root = json_object();
    json_put_text(root, "format", FORMAT_NAME);
    json_put_whole(root, "version", FORMAT_VERSION);
    json_put_text(root, "tokenizer", manifest->tokenizer);
    put_hash(root, "tokenizer_hash", manifest->tokenizer_hash);
    if (manifest->tokenizer_file != NULL) {
        json_put_text(root, "tokenizer_file", manifest->tokenizer_file);
    }
    json_put_whole(root, "vocab", (int64_t)manifest->vocab);
    cJSON *shards = json_put_array(root, "shards");
    for (int i = 0; i < manifest->shard_count; i++) {
        const ShardInfo *info = &manifest->shards[i].info;
        cJSON *shard = json_object();
        json_put_text(shard, "file", info->file);
        json_put_text(shard, "split", manifest->shards[i].validation ? "validation" : "train");
        json_put_whole(shard, "tokens", (int64_t)info->tokens);
        json_put_whole(shard, "documents", (int64_t)info->documents);
        json_put_whole(shard, "bytes", (int64_t)info->text_bytes);
        if (info->left_out > 0) {
            json_put_whole(shard, "left_out", (int64_t)info->left_out);
        }
        put_hash(shard, "hash", info->hash);
        json_append(shards, shard);
    }
    char *path = io_join(folder, MANIFEST_FILE);
    int code = json_save(path, root);
    free(path);
    cJSON_Delete(root);
    return code;
}
