#include "report/gnuplot.h"

#include "base/err.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define KEPT_WORDS 400

/* Everything to the pipe; a gnuplot that ends early is not a reason to die of SIGPIPE, so the caller
 * has it ignored or the write merely fails. */
static void write_script(int pipe_end, const char *script)
{
    for (size_t left = strlen(script); left > 0;) {
        ssize_t done = write(pipe_end, script, left);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            break;
        }
        script += done;
        left -= (size_t)done;
    }
}

/* What it says, up to KEPT_WORDS bytes; reads to the end so that it never waits for us. */
static void read_words(int pipe_end, char words[KEPT_WORDS])
{
    size_t used = 0;
    char rest[256];
    for (;;) {
        bool room = used < KEPT_WORDS - 1;
        ssize_t done =
            read(pipe_end, room ? words + used : rest, room ? KEPT_WORDS - 1 - used : sizeof rest);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            break;
        }
        used += room ? (size_t)done : 0;
    }
    words[used] = '\0';
}

static int spawn(pid_t *child, const int in[2], const int out[2])
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDERR_FILENO);
    char *argv[] = {"gnuplot", NULL};
    int problem = posix_spawnp(child, "gnuplot", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return problem;
}

int gnuplot_run(const char *script)
{
    int in[2], out[2];
    if (pipe2(in, O_CLOEXEC) != 0) {
        return err_set(ERR_FAILED, "gnuplot: no pipe: %s", strerror(errno));
    }
    if (pipe2(out, O_CLOEXEC) != 0) {
        close(in[0]);
        close(in[1]);
        return err_set(ERR_FAILED, "gnuplot: no pipe: %s", strerror(errno));
    }
    pid_t child;
    int problem = spawn(&child, in, out);
    close(in[0]);
    close(out[1]);
    char words[KEPT_WORDS] = "";
    int status = 0;
    if (problem == 0) {
        write_script(in[1], script);
    }
    close(in[1]);
    if (problem == 0) {
        read_words(out[0], words);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    }
    close(out[0]);
    if (problem == ENOENT) {
        return err_set(ERR_FAILED, "gnuplot is not installed, so no chart was drawn (make setup "
                                   "brings it)");
    }
    if (problem != 0) {
        return err_set(ERR_FAILED, "gnuplot could not be started: %s", strerror(problem));
    }
    return status == 0 ? 0 : err_set(ERR_FAILED, "gnuplot failed: %s", words);
}
