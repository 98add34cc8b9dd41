#pragma once
/* What fuzz targets share. A target is one file fuzz_NAME.c that hands bytes to a parser and states
 * what must hold whatever they are. It is linked with libFuzzer (clang), or with driver.c. */
#include <stddef.h>
#include <stdint.h>

/* The target: returns 0; a failure is an abort, a sanitizer's report, an exit, or too much time. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A folder of this process in memory (/dev/shm) or else under TMPDIR, removed at exit. */
const char *fuzz_folder(void);

/* Writes a file of that name there. Returns its path, valid until the next call. */
const char *fuzz_file(const char *name, const void *data, size_t size);

/* The bytes as a string that ends at the first zero byte among them; caller frees. */
char *fuzz_text(const uint8_t *data, size_t size);

/* Before a call that may fail: forgets the last message. */
void fuzz_forget(void);

/* After it: a failure has a message. */
void fuzz_expect(int code);
