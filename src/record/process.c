#include "record/process.h"

#include "base/io.h"
#include "base/json.h"
#include "base/process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_PID 2147483647.0

/* "pid:[4026531836]": a number means one process only within one of these. "" when there are
 * none. */
static void own_namespace(char *text, size_t size)
{
    ssize_t length = readlink("/proc/self/ns/pid", text, size - 1);
    text[length > 0 ? length : 0] = '\0';
}

cJSON *process_describe(void)
{
    cJSON *process = json_object();
    char space[64];
    ProcessStat stat;
    json_put_whole(process, "pid", (int64_t)getpid());
    if (process_stat(getpid(), &stat)) {
        json_put_whole(process, "start", (int64_t)stat.start);
    }
    own_namespace(space, sizeof space);
    json_put_text(process, "namespace", space);
    return process;
}

ProcessLife process_life(const cJSON *process, const char *host)
{
    double pid = json_number(process, "pid"), recorded = json_number(process, "start");
    const char *space = json_text(process, "namespace");
    char here[256] = "", own[64];
    ProcessStat stat;
    gethostname(here, sizeof here - 1);
    own_namespace(own, sizeof own);
    if (!(pid >= 1 && pid <= MAX_PID) || host == NULL || space == NULL || strcmp(host, here) != 0 ||
        strcmp(space, own) != 0) {
        return PROCESS_ELSEWHERE;
    }
    if (kill((pid_t)pid, 0) != 0 && errno == ESRCH) {
        return PROCESS_GONE;
    }
    if (!process_stat((pid_t)pid, &stat)) {
        return PROCESS_ALIVE; /* of another user, and hidden */
    }
    bool ended = stat.state == 'Z' || stat.state == 'X';
    return ended || (recorded > 0 && stat.start != recorded) ? PROCESS_GONE : PROCESS_ALIVE;
}

/* Of a line "VmRSS:   1234 kB". */
static int64_t bytes_of(const char *text, const char *name)
{
    const char *line = strstr(text, name);
    return line != NULL ? 1024 * strtoll(line + strlen(name), NULL, 10) : 0;
}

void process_memory(const cJSON *process, int64_t *now, int64_t *most)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%.0f/status", json_number(process, "pid"));
    io_read_start(path, text, sizeof text);
    *now = bytes_of(text, "VmRSS:");
    *most = bytes_of(text, "VmHWM:");
}
