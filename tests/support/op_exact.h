#pragma once
/* For tests of ops whose results are exact: the same bits on ref, on the cpu backend with all
 * its threads and instruction sets, and on a GPU where there is one. */
#include "support/op_devices.h"

/* Set up and tear down of a group of tests. Without a GPU a line says so. */
int exact_open(void **state);
int exact_close(void **state);

int exact_devices(void);        /* how many there are; they count from 0 */
Ctx *exact_ctx(int device);     /* with some scratch */
bool exact_has_f64(int device); /* whether it converts f64 */

/* Around vectors of all widths, and enough for several threads and blocks; the largest is last. */
#define EXACT_SIZES 15
extern const int64_t exact_sizes[EXACT_SIZES];
#define EXACT_SKEWS 3 /* elements off their alignment that are worth a try: 0, 1, 2 */

/* Random bits for the largest size in any type; the caller frees them. */
uint8_t *exact_random_bits(void);

/* A tensor (count) in backend memory, `skew` elements off its alignment, between guards. */
typedef struct {
    Tensor tensor;
    uint8_t *block;
    size_t offset, bytes; /* of the elements */
} Placed;

Placed exact_place(int device, DType dtype, const void *values, int64_t count, int skew);
void exact_write(int device, const Placed *p, const void *values);
/* The elements as they are now. Fails the test unless the guards are whole. */
void exact_read(int device, const Placed *p, void *values);
void exact_release(int device, Placed *p);

/* Fails the test unless got == wanted, naming the device and what it was given. */
void exact_expect(int device, int skew, uint64_t given, uint64_t got, uint64_t wanted);
