#include "data/out_folder.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* STEM-00000-HASH.shard, tokenizer-HASH.json, and the temporary files of STEM-00000.shard,
 * manifest.json and the tokenizer, as io_replace_open names them (on a file system without locks
 * with the process): names that only a preparation gives. */
#define HASH "[0-9a-f]{16,}"
#define TEMPORARY_END "(\\.[0-9]+)?\\" IO_TEMPORARY
#define OWN_NAMES                                                                                \
    "^(manifest\\.json" TEMPORARY_END "|" OUT_FOLDER_TOKENIZER "-" HASH "\\.json(" TEMPORARY_END \
    ")?|(train|validation)-[0-9]{5,}(-" HASH "\\" SHARD_SUFFIX "|\\" SHARD_SUFFIX TEMPORARY_END  \
    "))$"

static bool is_own_name(const OutFolder *folder, const char *name)
{
    return regexec(&folder->own_names, name, 0, NULL, 0) == 0;
}

/* Name of the first entry that a preparation did not make; NULL if none. Caller frees. */
static int find_foreign(const OutFolder *folder, char **foreign)
{
    DIR *entries = opendir(folder->path);
    *foreign = NULL;
    if (entries == NULL) {
        return io_error(folder->path, "read");
    }
    const struct dirent *entry;
    while (*foreign == NULL && (entry = readdir(entries)) != NULL) {
        bool self = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
        if (!self && !is_own_name(folder, entry->d_name)) {
            *foreign = mem_strdup(entry->d_name);
        }
    }
    closedir(entries);
    return 0;
}

static void sweep(const OutFolder *folder)
{
    DIR *entries = opendir(folder->path);
    const struct dirent *entry;
    while (entries != NULL && (entry = readdir(entries)) != NULL) {
        if (is_own_name(folder, entry->d_name) &&
            !manifest_lists(&folder->manifest, entry->d_name)) {
            unlinkat(dirfd(entries), entry->d_name, 0);
        }
    }
    if (entries != NULL) {
        closedir(entries);
    }
}

static int take_lock(OutFolder *folder)
{
    folder->lock = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder->lock < 0) {
        return io_error(folder->path, "open the folder");
    }
    if (!io_lock(folder->lock, folder->path)) {
        return err_set(ERR_INPUT,
                       "%s: another pacer is preparing data into this folder; wait for it, or "
                       "choose another --out",
                       folder->path);
    }
    return 0;
}

static int check_content(OutFolder *folder)
{
    if (io_has(folder->path, MANIFEST_FILE)) {
        int code = manifest_read(&folder->manifest, folder->path);
        return code == 0 ? 0
                         : err_wrap(code,
                                    "will not overwrite %s, which holds no dataset of this pacer "
                                    "(choose another --out, or remove it)",
                                    folder->path);
    }
    char *foreign;
    int code = find_foreign(folder, &foreign);
    if (foreign != NULL) {
        code =
            err_set(ERR_INPUT,
                    "%s: the folder holds other files (%s) and no pacer dataset; choose an empty "
                    "or new folder for --out",
                    folder->path, foreign);
    }
    free(foreign);
    return code;
}

static void release(OutFolder *folder)
{
    if (folder->fresh) {
        rmdir(folder->path); /* nothing came of it; with anything in it, it stays */
    }
    if (folder->lock >= 0) {
        close(folder->lock);
    }
    manifest_free(&folder->manifest);
    regfree(&folder->own_names);
    free(folder->path);
    *folder = (OutFolder){0};
}

int out_folder_open(OutFolder *folder, const char *path)
{
    *folder = (OutFolder){.lock = -1};
    bool fresh = !io_exists(path);
    int code = io_make_folders(path);
    if (code != 0) {
        return code;
    }
    folder->path = mem_strdup(path);
    PACER_ASSERT(regcomp(&folder->own_names, OWN_NAMES, REG_EXTENDED | REG_NOSUB) == 0, OWN_NAMES);
    code = take_lock(folder);
    folder->fresh = fresh && code == 0; /* another's, which it just made, is left alone */
    code = code != 0 ? code : check_content(folder);
    if (code != 0) {
        release(folder);
        return code;
    }
    sweep(folder);
    return 0;
}

int out_folder_commit(OutFolder *folder, Manifest *manifest)
{
    int code = manifest_write(manifest, folder->path);
    folder->unsure = code != 0;
    if (code == 0) {
        manifest_free(&folder->manifest);
        folder->manifest = *manifest;
        *manifest = (Manifest){0};
    }
    return code;
}

void out_folder_close(OutFolder *folder)
{
    if (folder->path != NULL) {
        if (!folder->unsure) {
            sweep(folder);
        }
        release(folder);
    }
}
