#include "cuda/matmul_plan.h"

#include "base/cache.h"
#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

/* The file of choices made by timing: text, one per GPU model, driver and cuBLASLt version, since a
 * choice means nothing to another. Its first line says which it is for; every further line is what
 * was chosen for, " =", and the choice: for a product (product_key_text) cuBLASLt's description of
 * the algorithm, eight numbers in hex; for what choice.c decides a name. A
 * file with another first line is not used and replaced at the next choice; a line that does not
 * parse is skipped, and of several for one product the last counts. Deleting the file makes the
 * next run time everything anew.
 *
 * PACER_TUNE=off: nothing is timed, read or written. PACER_TUNE_CACHE=PATH names the file, which
 * otherwise lies in the user's cache folder (base/cache.h). */

#define FILE_LIMIT ((size_t)4 << 20) /* bytes; thousands of products */
#define ALGO_WORDS (sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t))

struct TuneCache {
    char *path;  /* NULL: there is no folder for it, choices last as long as the process */
    char *title; /* the first line, with its end */
    int lock;    /* descriptor of the locked file, -1: none */
    bool told;   /* that the file cannot be written */
};

static char *default_path(const char *gpu, int driver, size_t version)
{
    char *name = mem_format("matmul-%s-driver%d-cublaslt%zu.txt", gpu, driver, version);
    char *path = cache_path(name);
    free(name);
    return path;
}

TuneCache *tune_cache_open(int device)
{
    if (!cache_in_use()) {
        return NULL;
    }
    struct cudaDeviceProp gpu;
    int driver = 0;
    CUDA_CHECK(cudaGetDeviceProperties(&gpu, device));
    CUDA_CHECK(cudaDriverGetVersion(&driver));
    size_t version = cublasLtGetVersion();
    TuneCache *cache = mem_zalloc(1, sizeof *cache);
    cache->lock = -1;
    cache->title =
        mem_format("pacer matmul 1: %s, driver %d, cuBLASLt %zu\n", gpu.name, driver, version);
    const char *given = getenv("PACER_TUNE_CACHE");
    cache->path = given != NULL && given[0] != '\0' ? mem_strdup(given)
                                                    : default_path(gpu.name, driver, version);
    if (cache->path == NULL) {
        log_debug("no home folder: choices of matrix product algorithms are not kept");
    }
    return cache;
}

void tune_cache_close(TuneCache *cache)
{
    if (cache != NULL) {
        free(cache->path);
        free(cache->title);
        free(cache);
    }
}

void tune_cache_lock(TuneCache *cache)
{
    if (cache->path == NULL || cache_make_folder(cache->path) != 0) {
        return;
    }
    char *name = mem_format("%s.lock", cache->path);
    cache->lock = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0644);
    if (cache->lock >= 0 && flock(cache->lock, LOCK_EX) != 0) {
        close(cache->lock);
        cache->lock = -1;
    }
    free(name);
}

void tune_cache_unlock(TuneCache *cache)
{
    if (cache->lock >= 0) {
        close(cache->lock);
        cache->lock = -1;
    }
}

/* The file's content, NUL-terminated; NULL when it is missing or for something else. */
static char *read_file(const TuneCache *cache, size_t *size)
{
    char *text = NULL;
    if (cache->path == NULL || !io_exists(cache->path)) {
        return NULL;
    }
    if (io_read_all(cache->path, FILE_LIMIT, &text, size) != 0) {
        log_debug("%s", err_message());
        return NULL;
    }
    if (strncmp(text, cache->title, strlen(cache->title)) != 0) {
        log_debug("%s is not for this GPU, driver and cuBLASLt: not used", cache->path);
        free(text);
        return NULL;
    }
    return text;
}

/* Eight hex numbers and no more; algo is left alone when they are not that. */
static bool parse_algo(const char *text, cublasLtMatmulAlgo_t *algo)
{
    uint64_t words[ALGO_WORDS];
    for (size_t i = 0; i < ALGO_WORDS; i++) {
        char *end;
        if (text[0] != ' ' || !isxdigit((unsigned char)text[1])) {
            return false;
        }
        words[i] = strtoull(text, &end, 16);
        text = end;
    }
    if (*text != '\0') {
        return false;
    }
    memcpy(algo, words, sizeof *algo);
    return true;
}

bool tune_cache_get(TuneCache *cache, const char *key, char *value, size_t size)
{
    size_t bytes = 0, length = strlen(key);
    char *text = read_file(cache, &bytes);
    bool found = false;
    for (const char *line = text; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, length) == 0 && strncmp(line + length, " =", 2) == 0) {
            const char *from = line + length + 2;
            snprintf(value, size, "%.*s", (int)strcspn(from, "\n"), from);
            found = true;
        }
    }
    free(text);
    return found;
}

void tune_cache_put(TuneCache *cache, const char *key, const char *value)
{
    if (cache->path == NULL) {
        return;
    }
    size_t size = 0;
    char *old = read_file(cache, &size);
    bool cut = old != NULL && old[strlen(old) - 1] != '\n';
    char *text =
        mem_format("%s%s%s =%s\n", old != NULL ? old : cache->title, cut ? "\n" : "", key, value);
    if (io_write_atomic(cache->path, text, strlen(text)) != 0 && !cache->told) {
        log_warn("%s; the next run will time the GPU's kernels again, and may choose others",
                 err_message());
        cache->told = true;
    }
    free(text);
    free(old);
}

bool tune_cache_find(TuneCache *cache, const ProductKey *key, cublasLtMatmulAlgo_t *algo)
{
    char wanted[PRODUCT_KEY_TEXT_SIZE], value[ALGO_WORDS * 17 + 8];
    if (!tune_cache_get(cache, product_key_text(key, wanted), value, sizeof value)) {
        return false;
    }
    if (!parse_algo(value, algo)) {
        log_debug("%s: a line of %s does not parse: not used", cache->path, wanted);
        return false;
    }
    return true;
}

void tune_cache_add(TuneCache *cache, const ProductKey *key, const cublasLtMatmulAlgo_t *algo)
{
    uint64_t w[ALGO_WORDS];
    memcpy(w, algo, sizeof w);
    char words[ALGO_WORDS * 17 + 1] = "", text[PRODUCT_KEY_TEXT_SIZE];
    for (size_t i = 0; i < ALGO_WORDS; i++) {
        snprintf(words + i * 17, sizeof words - i * 17, " %016" PRIx64, w[i]);
    }
    tune_cache_put(cache, product_key_text(key, text), words);
}
