#include "base/process.h"

#include "base/mem.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    pid_t pid, parent;
    char state;
} Row;

static bool read_row(long pid, Row *row)
{
    char path[64], line[512];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    FILE *file = fopen(path, "r");
    bool good = false;
    if (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *name_end = strrchr(line, ')'); /* the name may hold anything */
        good = name_end != NULL && sscanf(name_end + 1, " %c %d", &row->state, &parent) == 2;
    }
    if (file != NULL) {
        fclose(file);
    }
    row->pid = (pid_t)pid;
    row->parent = (pid_t)parent;
    return good;
}

bool process_is_alive(pid_t pid)
{
    Row row;
    if (read_row(pid, &row)) {
        return row.state != 'Z' && row.state != 'X';
    }
    return !read_row(getpid(), &row); /* if we are there, it is not */
}

static size_t read_all(Row **rows)
{
    DIR *folder = opendir("/proc");
    size_t count = 0, room = 0;
    *rows = NULL;
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        if (!isdigit((unsigned char)entry->d_name[0])) {
            continue;
        }
        if (count == room) {
            room = room > 0 ? 2 * room : 256;
            *rows = mem_realloc(*rows, room, sizeof **rows);
        }
        count += read_row(atol(entry->d_name), &(*rows)[count]);
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return count;
}

size_t process_descendants(pid_t root, pid_t **list)
{
    Row *rows;
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

bool process_is_same_program(pid_t pid)
{
    char theirs[PATH_MAX], ours[PATH_MAX];
    return program_of(pid, theirs) && program_of(getpid(), ours) && strcmp(theirs, ours) == 0;
}
