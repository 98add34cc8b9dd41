#include "support/exchange_files.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "support/data_files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

char *exchange_folder;

int exchange_make_folder(void **state)
{
    (void)state;
    exchange_folder = data_files_folder();
    return 0;
}

int exchange_remove_folder(void **state)
{
    (void)state;
    data_files_remove(exchange_folder);
    return 0;
}

char *exchange_fixture(const char *name)
{
    return mem_format("%s/%s", PACER_GOLD_DIR, name);
}

void exchange_expect(int code, const char *text)
{
    if (code != ERR_INPUT || strstr(err_message(), text) == NULL) {
        fail_msg("code %d, message \"%s\", wanted \"%s\"", code, err_message(), text);
    }
}

char *exchange_read(const char *folder, const char *name)
{
    char *path = io_join(folder, name), *text;
    size_t size;
    assert_int_equal(io_read_all(path, 1 << 20, &text, &size), 0);
    free(path);
    return text;
}

void exchange_write(const char *folder, const char *name, const char *text)
{
    char *path = io_join(folder, name);
    assert_int_equal(io_write_atomic(path, text, strlen(text)), 0);
    free(path);
}
