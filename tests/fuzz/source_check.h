#pragma once
#include "data/source.h"

/* Reads all documents of a file, which may be refused with a message: none is empty, and each has
 * the size and the hash that it was announced with. */
void fuzz_source(const char *path, int format, bool skip_bad);
