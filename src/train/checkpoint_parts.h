#pragma once
/* The two files of tensors in a checkpoint, which all ranks write together, each in its place: what
 * a rank alone keeps, and of what all keep an equal share. Every rank knows from the parameter
 * table where each byte belongs, so that none of them travels. Behind their layout, which the
 * trainer's opening has fixed, these functions read nothing of the trainer unless they say so. */
#include "train/trainer.h"

enum { PARTS_MODEL, PARTS_OPTIMIZER, PARTS_FILES };

/* Where a tensor of a file comes from: a buffer of state, and a row of the table. */
typedef struct {
    int which, row;
} TensorPlace;

typedef struct {
    const char *name; /* of the file */
    const Trainer *trainer;
    TensorPlace *places; /* of its tensors, in their order */
    int count;
    char *header; /* what the file begins with */
    size_t header_bytes;
    int64_t elements; /* behind it */
} PartsFile;

int parts_open(PartsFile files[PARTS_FILES], const Trainer *trainer);
void parts_close(PartsFile files[PARTS_FILES]); /* a no-op when zeroed */

uint64_t parts_file_bytes(const PartsFile *file);

/* Bytes of state that this rank writes, in both files. */
size_t parts_own_bytes(const Trainer *trainer);

/* Copies them to host memory, from the trainer, whose weights are settled. */
void parts_copy(const PartsFile files[PARTS_FILES], Trainer *trainer, char *copy);

/* Writes this rank's bytes into the file at `path`, which is there with its final size, and makes
 * them durable. Of the copy, whose beginning *copy becomes that of the next file; NULL: from the
 * trainer. digest: of what was written, in order. */
int parts_write(const PartsFile *file, const char *path, Trainer *trainer, const char **copy,
                uint64_t *digest);

/* Reads the file again and compares the bytes of each rank with the digest that it has told of
 * them, (ranks). *whole: of all bytes; *other: the first rank whose bytes are not there, -1 when
 * all are. */
int parts_compare(const PartsFile *file, const char *path, const uint64_t *digests, uint64_t *whole,
                  int *other);

/* The row's name in a file, behind that of the state; false where the row has no such state. */
#define TENSOR_NAME_SIZE 96
bool parts_name(const Trainer *trainer, int which, const Param *row, char name[TENSOR_NAME_SIZE]);

/* The row's own shape; where it is kept is not told. */
Tensor parts_shape(const Trainer *trainer, int which, const Param *row);
