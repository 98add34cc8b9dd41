/* The module pacer_mpi.so: a thin layer over the MPI that it was compiled against
 * (mpi_module.h). One thread makes all calls, MPI_Init included, so MPI_THREAD_FUNNELED is
 * enough. Messages are bytes: sums are made by the program (collective.c), not by MPI. */
#include "comm/mpi_module.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

#ifndef PACER_MPI_LAUNCHER
#define PACER_MPI_LAUNCHER ""
#endif

_Static_assert(sizeof(MPI_Request) <= sizeof(MpiRequest), "a request fits");

static MPI_Comm world_comm;

static void explain(int code, char text[MPI_MODULE_TEXT])
{
    char long_text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    MPI_Error_string(code, long_text, &length);
    long_text[strcspn(long_text, "\n")] = '\0';
    snprintf(text, MPI_MODULE_TEXT, "%.*s", MPI_MODULE_TEXT - 1, long_text);
}

/* "Open MPI 4.1.4" of what a library says about itself in a line or more. */
static void name_library(char text[MPI_MODULE_TEXT])
{
    char said[MPI_MAX_LIBRARY_VERSION_STRING + 1] = "";
    int length = 0, major, minor, patch;
    MPI_Get_library_version(said, &length);
    if (sscanf(said, "Open MPI v%d.%d.%d", &major, &minor, &patch) == 3) {
        snprintf(text, MPI_MODULE_TEXT, "Open MPI %d.%d.%d", major, minor, patch);
        return;
    }
    if (sscanf(said, "MPICH Version: %d.%d.%d", &major, &minor, &patch) == 3) {
        snprintf(text, MPI_MODULE_TEXT, "MPICH %d.%d.%d", major, minor, patch);
        return;
    }
    said[strcspn(said, ",\n")] = '\0';
    snprintf(text, MPI_MODULE_TEXT, "%.*s", MPI_MODULE_TEXT - 1, said);
}

static bool open_world(MpiWorld *world, char why[MPI_MODULE_TEXT])
{
    int level, code = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level);
    if (code != MPI_SUCCESS) {
        explain(code, why);
        return false;
    }
    if (level < MPI_THREAD_FUNNELED) {
        snprintf(why, MPI_MODULE_TEXT, "this MPI does not work in a program with threads");
        return false;
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &world_comm);
    MPI_Comm_set_errhandler(world_comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world_comm, &world->rank);
    MPI_Comm_size(world_comm, &world->ranks);
    MPI_Comm local;
    MPI_Comm_split_type(world_comm, MPI_COMM_TYPE_SHARED, world->rank, MPI_INFO_NULL, &local);
    MPI_Comm_rank(local, &world->local_rank);
    MPI_Comm_size(local, &world->local_ranks);
    MPI_Comm_free(&local);
    name_library(world->library);
    return true;
}

static void close_world(void)
{
    MPI_Comm_free(&world_comm);
    MPI_Finalize();
}

static void abort_world(int status)
{
    MPI_Abort(MPI_COMM_WORLD, status);
}

static int keep(MpiRequest *slot, MPI_Request request, int code)
{
    memcpy(slot, &request, sizeof request);
    return code == MPI_SUCCESS ? 0 : code;
}

static int send_bytes(MpiRequest *slot, const void *bytes, size_t count, int to, int tag)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Isend(bytes, (int)count, MPI_BYTE, to, tag, world_comm, &request);
    return keep(slot, request, code);
}

static int receive_bytes(MpiRequest *slot, void *bytes, size_t count, int from, int tag)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Irecv(bytes, (int)count, MPI_BYTE, from, tag, world_comm, &request);
    return keep(slot, request, code);
}

static int broadcast_bytes(MpiRequest *slot, void *bytes, size_t count, int root)
{
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_Ibcast(bytes, (int)count, MPI_BYTE, root, world_comm, &request);
    return keep(slot, request, code);
}

static int test_request(MpiRequest *slot, bool *done)
{
    MPI_Request request;
    int flag = 0;
    memcpy(&request, slot, sizeof request);
    int code = MPI_Test(&request, &flag, MPI_STATUS_IGNORE);
    *done = flag != 0;
    return keep(slot, request, code);
}

extern const MpiModule pacer_mpi_module;

const MpiModule pacer_mpi_module = {
    .version = MPI_MODULE_VERSION,
#ifdef OPEN_MPI
    .is_open_mpi = true,
#endif
    .launcher = PACER_MPI_LAUNCHER,
    .open = open_world,
    .close = close_world,
    .abort = abort_world,
    .send = send_bytes,
    .receive = receive_bytes,
    .broadcast = broadcast_bytes,
    .test = test_request,
    .explain = explain,
};
