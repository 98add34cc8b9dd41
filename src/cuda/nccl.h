#pragma once
/* NCCL by hand: its types and numbers from the public reference, its functions by name from
 * libnccl.so.2, so that one program runs with any NCCL 2 and, on one GPU, without it. */
#include <stdbool.h>
#include <stddef.h>

enum { NCCL_OK = 0, NCCL_IN_PROGRESS = 7 };
enum { NCCL_SUM = 0 };
enum { NCCL_INT32 = 2, NCCL_FLOAT32 = 7, NCCL_FLOAT64 = 8, NCCL_BFLOAT16 = 9 };

typedef struct NcclComm NcclComm;
typedef struct CUstream_st *NcclStream; /* cudaStream_t */

typedef struct {
    char bytes[128];
} NcclId;

typedef struct {
    void *library;
    int (*version)(int *version);
    int (*new_id)(NcclId *id);
    int (*join)(NcclComm **comm, int ranks, NcclId id, int rank); /* waits for all ranks */
    int (*leave)(NcclComm *comm);
    int (*async_error)(NcclComm *comm, int *error);
    const char *(*error_text)(int error);
    const char *(*last_error)(NcclComm *comm); /* NULL before NCCL 2.13 */
    int (*all_reduce)(const void *in, void *out, size_t count, int type, int op, NcclComm *comm,
                      NcclStream stream);
    int (*reduce_scatter)(const void *in, void *out, size_t count, int type, int op, NcclComm *comm,
                          NcclStream stream);
    int (*all_gather)(const void *in, void *out, size_t count, int type, NcclComm *comm,
                      NcclStream stream);
    int (*broadcast)(const void *in, void *out, size_t count, int type, int root, NcclComm *comm,
                     NcclStream stream);
} Nccl;

/* 0, or ERR_FAILED saying what to install. */
int nccl_load(Nccl *nccl);
/* "unhandled system error: ..." */
void nccl_explain(const Nccl *nccl, NcclComm *comm, int error, char *text, size_t size);
