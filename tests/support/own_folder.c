#include "support/own_folder.h"

#include "base/io.h"
#include "support/data_files.h"

#include <stdlib.h>

char *own_folder, *own_file;

int own_folder_make(void **state)
{
    *state = own_folder = data_files_folder();
    own_file = io_join(own_folder, "x.yaml");
    return 0;
}

int own_folder_remove(void **state)
{
    (void)state;
    data_files_remove(own_folder);
    free(own_file);
    return 0;
}
