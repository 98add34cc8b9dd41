#include "comm/module.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_NAME "pacer_mpi.so"
#define ADVICE                                                             \
    "install an MPI with its headers (Debian, Ubuntu: libopenmpi-dev and " \
    "openmpi-bin), then build again (make)"

/* The folder of the running program, without a slash at its end; "." when the system does not say. */
static char *program_folder(void)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length <= 0) {
        return mem_strdup(".");
    }
    path[length] = '\0';
    *strrchr(path, '/') = '\0';
    return mem_strdup(path);
}

static char *find_module(void)
{
    static const char *const places[] = {"", "/..", "/../lib/pacer"};
    const char *named = getenv("PACER_MPI_MODULE");
    if (named != NULL && named[0] != '\0') {
        return mem_strdup(named);
    }
    char *folder = program_folder(), *found = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && found == NULL; i++) {
        char *path = mem_format("%s%s/" FILE_NAME, folder, places[i]);
        if (io_exists(path)) {
            found = path;
        } else {
            free(path);
        }
    }
    free(folder);
    return found;
}

int module_load(const MpiModule **out)
{
    char *path = find_module();
    if (path == NULL) {
        return err_set(ERR_FAILED,
                       "several ranks need MPI, and pacer was built without it: " ADVICE);
    }
    /* Open MPI's own plugins look for its symbols in the global scope. */
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    int code = ERR_NONE;
    if (library == NULL) {
        code = err_set(ERR_FAILED, "several ranks need MPI, which does not load: %s; " ADVICE,
                       dlerror());
    } else {
        *out = dlsym(library, MPI_MODULE_SYMBOL);
        if (*out == NULL || (*out)->version != MPI_MODULE_VERSION) {
            code =
                err_set(ERR_FAILED, "%s is of another version of pacer: build again (make)", path);
        }
    }
    free(path);
    return code;
}
