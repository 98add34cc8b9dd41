#pragma once
/* A fresh folder for a test program, and one file in it that tests write. */
extern char *own_folder, *own_file;

/* Setup and teardown of cmocka, for a test or a group; the folder is its state. The file is
 * x.yaml. */
int own_folder_make(void **state);
int own_folder_remove(void **state);
