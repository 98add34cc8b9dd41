#include "support/capture.h"

#include "base/assert.h"
#include "base/mem.h"

#include <stdio.h>
#include <unistd.h>

static struct {
    FILE *file;
    int descriptor, before;
} capture;

void capture_begin(int descriptor)
{
    fflush(NULL);
    capture.file = tmpfile();
    capture.descriptor = descriptor;
    capture.before = dup(descriptor);
    PACER_ASSERT(capture.file != NULL && capture.before >= 0, "descriptor %d", descriptor);
    PACER_ASSERT(dup2(fileno(capture.file), descriptor) >= 0, "descriptor %d", descriptor);
}

char *capture_end(void)
{
    fflush(NULL);
    PACER_ASSERT(dup2(capture.before, capture.descriptor) >= 0, "%d", capture.descriptor);
    close(capture.before);
    long size = lseek(fileno(capture.file), 0, SEEK_END);
    char *text = mem_alloc((size_t)size + 1);
    rewind(capture.file);
    PACER_ASSERT(fread(text, 1, (size_t)size, capture.file) == (size_t)size, "%ld bytes", size);
    text[size] = '\0';
    fclose(capture.file);
    return text;
}
