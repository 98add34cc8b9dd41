#include "base/cache.h"

#include "base/io.h"
#include "base/mem.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static char *cache_folder(void)
{
    const char *given = getenv("PACER_TUNE_CACHE");
    if (given != NULL && given[0] != '\0') {
        return io_parent(given);
    }
    const char *cache = getenv("XDG_CACHE_HOME");
    if (cache != NULL && cache[0] == '/') {
        return io_join(cache, "pacer");
    }
    const char *home = getenv("HOME");
    return home != NULL && home[0] != '\0' ? io_join(home, ".cache/pacer") : NULL;
}

char *cache_path(const char *name)
{
    char *folder = cache_folder();
    if (folder == NULL) {
        return NULL;
    }
    char *plain = mem_strdup(name);
    for (char *at = plain; *at != '\0'; at++) {
        if (!isalnum((unsigned char)*at) && *at != '.') {
            *at = '-';
        }
    }
    char *path = io_join(folder, plain);
    free(plain);
    free(folder);
    return path;
}

bool cache_in_use(void)
{
    const char *tune = getenv("PACER_TUNE");
    return tune == NULL || strcmp(tune, "off") != 0;
}

int cache_make_folder(const char *path)
{
    char *folder = io_parent(path);
    int code = io_make_folders(folder);
    free(folder);
    return code;
}
