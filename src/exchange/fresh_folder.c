#include "exchange/fresh_folder.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* Name of the first entry; NULL if there is none. Caller frees. */
static char *first_entry(const char *path)
{
    DIR *entries = opendir(path);
    char *found = NULL;
    const struct dirent *entry;
    while (entries != NULL && found == NULL && (entry = readdir(entries)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            found = mem_strdup(entry->d_name);
        }
    }
    if (entries != NULL) {
        closedir(entries);
    }
    return found;
}

static int check_free(const char *path)
{
    if (io_exists(path) && !io_is_folder(path)) {
        return err_set(ERR_INPUT, "--out %s: is a file; name a new folder", path);
    }
    char *entry = first_entry(path);
    int code = entry == NULL ? 0
                             : err_set(ERR_INPUT,
                                       "--out %s: the folder is not empty (%s); name a new one, or "
                                       "remove it",
                                       path, entry);
    free(entry);
    return code;
}

static void release(FreshFolder *folder)
{
    if (folder->lock >= 0) {
        close(folder->lock);
    }
    free(folder->partial);
    free(folder->path);
    *folder = (FreshFolder){.lock = -1};
}

/* Removes what is in the folder, but not the folder, whose lock is held. */
static int empty(const char *path)
{
    int code = 0;
    for (char *entry; code == 0 && (entry = first_entry(path)) != NULL;) {
        char *whole = io_join(path, entry);
        code = io_remove_tree(whole);
        free(whole);
        free(entry);
    }
    return code;
}

int fresh_folder_open(FreshFolder *folder, const char *path)
{
    *folder = (FreshFolder){.lock = -1};
    int code = check_free(path);
    if (code != 0) {
        return code;
    }
    folder->path = mem_strdup(path);
    for (size_t n = strlen(path); n > 1 && folder->path[n - 1] == '/'; n--) {
        folder->path[n - 1] = '\0';
    }
    folder->partial = mem_format("%s.partial", folder->path);
    code = io_make_folders(folder->partial);
    if (code == 0) {
        folder->lock = open(folder->partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        /* A file system without locks says so with another error; then there is only care. */
        if (flock(folder->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
            code = err_set(ERR_INPUT, "--out %s: another pacer is writing it; wait for it", path);
            release(folder);
            return code;
        }
        code = empty(folder->partial);
    }
    if (code != 0) {
        code = err_wrap(code, "--out");
        release(folder);
    }
    return code;
}

int fresh_folder_commit(FreshFolder *folder)
{
    int code = io_sync_folder(folder->partial);
    if (code == 0 && rename(folder->partial, folder->path) != 0) {
        code = err_set(ERR_FAILED, "%s: cannot rename to %s: %s", folder->partial, folder->path,
                       strerror(errno));
    }
    if (code != 0) {
        fresh_folder_abandon(folder);
        return code;
    }
    char *slash = strrchr(folder->path, '/');
    if (slash != NULL && slash != folder->path) {
        *slash = '\0';
        code = io_sync_folder(folder->path);
    } else if (slash == NULL) {
        code = io_sync_folder(".");
    }
    release(folder);
    return code;
}

void fresh_folder_abandon(FreshFolder *folder)
{
    if (folder->partial != NULL) {
        char *why = mem_strdup(err_message());
        int code = io_remove_tree(folder->partial);
        err_set(code != 0 ? code : ERR_FAILED, "%s", why);
        free(why);
        release(folder);
    }
}
