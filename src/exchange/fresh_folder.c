#include "exchange/fresh_folder.h"

#include "base/err.h"
#include "base/io.h"
#include "base/log.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONTENT "made-by-pacer"

/* Name of the first entry but `mine`; NULL if there is none, or no folder. Caller frees. */
static int first_entry(const char *path, const char *mine, char **found)
{
    DIR *entries = opendir(path);
    *found = NULL;
    if (entries == NULL) {
        return errno == ENOENT ? 0 : io_error(path, "read");
    }
    const struct dirent *entry;
    while (*found == NULL && (entry = readdir(entries)) != NULL) {
        const char *name = entry->d_name;
        bool known = strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, mine) == 0;
        *found = known ? NULL : mem_strdup(name);
    }
    closedir(entries);
    return 0;
}

static int check_free(const char *path)
{
    struct stat info;
    if (lstat(path, &info) == 0 && !S_ISDIR(info.st_mode)) {
        return err_set(ERR_INPUT, "--out %s: is a %s; name a new folder", path,
                       S_ISLNK(info.st_mode) ? "link" : "file");
    }
    char *entry;
    int code = first_entry(path, "", &entry);
    if (code == 0 && entry != NULL) {
        code = err_set(ERR_INPUT,
                       "--out %s: the folder is not empty (%s); name a new one, or remove it", path,
                       entry);
    }
    free(entry);
    return code;
}

static void release(FreshFolder *folder)
{
    if (folder->lock >= 0) {
        close(folder->lock);
    }
    free(folder->partial);
    free(folder->work);
    free(folder->path);
    *folder = (FreshFolder){.lock = -1};
}

/* Removes NAME.partial with the content. */
static int clear(const FreshFolder *folder)
{
    int code = io_remove_tree(folder->partial);
    return code != 0 || rmdir(folder->work) == 0 ? code : io_error(folder->work, "remove");
}

static int in_the_way(const FreshFolder *folder, const char *entry)
{
    return err_set(ERR_INPUT,
                   "--out %s: %s%s%s is in the way, and was not made by pacer; move it, or name "
                   "another folder",
                   folder->path, folder->work, entry != NULL ? "/" : "",
                   entry != NULL ? entry : "");
}

/* Opens and locks NAME.partial, which is pacer's: there is nothing but the content in it, if
 * anything. */
static int take(FreshFolder *folder)
{
    folder->lock = open(folder->work, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder->lock < 0) {
        bool foreign = errno == ELOOP || errno == ENOTDIR;
        return foreign ? in_the_way(folder, NULL)
                       : err_wrap(io_error(folder->work, "open"), "--out");
    }
    if (!io_lock(folder->lock, folder->work)) {
        return err_set(ERR_INPUT, "--out %s: another pacer is writing it; wait for it",
                       folder->path);
    }
    char *entry;
    int code = first_entry(folder->work, CONTENT, &entry);
    if (code == 0 && entry != NULL) {
        code = in_the_way(folder, entry);
    }
    free(entry);
    return code;
}

/* What an interrupted attempt left goes, whether or not there is something new to write. */
static int clear_leftovers(FreshFolder *folder)
{
    struct stat info;
    if (lstat(folder->work, &info) != 0) {
        return 0;
    }
    int code = take(folder);
    code = code != 0 ? code : clear(folder);
    if (folder->lock >= 0) {
        close(folder->lock);
        folder->lock = -1;
    }
    return code;
}

/* Removes the content after an error, whose message stays. */
static void abandon(const FreshFolder *folder, int code)
{
    char *why = mem_strdup(err_message());
    if (clear(folder) != 0) {
        log_warn("%s", err_message());
    }
    err_set(code, "%s", why);
    free(why);
}

static int make(FreshFolder *folder)
{
    int code = io_make_folders(folder->work);
    code = code != 0 ? err_wrap(code, "--out") : take(folder);
    if (code != 0) {
        return code;
    }
    code = io_make_folders(folder->partial);
    /* Another process may have been faster between the first look and the lock. */
    code = code != 0 ? code : check_free(folder->path);
    if (code != 0) {
        abandon(folder, code);
    }
    return code;
}

int fresh_folder_open(FreshFolder *folder, const char *path)
{
    *folder = (FreshFolder){.lock = -1, .path = mem_strdup(path)};
    for (size_t n = strlen(path); n > 1 && folder->path[n - 1] == '/'; n--) {
        folder->path[n - 1] = '\0';
    }
    folder->work = mem_format("%s.partial", folder->path);
    folder->partial = mem_format("%s/" CONTENT, folder->work);
    int code = clear_leftovers(folder);
    code = code != 0 ? code : check_free(folder->path);
    code = code != 0 ? code : make(folder);
    if (code != 0) {
        release(folder);
    }
    return code;
}

static int commit(const FreshFolder *folder)
{
    const char *slash = strrchr(folder->path, '/');
    /* Before the rename: behind it nothing may end the program. */
    char *parent = slash == NULL ? mem_strdup(".")
                                 : mem_format("%.*s/", (int)(slash - folder->path), folder->path);
    int code = io_sync_folder(folder->partial);
    if (code == 0 && rename(folder->partial, folder->path) != 0) {
        code = err_set(ERR_FAILED, "%s: cannot rename to %s: %s", folder->partial, folder->path,
                       strerror(errno));
    } else if (code == 0) {
        code = io_sync_folder(parent);
        if (code != 0) { /* it may not last: then it is not there */
            rename(folder->path, folder->partial);
        }
    }
    free(parent);
    return code;
}

int fresh_folder_end(FreshFolder *folder, int code)
{
    code = code != 0 ? code : commit(folder);
    if (code != 0) {
        abandon(folder, code);
    } else if (clear(folder) != 0) {
        log_warn("%s", err_message());
    }
    release(folder);
    return code;
}
