#include "comm/internal.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#include <dlfcn.h>
#include <stdlib.h>

#define FILE_NAME "pacer_mpi.so"
#define ADVICE                                                             \
    "install an MPI with its headers (Debian, Ubuntu: libopenmpi-dev and " \
    "openmpi-bin), then build again (make)"

/* Beside the program where it was built, in lib/pacer once it is installed; a program that uses
 * libpacer may lie anywhere, so the module is also looked for from the library. */
static char *find_module(void)
{
    static const char *const program[] = {".", "..", "../lib/pacer", NULL};
    static const char *const library[] = {".", "pacer", "../pacer", NULL};
    const char *named = getenv("PACER_MPI_MODULE");
    if (named != NULL && named[0] != '\0') {
        return mem_strdup(named);
    }
    char *found = io_find_from(io_program_folder(), program, FILE_NAME);
    return found != NULL ? found : io_find_from(io_library_folder(), library, FILE_NAME);
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
