#include "cuda/nccl.h"

#include "base/err.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int nccl_load(Nccl *nccl)
{
    static const char *const names[] = {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2",
                                        "/usr/local/cuda/lib/libnccl.so.2"};
    char why[512] = "";
    *nccl = (Nccl){0};
    for (size_t i = 0; i < sizeof names / sizeof *names && nccl->library == NULL; i++) {
        nccl->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (nccl->library == NULL && i == 0) {
            snprintf(why, sizeof why, "%s", dlerror());
        }
    }
    if (nccl->library == NULL) {
        return err_set(ERR_FAILED,
                       "several ranks on GPUs need NCCL, which does not load: %s; install it "
                       "(NVIDIA's package libnccl2)",
                       why);
    }
    const struct {
        const char *name;
        void *slot;
        bool optional;
    } functions[] = {
        {"ncclGetVersion", &nccl->version, false},
        {"ncclGetUniqueId", &nccl->new_id, false},
        {"ncclCommInitRank", &nccl->join, false},
        {"ncclCommDestroy", &nccl->leave, false},
        {"ncclCommGetAsyncError", &nccl->async_error, false},
        {"ncclGetErrorString", &nccl->error_text, false},
        {"ncclGetLastError", &nccl->last_error, true},
        {"ncclAllReduce", &nccl->all_reduce, false},
        {"ncclReduceScatter", &nccl->reduce_scatter, false},
        {"ncclAllGather", &nccl->all_gather, false},
        {"ncclBroadcast", &nccl->broadcast, false},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *found = dlsym(nccl->library, functions[i].name);
        if (found == NULL && !functions[i].optional) {
            return err_set(ERR_FAILED, "this NCCL has no %s: pacer needs NCCL 2.10 or later",
                           functions[i].name);
        }
        memcpy(functions[i].slot, &found, sizeof found);
    }
    return 0;
}

void nccl_explain(const Nccl *nccl, NcclComm *comm, int error, char *text, size_t size)
{
    const char *more = nccl->last_error != NULL ? nccl->last_error(comm) : NULL;
    bool has_more = more != NULL && more[0] != '\0';
    int length = has_more ? (int)strcspn(more, "\n") : 0;
    snprintf(text, size, "NCCL: %s%s%.*s", nccl->error_text(error), has_more ? ": " : "", length,
             has_more ? more : "");
}
