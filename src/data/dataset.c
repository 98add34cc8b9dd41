#include "data/dataset.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/manifest.h"

#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SAY_AFTER 2.0 /* seconds of reading before progress is shown */
#define SCANNED 4096  /* tokens looked at together */

/* ---- Splits ---- */

void split_add(Split *split, Shard shard)
{
    shard.start = split->tokens;
    split->shards =
        mem_realloc(split->shards, (size_t)split->shard_count + 1, sizeof *split->shards);
    split->shards[split->shard_count++] = shard;
    split->tokens += shard.tokens;
    split->left_out += shard.left_out;
    split->documents += shard.documents;
    split->text_bytes += shard.text_bytes;
}

/* Index of the last shard that starts at or before position. */
static int shard_at(const Split *split, uint64_t position)
{
    int low = 0, high = split->shard_count;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (split->shards[middle].start <= position) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

const Shard *split_locate(const Split *split, uint64_t position, uint64_t *inside)
{
    PACER_ASSERT(position < split->tokens, "position %" PRIu64 " of %" PRIu64, position,
                 split->tokens);
    int index = shard_at(split, position);
    *inside = position - split->shards[index].start;
    return &split->shards[index];
}

int32_t split_read(const Split *split, uint64_t first, uint64_t count, int32_t *out)
{
    PACER_ASSERT(first <= split->tokens && count <= split->tokens - first,
                 "first %" PRIu64 " count %" PRIu64 " tokens %" PRIu64, first, count,
                 split->tokens);
    int32_t largest = 0;
    for (int index = shard_at(split, first); count > 0; index++) {
        const Shard *shard = &split->shards[index];
        uint64_t inside = first - shard->start;
        uint64_t part = shard->tokens - inside < count ? shard->tokens - inside : count;
        int32_t here = shard_read(shard, inside, part, out);
        largest = here > largest ? here : largest;
        first += part;
        count -= part;
        out += part;
    }
    return largest;
}

void split_mask(const Split *split, uint64_t first, uint64_t count, int32_t *targets)
{
    if (split->left_out == 0) {
        return;
    }
    for (int index = shard_at(split, first); count > 0; index++) {
        const Shard *shard = &split->shards[index];
        uint64_t inside = first - shard->start, left = shard->tokens - inside;
        uint64_t part = count < left ? count : left;
        shard_mask(shard, inside, part, targets);
        first += part;
        count -= part;
        targets += part;
    }
}

int split_check(const Split *split, uint64_t first, uint64_t count)
{
    int code = 0, last = shard_at(split, first + count - 1);
    for (int index = shard_at(split, first); code == 0 && index <= last; index++) {
        code = shard_check(&split->shards[index]);
    }
    return code;
}

/* ---- What a path names ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* nanoGPT's files have no header, so only their names tell. */
static bool has_raw_name(const char *path)
{
    return strcmp(base_name(path), "train.bin") == 0 || strcmp(base_name(path), "val.bin") == 0;
}

static int add_file(Split *split, const char *path)
{
    Shard shard;
    int code = shard_open(&shard, path, has_raw_name(path));
    if (code == 0) {
        split_add(split, shard);
    }
    return code;
}

static int add_in(Split *split, const char *folder, const char *name)
{
    char *path = io_join(folder, name);
    int code = add_file(split, path);
    free(path);
    return code;
}

/* The header must agree with what the manifest says of this shard. */
static int check_listed(const Shard *shard, const Manifest *manifest, const ShardInfo *info)
{
    bool same = shard->format == SHARD_PACER && shard->tokens == info->tokens &&
                shard->documents == info->documents && shard->text_bytes == info->text_bytes &&
                shard->left_out == info->left_out && shard->hash == info->hash &&
                shard->vocab == manifest->vocab && shard->tokenizer == manifest->tokenizer_hash;
    return same ? 0
                : err_set(ERR_INPUT,
                          "%s: not the shard that " MANIFEST_FILE " beside it lists (tokens, "
                          "vocabulary, tokenizer or hash differ); prepare the data again",
                          shard->path);
}

static int open_manifest(Dataset *dataset, const char *folder)
{
    Manifest manifest;
    int code = manifest_read(&manifest, folder);
    for (int i = 0; code == 0 && i < manifest.shard_count; i++) {
        const ManifestShard *listed = &manifest.shards[i];
        Split *split = listed->validation ? &dataset->validation : &dataset->train;
        code = add_in(split, folder, listed->info.file);
        if (code == 0) {
            code = check_listed(&split->shards[split->shard_count - 1], &manifest, &listed->info);
        }
    }
    if (code == 0) {
        mem_set_text(&dataset->tokenizer, manifest.tokenizer);
        dataset->tokenizer_path =
            manifest.tokenizer_file == NULL ? NULL : io_join(folder, manifest.tokenizer_file);
        dataset->tokenizer_hash = manifest.tokenizer_hash;
        dataset->vocab = manifest.vocab;
        if (dataset->train.tokens == 0) {
            code = err_set(ERR_INPUT, "%s: " MANIFEST_FILE " lists no train shard; prepare again",
                           folder);
        }
    }
    manifest_free(&manifest);
    return code;
}

/* A path as a glob pattern that matches only itself. Caller frees. */
static char *quote_pattern(const char *path)
{
    char *pattern = mem_alloc(2 * strlen(path) + 1), *out = pattern;
    for (; *path != '\0'; path++) {
        if (strchr("*?[]\\", *path) != NULL) {
            *out++ = '\\';
        }
        *out++ = *path;
    }
    *out = '\0';
    return pattern;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static const char *last_of(const char *text, const char *part)
{
    const char *last = NULL;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) {
        last = at;
    }
    return last;
}

/* By the name, as llm.c gives it: whichever of "_train" and "_val" comes last. */
static bool is_validation(const char *path)
{
    const char *train = last_of(base_name(path), "_train"), *val = last_of(base_name(path), "_val");
    return val != NULL && (train == NULL || val > train);
}

/* Adds the files that match, in byte order of their names whatever the locale, to the split that
 * their names tell, as far as it is asked for. */
static int add_matches(Dataset *dataset, const char *pattern, bool train, bool validation)
{
    glob_t found;
    int status = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (status == GLOB_NOMATCH) {
        return 0;
    }
    if (status == GLOB_NOSPACE) {
        mem_checked(NULL, strlen(pattern));
    }
    if (status != 0) {
        return err_set(ERR_INPUT, "%s: cannot list files", pattern);
    }
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_paths);
    int code = 0;
    for (size_t i = 0; code == 0 && i < found.gl_pathc; i++) {
        const char *path = found.gl_pathv[i];
        if (is_validation(path) ? validation : train) {
            code = add_file(is_validation(path) ? &dataset->validation : &dataset->train, path);
        }
    }
    globfree(&found);
    return code;
}

/* llm.c's names: PREFIX_train.bin, PREFIX_train_000001.bin, the same with _val. */
static int add_llmc(Dataset *dataset, const char *prefix)
{
    static const char *const endings[] = {"_train.bin", "_train_*.bin", "_val.bin", "_val_*.bin"};
    int code = 0;
    for (int i = 0; code == 0 && i < 4; i++) {
        char *pattern = mem_format("%s%s", prefix, endings[i]);
        code = add_matches(dataset, pattern, i < 2, i >= 2);
        free(pattern);
    }
    return code;
}

static bool any_match(const char *folder, const char *ending)
{
    char *quoted = quote_pattern(folder), *joined = io_join(quoted, ending);
    glob_t found;
    bool any = glob(joined, GLOB_NOSORT, NULL, &found) == 0;
    if (any) {
        globfree(&found);
    }
    free(joined);
    free(quoted);
    return any;
}

static int open_folder(Dataset *dataset, const char *folder)
{
    int code;
    if (io_has(folder, MANIFEST_FILE)) {
        code = open_manifest(dataset, folder);
    } else if (io_has(folder, "train.bin")) {
        code = add_in(&dataset->train, folder, "train.bin");
        if (code == 0 && io_has(folder, "val.bin")) {
            code = add_in(&dataset->validation, folder, "val.bin");
        }
    } else {
        char *quoted = quote_pattern(folder), *prefix = io_join(quoted, "*");
        code = add_llmc(dataset, prefix);
        free(prefix);
        free(quoted);
    }
    if (code == 0 && dataset->train.tokens == 0) {
        bool partial = any_match(folder, "*" SHARD_SUFFIX "*");
        code = err_set(ERR_INPUT,
                       partial ? "%s: shards without " MANIFEST_FILE ": the preparation was not "
                                 "finished; run pacer data prepare again"
                               : "%s: no data: expected " MANIFEST_FILE
                                 " (pacer data prepare), train.bin, or NAME_train*.bin",
                       folder);
    }
    return code;
}

static int open_path(Dataset *dataset, const char *data)
{
    if (io_is_folder(data)) {
        return open_folder(dataset, data);
    }
    if (io_exists(data)) {
        return add_file(&dataset->train, data);
    }
    int code;
    if (strpbrk(data, "*?") != NULL) {
        code = add_matches(dataset, data, true, true);
    } else {
        char *prefix = quote_pattern(data);
        code = add_llmc(dataset, prefix);
        free(prefix);
    }
    if (code == 0 && dataset->train.tokens == 0) {
        code = err_set(ERR_INPUT,
                       "data %s: no such file or folder, and no train files begin with it; give a "
                       "prepared folder, a shard, or builtin:stories",
                       data);
    }
    return code;
}

/* ---- The dataset as a whole ---- */

/* All shards of the dataset, train first; NULL behind the last. */
static Shard *shard_of(const Dataset *dataset, int index)
{
    const Split *train = &dataset->train, *validation = &dataset->validation;
    if (index < train->shard_count) {
        return &train->shards[index];
    }
    index -= train->shard_count;
    return index < validation->shard_count ? &validation->shards[index] : NULL;
}

static int scan_all(Dataset *dataset, bool verify)
{
    double start = clock_seconds();
    int count = dataset->train.shard_count + dataset->validation.shard_count;
    Shard *shard;
    for (int i = 0; (shard = shard_of(dataset, i)) != NULL; i++) {
        if (clock_seconds() - start > SAY_AFTER) {
            log_live("checking data: shard %d of %d", i + 1, count);
        }
        if (verify || shard->vocab == 0) {
            int code = shard_scan(shard);
            if (code != 0) {
                return code;
            }
        }
    }
    return 0;
}

static uint64_t bytes_hash(void)
{
    return io_hash(TOKENIZER_BYTES, strlen(TOKENIZER_BYTES));
}

/* Shards that were not listed together must still agree. */
static int check_agreement(Dataset *dataset)
{
    const Shard *first = shard_of(dataset, 0), *shard;
    for (int i = 1; (shard = shard_of(dataset, i)) != NULL; i++) {
        if (shard->format != first->format || shard->vocab != first->vocab ||
            shard->tokenizer != first->tokenizer) {
            return err_set(
                ERR_INPUT,
                "%s and %s have different formats, vocabularies or tokenizers; use files "
                "that were made together",
                first->path, shard->path);
        }
    }
    dataset->vocab = first->vocab;
    dataset->tokenizer_hash = first->tokenizer;
    if (dataset->tokenizer[0] == '\0' && first->tokenizer == bytes_hash()) {
        mem_set_text(&dataset->tokenizer, TOKENIZER_BYTES);
    }
    return 0;
}

int dataset_open(Dataset *dataset, const char *data, DatasetOptions options)
{
    *dataset = (Dataset){.source = mem_strdup(data),
                         .tokenizer = mem_strdup(""),
                         .train = {.name = "train"},
                         .validation = {.name = "validation"}};
    bool builtin = strncmp(data, BUILTIN_PREFIX, strlen(BUILTIN_PREFIX)) == 0;
    int code = builtin ? builtin_open(dataset, options) : open_path(dataset, data);
    if (code == 0) {
        code = check_agreement(dataset);
    }
    if (code == 0 && builtin && dataset->tokenizer[0] == '\0' && dataset->tokenizer_hash != 0) {
        mem_set_text(&dataset->tokenizer, "learnt from the stories");
    }
    if (code == 0) {
        code = scan_all(dataset, options.verify);
    }
    if (code != 0) {
        dataset_close(dataset);
    }
    return code;
}

static void split_close(Split *split)
{
    for (int i = 0; i < split->shard_count; i++) {
        shard_close(&split->shards[i]);
    }
    free(split->shards);
}

void dataset_close(Dataset *dataset)
{
    split_close(&dataset->train);
    split_close(&dataset->validation);
    free(dataset->tokenizer);
    free(dataset->tokenizer_path);
    free(dataset->source);
    *dataset = (Dataset){0};
}

int dataset_tokenizer(const Dataset *dataset, Tokenizer **out)
{
    *out = NULL;
    bool bytes = dataset->tokenizer_hash == bytes_hash();
    if (!bytes && strncmp(dataset->source, BUILTIN_PREFIX, strlen(BUILTIN_PREFIX)) == 0) {
        return builtin_tokenizer(dataset->source, out);
    }
    if (!bytes && dataset->tokenizer_path == NULL) {
        return err_set(ERR_INPUT,
                       "data %s: comes without its tokenizer, so its tokens cannot be read as text",
                       dataset->source);
    }
    const char *source = bytes ? TOKENIZER_BYTES : dataset->tokenizer_path;
    int code = tokenizer_open_copy(source, out);
    if (code == 0 && (*out)->hash != dataset->tokenizer_hash) {
        code = err_set(ERR_INPUT,
                       "%s: not the tokenizer that made the shards beside it (hash %016" PRIx64
                       ", theirs is %016" PRIx64 "); prepare the data again",
                       source, (*out)->hash, dataset->tokenizer_hash);
        tokenizer_free(*out);
        *out = NULL;
    }
    return code;
}

static bool split_has(const Split *split, int32_t token)
{
    int32_t tokens[SCANNED];
    for (uint64_t at = 0; at < split->tokens; at += SCANNED) {
        uint64_t left = split->tokens - at, count = left < SCANNED ? left : SCANNED;
        split_read(split, at, count, tokens);
        for (uint64_t i = 0; i < count; i++) {
            if (tokens[i] == token) {
                return true;
            }
        }
    }
    return false;
}

int dataset_separate(Dataset *dataset, const char *end, const Tokenizer *other)
{
    Tokenizer *own = NULL;
    uint32_t id = 0;
    int code = dataset_tokenizer(dataset, &own);
    if (code != 0 && other != NULL) {
        code = 0;
    } else if (code != 0) {
        return err_set(ERR_INPUT,
                       "data %s: comes without a tokenizer, so which token ends its documents is "
                       "not known, and they cannot be kept apart",
                       dataset->source);
    }
    const Tokenizer *tokenizer = own != NULL ? own : other;
    code = tokenizer_end(tokenizer, end, &id);
    if (code == 0 && !split_has(&dataset->train, (int32_t)id) &&
        !split_has(&dataset->validation, (int32_t)id)) {
        size_t size;
        const uint8_t *bytes = tokenizer_bytes(tokenizer, id, &size);
        code = err_set(ERR_INPUT,
                       "data %s: no document ends with %s (token %u); give the "
                       "--end that it was prepared with",
                       dataset->source, token_shown(bytes, size).text, id);
    }
    tokenizer_free(own);
    if (code == 0) {
        dataset->train.separate = dataset->validation.separate = true;
        dataset->train.end = dataset->validation.end = (int32_t)id;
    }
    return code;
}

void document_starts(const int32_t *tokens, int64_t rows, int64_t seq, int32_t end, int32_t *starts)
{
    for (int64_t row = 0; row < rows; row++) {
        int64_t t = row % seq;
        starts[row] = t == 0 ? 0 : tokens[row] == end ? (int32_t)t : starts[row - 1];
    }
}

int dataset_check_vocab(const Dataset *dataset, uint64_t vocab)
{
    const Shard *shard;
    for (int i = 0; (shard = shard_of(dataset, i)) != NULL; i++) {
        if (shard->scanned ? shard->largest < vocab : shard->vocab <= vocab) {
            continue;
        }
        uint64_t at = shard_find_at_least(shard, vocab);
        int code = shard_check(shard);
        if (code != 0) {
            return code;
        }
        if (at < shard->tokens) {
            return err_set(
                ERR_INPUT,
                "%s: token %u at position %" PRIu64 " is not below the model's vocabulary, %" PRIu64
                "; train with --vocab %" PRIu64
                " or more, or prepare the data with the model's tokenizer",
                shard->path, shard_token(shard, at), at, vocab, dataset_least_vocab(dataset));
        }
    }
    return 0;
}

uint64_t dataset_least_vocab(const Dataset *dataset)
{
    uint64_t least = dataset->vocab;
    const Shard *shard;
    for (int i = 0; dataset->vocab == 0 && (shard = shard_of(dataset, i)) != NULL; i++) {
        least = shard->largest + 1ull > least ? shard->largest + 1ull : least;
    }
    return least;
}

uint64_t dataset_digest(const Dataset *dataset)
{
    const Split *splits[] = {&dataset->train, &dataset->validation};
    uint64_t digest = 0;
    for (int i = 0; i < 2; i++) {
        digest = io_hash((const uint64_t[]){digest, (uint64_t)splits[i]->shard_count},
                         2 * sizeof digest);
        for (int k = 0; k < splits[i]->shard_count; k++) {
            const Shard *shard = &splits[i]->shards[k];
            if (shard->hash == 0) {
                return 0;
            }
            const uint64_t parts[] = {digest, shard->tokens, shard->hash};
            digest = io_hash(parts, sizeof parts);
        }
    }
    return digest;
}
