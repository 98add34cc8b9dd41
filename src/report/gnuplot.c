#include "report/gnuplot.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/signals.h"

#include <errno.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define MAX_PICTURE ((size_t)64 << 20)
#define KEPT_WORDS 400

/* What lies in the file, up to `most` bytes and with a NUL behind them. Caller frees. */
static char *take(int file, size_t most, size_t *size)
{
    struct stat info;
    *size = fstat(file, &info) == 0 ? (size_t)info.st_size : 0;
    *size = *size < most ? *size : most;
    char *bytes = mem_alloc(*size + 1);
    ssize_t got = pread(file, bytes, *size, 0);
    *size = got > 0 ? (size_t)got : 0;
    bytes[*size] = '\0';
    return bytes;
}

/* -d: without the user's own settings, which may be any orders. files: its standard streams. */
static int spawn(pid_t *child, const int files[3])
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (int i = 0; i < 3; i++) {
        posix_spawn_file_actions_adddup2(&actions, files[i], i);
    }
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t mask, defaults;
    signals_mask_before(&mask);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigmask(&attributes, &mask);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    char *argv[] = {"gnuplot", "-d", NULL};
    int problem = posix_spawnp(child, "gnuplot", &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return problem;
}

static int explain(int problem, int status, int words_file)
{
    if (problem == ENOENT) {
        return err_set(ERR_FAILED, "gnuplot is not installed, so no chart was drawn (make setup "
                                   "brings it)");
    }
    if (problem != 0) {
        return err_set(ERR_FAILED, "gnuplot could not be started: %s", strerror(problem));
    }
    size_t size;
    char *words = take(words_file, KEPT_WORDS, &size), *at = words;
    for (char *c = words; *c != '\0'; c++) { /* one blank for any white space */
        bool blank = strchr(" \t\r\n", *c) != NULL;
        if (!blank || (at > words && at[-1] != ' ')) {
            *at++ = blank ? ' ' : *c;
        }
    }
    *at = '\0';
    int code = err_set(ERR_FAILED, "gnuplot %s%s%s", status == 0 ? "drew nothing" : "failed",
                       words[0] != '\0' ? ": " : "", words);
    free(words);
    return code;
}

/* Its script, the picture that it prints and its words are files in memory without a name: none
 * of them waits for another, and it meets no path. */
int gnuplot_run(const char *script, char **picture, size_t *size)
{
    *picture = NULL;
    *size = 0;
    const int files[3] = {memfd_create("script", MFD_CLOEXEC), memfd_create("picture", MFD_CLOEXEC),
                          memfd_create("words", MFD_CLOEXEC)};
    ssize_t length = (ssize_t)strlen(script);
    int code = 0;
    if (files[0] < 0 || files[1] < 0 || files[2] < 0 ||
        pwrite(files[0], script, (size_t)length, 0) != length) {
        code = err_set(ERR_FAILED, "gnuplot: no memory for its script: %s", strerror(errno));
    } else {
        pid_t child;
        int status = 0, problem = spawn(&child, files);
        while (problem == 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {}
        if (problem == 0 && status == 0) {
            *picture = take(files[1], MAX_PICTURE, size);
        }
        code = *size == 0 ? explain(problem, status, files[2]) : 0;
    }
    for (int i = 0; i < 3; i++) {
        if (files[i] >= 0) {
            close(files[i]);
        }
    }
    return code;
}
