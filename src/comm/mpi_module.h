#pragma once
/* What the module pacer_mpi.so (mpi.c) gives to the program: MPI's point-to-point messages and
 * broadcast, none of which waits. The module is all that is compiled against an MPI; the program
 * loads it when there are several ranks. All functions are called by one thread (worker.c).
 * Those that return an int return 0 or MPI's error code, which `explain` turns into text. */
#include <stdbool.h>
#include <stddef.h>

#define MPI_MODULE_SYMBOL "pacer_mpi_module"
#define MPI_MODULE_VERSION 1
#define MPI_MODULE_TEXT 256
#define MPI_MODULE_MOST_BYTES ((size_t)1 << 30) /* of one message or broadcast */

/* Room for an MPI_Request, which is a pointer or a number. */
typedef union {
    void *pointer;
    int number;
} MpiRequest;

typedef struct {
    int rank, ranks;
    int local_rank, local_ranks; /* among ranks that share memory */
    char library[MPI_MODULE_TEXT];
} MpiWorld;

typedef struct {
    int version;
    bool is_open_mpi;     /* by its header */
    const char *launcher; /* mpirun as configuring found it; may be "" */

    bool (*open)(MpiWorld *world, char why[MPI_MODULE_TEXT]);
    void (*close)(void); /* all ranks */
    void (*abort)(int status);

    int (*send)(MpiRequest *request, const void *bytes, size_t count, int to, int tag);
    int (*receive)(MpiRequest *request, void *bytes, size_t count, int from, int tag);
    int (*broadcast)(MpiRequest *request, void *bytes, size_t count, int root);
    /* Lets MPI get on with all that is under way; *done: this one is, and its request is free
     * again. */
    int (*test)(MpiRequest *request, bool *done);
    void (*explain)(int code, char text[MPI_MODULE_TEXT]);
} MpiModule;
