/* To be preloaded: a slow disk and a slow terminal. SLOW_FILE=NAME:SECONDS lets every write and
 * fsync of a file whose path contains NAME take that much longer; SLOW_TEXT=TEXT:SECONDS every
 * line with TEXT that is said on stderr. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The part of `setting` before its last colon, and the seconds behind it. False: not set. */
static int read_setting(const char *setting, char *text, size_t size, double *seconds)
{
    const char *value = getenv(setting), *colon = value != NULL ? strrchr(value, ':') : NULL;
    if (colon == NULL || colon == value || (size_t)(colon - value) >= size) {
        return 0;
    }
    memcpy(text, value, (size_t)(colon - value));
    text[colon - value] = '\0';
    *seconds = strtod(colon + 1, NULL);
    return 1;
}

static void rest(double seconds)
{
    struct timespec left = {(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
    while (nanosleep(&left, &left) != 0) {}
}

static void rest_for_file(int file)
{
    char name[256], link[64], path[4096];
    double seconds;
    if (!read_setting("SLOW_FILE", name, sizeof name, &seconds)) {
        return;
    }
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    if (strstr(path, name) != NULL) {
        rest(seconds);
    }
}

static void rest_for_text(const char *said, size_t length)
{
    char text[256];
    double seconds;
    if (read_setting("SLOW_TEXT", text, sizeof text, &seconds) &&
        memmem(said, length, text, strlen(text)) != NULL) {
        rest(seconds);
    }
}

ssize_t write(int file, const void *bytes, size_t count)
{
    static ssize_t (*next)(int, const void *, size_t);
    next = next != NULL ? next : (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    rest_for_file(file);
    if (file == STDERR_FILENO) {
        rest_for_text(bytes, count);
    }
    return next(file, bytes, count);
}

int fsync(int file)
{
    static int (*next)(int);
    next = next != NULL ? next : (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    rest_for_file(file);
    return next(file);
}

int fputs(const char *text, FILE *stream)
{
    static int (*next)(const char *, FILE *);
    next = next != NULL ? next : (int (*)(const char *, FILE *))dlsym(RTLD_NEXT, "fputs");
    if (stream == stderr) {
        rest_for_text(text, strlen(text));
    }
    return next(text, stream);
}
