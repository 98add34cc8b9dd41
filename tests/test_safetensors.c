/* The safetensors reader and writer on good files: exact bytes, round trips, a file made by the
 * Python package, tensors in device memory, and writes that fail. */
#include "tensor/safetensors.h"

#include "base/err.h"
#include "base/mem.h"
#include "support/own_folder.h"
#include "support/safe_values.h"
#include "support/safetensors_bytes.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static void test_safetensors__writes_exact_bytes(void **state)
{
    (void)state;
    float w[6] = {0, 1, 2, 3, 4, 5};
    int32_t ids[2] = {7, -1};
    SafeEntry entries[] = {
        {"w", tensor_2d(w, DT_F32, 2, 3)},
        {"a \"b\"", tensor_1d(ids, DT_I32, 2)},
    };
    SafeMeta metadata[] = {{"step", "12"}, {NULL, NULL}};
    char *path = io_join(own_folder, "exact.safetensors");
    uint64_t digest = 0, again = 1;
    assert_int_equal(safetensors_write(path, entries, 2, metadata, NULL, &digest), 0);
    const char *json =
        "{\"__metadata__\":{\"format\":\"pt\",\"step\":\"12\"},"
        "\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"a \\\"b\\\"\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[24,32]}}";
    char *raw;
    size_t size;
    assert_int_equal(io_read_all(path, 1 << 20, &raw, &size), 0);
    uint64_t length;
    memcpy(&length, raw, 8);
    assert_int_equal((8 + length) % 64, 0);
    assert_in_range(length, strlen(json), strlen(json) + 63);
    assert_memory_equal(raw + 8, json, strlen(json));
    for (size_t i = strlen(json); i < length; i++) {
        assert_int_equal(raw[8 + i], ' ');
    }
    assert_int_equal(size, 8 + length + sizeof w + sizeof ids);
    assert_memory_equal(raw + 8 + length, w, sizeof w);
    assert_memory_equal(raw + 8 + length + sizeof w, ids, sizeof ids);
    assert_true(digest == io_hash(raw, size));
    assert_int_equal(safetensors_digest(path, &again), 0);
    assert_true(digest == again);
    free(raw);
    free(path);
}

static void test_safetensors__reads_back_every_type_and_rank(void **state)
{
    (void)state;
    float f32[105];
    double f64[2] = {1e300, -0.5};
    uint16_t bf16[3] = {0x3f80, 0xc000, 0x7f80};
    int32_t i32[7];
    for (int i = 0; i < 105; i++) {
        f32[i] = 0.25f * (float)i - 3;
    }
    for (int i = 0; i < 7; i++) {
        i32[i] = -i;
    }
    SafeEntry entries[] = {
        {"half.odd", tensor_1d(bf16, DT_BF16, 3)}, /* leaves what follows unaligned */
        {"deep", {f32, DT_F32, 4, {3, 5, 1, 7}}},  {"none", tensor_2d(NULL, DT_F32, 0, 9)},
        {"double", tensor_2d(f64, DT_F64, 1, 2)},  {"ids", tensor_1d(i32, DT_I32, 7)},
    };
    char *path = io_join(own_folder, "types.safetensors");
    assert_int_equal(safetensors_write(path, entries, 5, NULL, NULL, NULL), 0);
    SafeFile file;
    assert_int_equal(safetensors_open(path, &file), 0);
    assert_int_equal(file.count, 5);
    assert_string_equal(safetensors_metadata(&file, "format"), "pt");
    assert_null(safetensors_metadata(&file, "Format"));
    for (int i = 0; i < 5; i++) {
        const SafeTensor *found = safetensors_find(&file, entries[i].name);
        assert_non_null(found);
        Tensor want = entries[i].tensor;
        assert_int_equal(found->dtype, want.dtype);
        assert_int_equal(found->rank, want.rank);
        assert_int_equal(found->bytes, tensor_bytes(want));
        for (int d = 0; d < want.rank; d++) {
            assert_int_equal(found->dim[d], want.dim[d]);
        }
        void *values = safe_values(found);
        assert_true(found->bytes == 0 || memcmp(values, want.data, found->bytes) == 0);
        free(values);
        const SafeTensor *same = NULL;
        assert_int_equal(safetensors_require(&file, entries[i].name, want, &same), 0);
        assert_ptr_equal(same, found);
    }
    assert_string_equal(file.tensors[1].name, "deep");
    assert_null(safetensors_find(&file, "dee"));
    safetensors_close(&file);
    safetensors_close(&file);
    free(path);
}

static void test_safetensors__require_names_the_difference(void **state)
{
    (void)state;
    float w[6] = {0};
    SafeEntry entries[] = {{"w", tensor_2d(w, DT_F32, 2, 3)}};
    char *path = io_join(own_folder, "require.safetensors");
    assert_int_equal(safetensors_write(path, entries, 1, NULL, NULL, NULL), 0);
    SafeFile file;
    assert_int_equal(safetensors_open(path, &file), 0);
    const SafeTensor *data = NULL;
    assert_int_equal(safetensors_require(&file, "w", tensor_2d(NULL, DT_F32, 3, 2), &data),
                     ERR_INPUT);
    assert_non_null(strstr(err_message(), "(2, 3) f32"));
    assert_non_null(strstr(err_message(), "(3, 2) f32"));
    assert_non_null(strstr(err_message(), "require.safetensors"));
    assert_int_equal(safetensors_require(&file, "w", tensor_2d(NULL, DT_I32, 2, 3), &data),
                     ERR_INPUT);
    assert_int_equal(safetensors_require(&file, "w", tensor_1d(NULL, DT_F32, 6), &data), ERR_INPUT);
    assert_int_equal(safetensors_require(&file, "v", tensor_1d(NULL, DT_F32, 6), &data), ERR_INPUT);
    assert_non_null(strstr(err_message(), "no tensor \"v\""));
    assert_null(data);
    safetensors_close(&file);
    free(path);
}

/* What safetensors 0.8 for Python wrote for six numpy arrays: a scalar, an empty one, types that
 * pacer does not compute with, and a name table in its own order. */
static void test_safetensors__reads_what_python_wrote(void **state)
{
    (void)state;
    const char *header = "{\"__metadata__\":{\"note\":\"caf\xc3\xa9\"},"
                         "\"s\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
                         "\"e\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[8,8]},"
                         "\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
                         "\"b\":{\"dtype\":\"I32\",\"shape\":[2],\"data_offsets\":[32,40]},"
                         "\"h\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[40,42]},"
                         "\"m\":{\"dtype\":\"U8\",\"shape\":[1,2,1,2],\"data_offsets\":[42,46]}}  ";
    static const uint8_t data[46] = {0,    0,    0,    0,    0, 0,    0x04, 0x40, 0, 0, 0,    0,
                                     0,    0,    0x80, 0x3f, 0, 0,    0,    0x40, 0, 0, 0x40, 0x40,
                                     0,    0,    0x80, 0x40, 0, 0,    0xa0, 0x40, 1, 0, 0,    0,
                                     0xfe, 0xff, 0xff, 0xff, 0, 0x3e, 1,    1,    1, 1};
    size_t size;
    uint8_t *bytes = assemble(header, data, sizeof data, &size);
    SafeFile file;
    assert_int_equal(safetensors_open_bytes("python", bytes, size, &file), 0);
    assert_int_equal(file.count, 6);
    assert_string_equal(safetensors_metadata(&file, "note"), "caf\xc3\xa9");
    const SafeTensor *scalar = safetensors_find(&file, "s");
    double value;
    memcpy(&value, scalar->data, 8);
    assert_int_equal(scalar->rank, 0);
    assert_true(value == 2.5);
    const SafeTensor *at;
    float w[6];
    int32_t b[2];
    assert_int_equal(safetensors_require(&file, "w", tensor_2d(NULL, DT_F32, 2, 3), &at), 0);
    memcpy(w, at->data, sizeof w);
    for (int i = 0; i < 6; i++) {
        assert_true(w[i] == (float)i);
    }
    assert_int_equal(safetensors_require(&file, "b", tensor_1d(NULL, DT_I32, 2), &at), 0);
    memcpy(b, at->data, sizeof b);
    assert_int_equal(b[0], 1);
    assert_int_equal(b[1], -2);
    const SafeTensor *half = safetensors_find(&file, "h");
    assert_false(half->supported);
    assert_string_equal(half->type, "F16");
    assert_int_equal(safetensors_require(&file, "h", tensor_1d(NULL, DT_F32, 1), &at), ERR_INPUT);
    assert_non_null(strstr(err_message(), "F16"));
    assert_int_equal(safetensors_find(&file, "e")->bytes, 0);
    assert_int_equal(safetensors_find(&file, "m")->rank, 4);
    safetensors_close(&file);
    free(bytes);
}

typedef struct {
    int calls, fail_at;
    size_t largest;
} Device;

/* Stands for a device download: bytes come out inverted, so that a direct read would show. */
static int fetch_inverted(void *user, const SafeEntry *entry, size_t offset, void *to, size_t bytes)
{
    Device *device = user;
    if (device->calls++ == device->fail_at) {
        return err_set(ERR_FAILED, "device lost");
    }
    device->largest = bytes > device->largest ? bytes : device->largest;
    const uint8_t *from = (const uint8_t *)entry->tensor.data + offset;
    for (size_t i = 0; i < bytes; i++) {
        ((uint8_t *)to)[i] = (uint8_t)~from[i];
    }
    return 0;
}

static void test_safetensors__fetches_in_pieces(void **state)
{
    (void)state;
    int64_t n = (9 << 20) / 4 + 5;
    uint32_t *host = mem_alloc((size_t)n * 4);
    for (int64_t i = 0; i < n; i++) {
        host[i] = (uint32_t)i * 2654435761u;
    }
    int32_t small[3] = {1, 2, 3};
    SafeEntry entries[] = {{"small", tensor_1d(small, DT_I32, 3)},
                           {"big", tensor_1d(host, DT_I32, n)}};
    Device device = {0, -1, 0};
    SafeSource source = {fetch_inverted, &device};
    char *path = io_join(own_folder, "pieces.safetensors");
    assert_int_equal(safetensors_write(path, entries, 2, NULL, &source, NULL), 0);
    assert_int_equal(device.calls, 4);
    assert_int_equal(device.largest, 4 << 20);
    SafeFile file;
    assert_int_equal(safetensors_open(path, &file), 0);
    const SafeTensor *big = safetensors_find(&file, "big");
    assert_int_equal(big->bytes, n * 4);
    uint32_t *values = safe_values(big);
    for (int64_t i = 0; i < n; i++) {
        if (values[i] != ~host[i]) {
            fail_msg("element %lld", (long long)i);
        }
    }
    free(values);
    safetensors_close(&file);

    device = (Device){0, 2, 0};
    assert_int_equal(safetensors_write(path, entries, 2, NULL, &source, NULL), ERR_FAILED);
    assert_string_equal(err_message(), "device lost");
    assert_false(io_exists(path));
    free(host);
    free(path);
}

static void test_safetensors__write_failures_are_told(void **state)
{
    (void)state;
    float w[1] = {0};
    SafeEntry entry = {"w", tensor_1d(w, DT_F32, 1)};
    char *path = io_join(own_folder, "no/such/folder.safetensors");
    assert_int_equal(safetensors_write(path, &entry, 1, NULL, NULL, NULL), ERR_INPUT);
    assert_non_null(strstr(err_message(), path));
    free(path);

    /* A full disk, met through a link: the link is not ours to remove. */
    path = io_join(own_folder, "link.safetensors");
    assert_int_equal(symlink("/dev/full", path), 0);
    assert_int_equal(safetensors_write(path, &entry, 1, NULL, NULL, NULL), ERR_FAILED);
    assert_non_null(strstr(err_message(), path));
    struct stat info;
    assert_int_equal(lstat(path, &info), 0);
    free(path);

    /* A disk that fills up in the middle of the data: nothing stays behind. */
    struct rlimit unlimited, tight;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &unlimited), 0);
    tight = (struct rlimit){(rlim_t)3 << 20, unlimited.rlim_max};
    void (*previous)(int) = signal(SIGXFSZ, SIG_IGN);
    float *big = mem_zalloc(1 << 20, sizeof *big);
    SafeEntry large = {"large", tensor_1d(big, DT_F32, 1 << 20)};
    path = io_join(own_folder, "full.safetensors");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    int code = safetensors_write(path, &large, 1, NULL, NULL, NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &unlimited), 0);
    signal(SIGXFSZ, previous);
    assert_int_equal(code, ERR_FAILED);
    assert_non_null(strstr(err_message(), path));
    assert_false(io_exists(path));
    free(big);
    free(path);

    path = io_join(own_folder, "latin1.safetensors");
    SafeMeta metadata[] = {{"where", "caf\xe9"}, {NULL, NULL}};
    assert_int_equal(safetensors_write(path, &entry, 1, metadata, NULL, NULL), ERR_INPUT);
    assert_non_null(strstr(err_message(), "UTF-8"));
    assert_false(io_exists(path));
    free(path);
}

static void test_safetensors__empty_set_is_a_file(void **state)
{
    (void)state;
    char *path = io_join(own_folder, "empty.safetensors");
    assert_int_equal(safetensors_write(path, NULL, 0, NULL, NULL, NULL), 0);
    SafeFile file;
    assert_int_equal(safetensors_open(path, &file), 0);
    assert_int_equal(file.count, 0);
    assert_null(safetensors_find(&file, "w"));
    safetensors_close(&file);
    assert_int_equal(io_write_atomic(path, "", 0), 0);
    assert_int_equal(safetensors_open(path, &file), ERR_INPUT);
    assert_non_null(strstr(err_message(), "empty.safetensors"));
    free(path);
    assert_int_equal(safetensors_open("/no/such/file", &file), ERR_INPUT);
    assert_int_equal(safetensors_open(own_folder, &file), ERR_INPUT);
}

static void test_safetensors__digest_sees_every_flipped_byte(void **state)
{
    (void)state;
    float w[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    SafeEntry entry = {"w", tensor_1d(w, DT_F32, 8)};
    char *path = io_join(own_folder, "digest.safetensors");
    uint64_t digest, now;
    assert_int_equal(safetensors_write(path, &entry, 1, NULL, NULL, &digest), 0);
    char *raw;
    size_t size;
    assert_int_equal(io_read_all(path, 1 << 20, &raw, &size), 0);
    for (size_t i = 0; i < size; i += 13) {
        raw[i] ^= 0x10;
        FILE *file = fopen(path, "wb");
        assert_int_equal(fwrite(raw, 1, size, file), size);
        fclose(file);
        assert_int_equal(safetensors_digest(path, &now), 0);
        assert_true(now != digest);
        raw[i] ^= 0x10;
    }
    free(raw);
    free(path);
    assert_int_equal(safetensors_digest("/no/such/file", &now), ERR_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_safetensors__writes_exact_bytes),
        cmocka_unit_test(test_safetensors__reads_back_every_type_and_rank),
        cmocka_unit_test(test_safetensors__require_names_the_difference),
        cmocka_unit_test(test_safetensors__reads_what_python_wrote),
        cmocka_unit_test(test_safetensors__fetches_in_pieces),
        cmocka_unit_test(test_safetensors__write_failures_are_told),
        cmocka_unit_test(test_safetensors__empty_set_is_a_file),
        cmocka_unit_test(test_safetensors__digest_sees_every_flipped_byte),
    };
    return cmocka_run_group_tests(tests, own_folder_make, own_folder_remove);
}
