#include "support/own_folder.h"

#include "base/io.h"
#include "base/mem.h"

#include <stdlib.h>

char *own_folder, *own_file;

int own_folder_make(void **state)
{
    (void)state;
    const char *parent = getenv("TMPDIR");
    own_folder = mem_format("%s/pacer-test-XXXXXX", parent != NULL ? parent : "/tmp");
    if (mkdtemp(own_folder) == NULL) {
        return -1;
    }
    own_file = io_join(own_folder, "x.yaml");
    return 0;
}

int own_folder_remove(void **state)
{
    (void)state;
    int code = io_remove_tree(own_folder);
    free(own_folder);
    free(own_file);
    return code;
}
