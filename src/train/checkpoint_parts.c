#include "train/checkpoint_parts.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "tensor/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SEEN_WITHIN 100    /* looks for a file that another host has made, */
#define LOOK_NS 100000000L /* and the time between them */

bool parts_name(const Trainer *t, int which, const Param *row, char name[TENSOR_NAME_SIZE])
{
    const UpdateRule *rule = optimizer_rule(t->optimizer.kind, row);
    if (which == STATE_PARAMS) {
        snprintf(name, TENSOR_NAME_SIZE, "%s", row->name);
    } else if (which < rule->states) {
        snprintf(name, TENSOR_NAME_SIZE, "%s.%s", rule->state_names[which], row->name);
    }
    return which < rule->states;
}

Tensor parts_shape(const Trainer *t, int which, const Param *row)
{
    Tensor shape = {.dtype = trainer_state_dtype(t, which), .rank = row->rank};
    memcpy(shape.dim, row->dim, (size_t)row->rank * sizeof row->dim[0]);
    return shape;
}

/* --- layout --- */

static const Param *row_of(const PartsFile *file, int tensor)
{
    return &file->trainer->model.params.rows[file->places[tensor].row];
}

/* All tensors of a file have one type. */
static size_t element_size(const PartsFile *file)
{
    return dtype_size(trainer_state_dtype(file->trainer, file->places[0].which));
}

/* One tensor per row of the table and buffer [first, first + buffers) that has it. */
static void list_tensors(PartsFile *file, const char *name, const Trainer *t, int first,
                         int buffers)
{
    const ParamTable *table = &t->model.params;
    *file = (PartsFile){.name = name, .trainer = t};
    file->places = mem_zalloc((size_t)(table->count * buffers), sizeof *file->places);
    for (int which = first; which < first + buffers; which++) {
        for (int row = 0; row < table->count; row++) {
            char unused[TENSOR_NAME_SIZE];
            if (parts_name(t, which, &table->rows[row], unused)) {
                file->places[file->count++] = (TensorPlace){which, row};
                file->elements += table->rows[row].count;
            }
        }
    }
}

static void list_files(PartsFile files[PARTS_FILES], const Trainer *t)
{
    list_tensors(&files[PARTS_MODEL], "model.safetensors", t, STATE_PARAMS, 1);
    list_tensors(&files[PARTS_OPTIMIZER], "optimizer.safetensors", t, 0,
                 optimizer_states(t->optimizer.kind));
}

static int make_header(PartsFile *file)
{
    SafeEntry *entries = mem_zalloc((size_t)file->count, sizeof *entries);
    char(*names)[TENSOR_NAME_SIZE] = mem_zalloc((size_t)file->count, sizeof *names);
    for (int i = 0; i < file->count; i++) {
        parts_name(file->trainer, file->places[i].which, row_of(file, i), names[i]);
        entries[i] = (SafeEntry){
            names[i], parts_shape(file->trainer, file->places[i].which, row_of(file, i))};
    }
    int code = safetensors_header(file->name, entries, file->count, NULL, &file->header,
                                  &file->header_bytes);
    free(names);
    free(entries);
    return code;
}

int parts_open(PartsFile files[PARTS_FILES], const Trainer *t)
{
    int code = 0;
    list_files(files, t);
    for (int i = 0; i < PARTS_FILES && code == 0; i++) {
        code = make_header(&files[i]);
    }
    if (code != 0) {
        parts_close(files);
    }
    return code;
}

void parts_close(PartsFile files[PARTS_FILES])
{
    for (int i = 0; i < PARTS_FILES; i++) {
        free(files[i].places);
        free(files[i].header);
        files[i] = (PartsFile){0};
    }
}

uint64_t parts_file_bytes(const PartsFile *file)
{
    return file->header_bytes + (uint64_t)file->elements * element_size(file);
}

/* --- who writes what --- */

/* A stretch of a file that one rank writes. */
typedef struct {
    TensorPlace place;
    DdpPiece piece; /* elements, in its writer's buffer of that state */
    int64_t at;     /* element of the file */
    int writer;
} Part;

/* The way through a file. */
typedef struct {
    int tensor;
    int64_t into; /* it */
    int64_t at;   /* element of the file */
} Cursor;

/* Of what all keep, each rank writes the part of the file that is its by number; *end: where that
 * ends. */
static int sharer_of(const PartsFile *file, int64_t at, int64_t *end)
{
    int ranks = file->trainer->ddp.setup.ranks;
    int64_t share = ranks > 1 ? (file->elements + ranks - 1) / ranks : file->elements;
    *end = (at / share + 1) * share;
    return (int)(at / share);
}

/* The next one, in the order of the file; false: there is no more. */
static bool next_part(const PartsFile *file, Cursor *cursor, Part *part)
{
    while (cursor->tensor < file->count && cursor->into == row_of(file, cursor->tensor)->count) {
        cursor->tensor++;
        cursor->into = 0;
    }
    if (cursor->tensor == file->count) {
        return false;
    }
    const Param *row = row_of(file, cursor->tensor);
    TensorPlace place = file->places[cursor->tensor];
    DdpPiece piece = trainer_piece(file->trainer, place.which, row->offset + cursor->into,
                                   row->offset + row->count);
    *part = (Part){place, piece, cursor->at, piece.keeper};
    if (piece.keeper < 0) {
        int64_t end;
        part->writer = sharer_of(file, cursor->at, &end);
        piece.count = end - cursor->at < piece.count ? end - cursor->at : piece.count;
        part->piece.count = piece.count;
    }
    cursor->into += piece.count;
    cursor->at += piece.count;
    return true;
}

static bool next_own(const PartsFile *file, Cursor *cursor, Part *part)
{
    int rank = file->trainer->ddp.setup.rank;
    bool found;
    do {
        found = next_part(file, cursor, part);
    } while (found && part->writer != rank);
    return found;
}

size_t parts_own_bytes(const Trainer *t)
{
    PartsFile files[PARTS_FILES];
    size_t bytes = 0;
    list_files(files, t);
    for (int i = 0; i < PARTS_FILES; i++) {
        Part part;
        for (Cursor cursor = {0}; next_own(&files[i], &cursor, &part);) {
            bytes += (size_t)part.piece.count * element_size(&files[i]);
        }
    }
    parts_close(files);
    return bytes;
}

/* --- writing --- */

void parts_copy(const PartsFile files[PARTS_FILES], Trainer *t, char *copy)
{
    for (int i = 0; i < PARTS_FILES; i++) {
        Part part;
        for (Cursor cursor = {0}; next_own(&files[i], &cursor, &part);) {
            trainer_read_own(t, part.place.which, part.piece, copy);
            copy += (size_t)part.piece.count * element_size(&files[i]);
        }
    }
}

/* In pieces of SAFETENSORS_PIECE through `room`. */
static int write_from_trainer(const PartsFile *file, IoWriter *writer, Trainer *t, const Part *part,
                              void *room)
{
    int64_t size = (int64_t)element_size(file), piece = (int64_t)SAFETENSORS_PIECE / size;
    int code = 0;
    for (int64_t at = 0, count = part->piece.count; at < count && code == 0; at += piece) {
        int64_t n = count - at < piece ? count - at : piece;
        DdpPiece from = {part->piece.offset + at, n, part->piece.own + at, part->piece.keeper};
        trainer_read_own(t, part->place.which, from, room);
        code = io_writer_put(writer, room, (size_t)(n * size));
    }
    return code;
}

/* Waits for a file that rank 0 has just made, which other hosts may come to see late. */
static void await_file(const char *path)
{
    for (int i = 0; !io_exists(path) && i < SEEN_WITHIN; i++) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
}

int parts_write(const PartsFile *file, const char *path, Trainer *t, const char **copy,
                uint64_t *digest)
{
    int rank = file->trainer->ddp.setup.rank;
    IoWriter *writer;
    await_file(path);
    int code = io_writer_reopen(path, &writer);
    if (code != 0) {
        return code;
    }
    void *room = copy == NULL ? mem_alloc(SAFETENSORS_PIECE) : NULL;
    if (rank == 0) {
        code = io_writer_put(writer, file->header, file->header_bytes);
    }
    Part part;
    for (Cursor cursor = {0}; code == 0 && next_own(file, &cursor, &part);) {
        uint64_t at = file->header_bytes + (uint64_t)part.at * element_size(file);
        size_t bytes = (size_t)part.piece.count * element_size(file);
        code = io_writer_seek(writer, at);
        if (code == 0 && copy == NULL) {
            code = write_from_trainer(file, writer, t, &part, room);
        } else if (code == 0) {
            code = io_writer_put(writer, *copy, bytes);
            *copy += bytes;
        }
    }
    free(room);
    int closed = io_writer_close(writer, digest);
    return code != 0 ? code : closed;
}

/* --- reading again --- */

/* Bytes [at, at + bytes) of the file, to both digests. */
static int hash_stretch(IoFile *from, uint64_t at, uint64_t bytes, IoHash *whole, IoHash *one,
                        void *room)
{
    int code = 0;
    for (uint64_t end = at + bytes; at < end && code == 0; at += SAFETENSORS_PIECE) {
        size_t n = end - at < SAFETENSORS_PIECE ? (size_t)(end - at) : SAFETENSORS_PIECE;
        code = io_file_read(from, at, room, n);
        io_hash_add(whole, room, n);
        io_hash_add(one, room, n);
    }
    return code;
}

int parts_compare(const PartsFile *file, const char *path, const uint64_t *digests, uint64_t *whole,
                  int *other)
{
    int ranks = file->trainer->ddp.setup.ranks;
    IoFile *from;
    int code = io_file_open(path, &from);
    if (code != 0) {
        return code;
    }
    void *room = mem_alloc(SAFETENSORS_PIECE);
    IoHash *all = io_hash_new(), **each = mem_zalloc((size_t)ranks, sizeof *each);
    for (int i = 0; i < ranks; i++) {
        each[i] = io_hash_new();
    }
    code = hash_stretch(from, 0, file->header_bytes, all, each[0], room);
    Part part;
    for (Cursor cursor = {0}; code == 0 && next_part(file, &cursor, &part);) {
        size_t size = element_size(file);
        code = hash_stretch(from, file->header_bytes + (uint64_t)part.at * size,
                            (uint64_t)part.piece.count * size, all, each[part.writer], room);
    }
    *whole = io_hash_end(all);
    *other = -1;
    for (int i = ranks - 1; i >= 0; i--) {
        *other = io_hash_end(each[i]) != digests[i] ? i : *other;
    }
    free(each);
    free(room);
    io_file_close(from);
    return code;
}
