#include "fuzz/fuzz.h"

#include "base/assert.h"
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[256];

static void remove_folder(void)
{
    io_remove_tree(folder);
}

const char *fuzz_folder(void)
{
    if (folder[0] == '\0') {
        const char *place = getenv("TMPDIR");
        if (place == NULL) {
            place = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        }
        snprintf(folder, sizeof folder, "%s/pacer-fuzz-XXXXXX", place);
        PACER_ASSERT(mkdtemp(folder) != NULL, "cannot make a folder in %s", place);
        atexit(remove_folder);
    }
    return folder;
}

const char *fuzz_file(const char *name, const void *data, size_t size)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    PACER_ASSERT(file >= 0, "cannot write %s", path);
    ssize_t written = write(file, data, size);
    PACER_ASSERT(written == (ssize_t)size, "%s: %zd of %zu bytes written", path, written, size);
    close(file);
    return path;
}

char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = mem_alloc(size + 1);
    if (size > 0) {
        memcpy(text, data, size);
    }
    text[size] = '\0';
    return text;
}

void fuzz_forget(void)
{
    err_set(ERR_NONE, "%s", "");
}

void fuzz_expect(int code)
{
    PACER_ASSERT(code <= 0, "code %d", code);
    PACER_ASSERT(code == 0 || err_message()[0] != '\0', "code %d without a message", code);
}
