#include "base/process.h"

#include "base/io.h"
#include "base/mem.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool process_stat(pid_t pid, ProcessStat *out)
{
    char path[64], text[1024];
    int parent = 0;
    *out = (ProcessStat){.pid = pid};
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    io_read_start(path, text, sizeof text);
    /* Fields 3, 4 and 22. The second is the program's name in parentheses, which may hold anything.
     */
    const char *name_end = strrchr(text, ')');
    bool good = name_end != NULL && sscanf(name_end + 1,
                                           " %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                                           "%*s %*s %*s %*s %*s %lf",
                                           &out->state, &parent, &out->start) == 3;
    out->parent = (pid_t)parent;
    return good;
}

bool process_is_alive(pid_t pid)
{
    ProcessStat stat;
    if (process_stat(pid, &stat)) {
        return stat.state != 'Z' && stat.state != 'X';
    }
    return !process_stat(getpid(), &stat); /* if we are there, it is not */
}

static size_t read_all(ProcessStat **rows)
{
    DIR *folder = opendir("/proc");
    size_t count = 0;
    *rows = NULL;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0])) {
            continue;
        }
        *rows = mem_double(*rows, count, sizeof **rows);
        count += process_stat((pid_t)atol(entry->d_name), &(*rows)[count]);
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return count;
}

size_t process_descendants(pid_t root, pid_t **list)
{
    ProcessStat *rows;
    size_t count = read_all(&rows), found = 0;
    pid_t *below = mem_zalloc(count + 1, sizeof *below);
    for (size_t at = 0; at <= found; at++) {
        pid_t parent = at == 0 ? root : below[at - 1];
        for (size_t i = 0; i < count; i++) {
            if (rows[i].parent == parent && rows[i].pid != root && found < count) {
                below[found++] = rows[i].pid;
            }
        }
    }
    free(rows);
    *list = below;
    return found;
}

static bool program_of(long pid, char path[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/%ld/exe", pid);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length > 0 ? length : 0] = '\0';
    return length > 0;
}

bool process_program(char path[PATH_MAX])
{
    bool known = program_of(getpid(), path);
    if (known && access(path, X_OK) != 0) {
        snprintf(path, PATH_MAX, "/proc/%ld/exe", (long)getpid());
    }
    return known;
}

bool process_is_same_program(pid_t pid)
{
    char theirs[PATH_MAX], ours[PATH_MAX];
    return program_of(pid, theirs) && program_of(getpid(), ours) && strcmp(theirs, ours) == 0;
}
