#pragma once
/* Other processes of this machine, as /proc shows them. Without /proc nothing is known: no
 * process has children, and every one lives. */
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* What /proc/PID/stat says. */
typedef struct {
    pid_t pid, parent;
    char state;   /* Z and X: it has ended */
    double start; /* in clock ticks since the host was booted */
} ProcessStat;

bool process_stat(pid_t pid, ProcessStat *out); /* false: the system does not show it */

/* False once it has ended, also when nobody has asked how. */
bool process_is_alive(pid_t pid);

/* All processes below `root`, and those below them. Returns how many; caller frees *list. */
size_t process_descendants(pid_t root, pid_t **list);

/* What to execute for this program to run once more, as long as this process lives: its file, or
 * the system's link to it where that was replaced or removed since. False: the system does not say.
 */
bool process_program(char path[PATH_MAX]);

/* Whether pid runs the file that this process runs. */
bool process_is_same_program(pid_t pid);
