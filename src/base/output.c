#include "base/output.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct Output {
    char *path;       /* NULL for standard output */
    IoWriter *writer; /* NULL: straight to `stream` */
    FILE *stream;
    int code;
};

static bool is_special(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

static int stream_error(const Output *output)
{
    const char *name = output->path != NULL ? output->path : "standard output";
    return errno == EPIPE ? err_set(ERR_PIPE, "%s: nobody reads it any more", name)
                          : io_error(name, "write");
}

int output_check_stdout(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return 0;
    }
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    bool gone = poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
    return gone ? err_set(ERR_PIPE, "nobody reads standard output any more")
                : err_set(ERR_FAILED, "standard output could not be written");
}

static int open_named(Output *output, const char *path)
{
    if (io_is_folder(path)) {
        return err_set(ERR_INPUT, "%s: is a folder; name a file", path);
    }
    output->path = mem_strdup(path);
    if (!is_special(path)) {
        return io_replace_open(path, &output->writer);
    }
    output->stream = fopen(path, "wb");
    return output->stream != NULL ? 0 : io_error(path, "write");
}

int output_open(const char *path, Output **out)
{
    Output *output = mem_zalloc(1, sizeof *output);
    int code = 0;
    if (path[0] == '\0' || strcmp(path, "-") == 0) {
        output->stream = stdout;
    } else {
        code = open_named(output, path);
    }
    if (code != 0) {
        output_abandon(output);
        output = NULL;
    }
    *out = output;
    return code;
}

int output_check(const char *path)
{
    if (path[0] == '\0' || strcmp(path, "-") == 0 || is_special(path)) {
        return io_is_folder(path) ? err_set(ERR_INPUT, "%s: is a folder; name a file", path) : 0;
    }
    char *folder = io_parent(path);
    int code = io_check_parent(path);
    code = code == 0 && access(folder, W_OK | X_OK) != 0 ? io_error(path, "write") : code;
    free(folder);
    /* To root every folder is writable, also one that takes no files. */
    IoWriter *writer = NULL;
    code = code != 0 ? code : io_replace_open(path, &writer);
    if (writer != NULL) {
        io_writer_abandon(writer);
    }
    return code;
}

int output_put(Output *output, const void *data, size_t size)
{
    if (output->code == 0 && output->writer != NULL) {
        output->code = io_writer_put(output->writer, data, size);
    } else if (output->code == 0 && fwrite(data, 1, size, output->stream) != size) {
        output->code = stream_error(output);
    }
    return output->code;
}

static void destroy(Output *output)
{
    if (output->stream != NULL && output->stream != stdout) {
        fclose(output->stream);
    }
    free(output->path);
    free(output);
}

int output_commit(Output *output)
{
    int code = output->code;
    if (code != 0) {
        output_abandon(output);
        return code;
    }
    if (output->writer != NULL) {
        code = io_writer_close(output->writer, NULL);
        output->writer = NULL;
    } else if (fflush(output->stream) != 0) {
        code = stream_error(output);
    }
    destroy(output);
    return code;
}

void output_abandon(Output *output)
{
    if (output != NULL) {
        if (output->writer != NULL) {
            io_writer_abandon(output->writer);
        }
        destroy(output);
    }
}
