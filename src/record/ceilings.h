#pragma once
/* What a machine can do at best, measured piece by piece, and remembered: `pacer bench machine`
 * measures and stores, runs compare themselves with the best that was ever seen (record/machine.h).
 * A file per host, device and versions of the libraries lies in the user's cache folder
 * (base/cache.h); a stored ceiling is replaced only by a better one. Runs store what they measured
 * themselves, and where something is stored they begin without measuring. */
#include "base/clock.h"
#include "record/machine.h"
#include "tensor/sensors.h"

/* What measurements must have in common to be compared. */
typedef struct {
    char host[128], device[192], library[224];
} CeilingKey;

typedef struct {
    char name[32];    /* "matmul_bf16" */
    const char *unit; /* "FLOP/s", "B/s", "s" */
    const char *how;
    bool is_time;                /* less is better */
    double value;                /* measured now */
    double stated;               /* by the maker; 0: not known */
    double best;                 /* of now and all that was stored; set by ceilings_store */
    char date[CLOCK_STAMP_SIZE]; /* of the best */
} Ceiling;

#define CEILINGS_MAX 12

/* Above the stated peak by more than this a measurement is wrong: it is not stored, and not
 * believed. */
#define CEILINGS_OVER_STATED 1.05

typedef struct {
    CeilingKey key;
    char date[CLOCK_STAMP_SIZE];
    Ceiling items[CEILINGS_MAX];
    int count;
    GpuReading before, after; /* after: right behind the last large product */
    double reading_s;         /* that a reading of the sensors takes */
} Ceilings;

void ceilings_key(CeilingKey *key, const Machine *machine, const Backend *backend);

/* Where something that was measured is kept; NULL: nothing is to be. The name is for people, its
 * hash tells keys apart. Caller frees. */
char *ceilings_path(const char *what, const CeilingKey *key);

/* On a GPU: products in f32 and bf16, copies in its memory and from and to the host's, launches.
 * On a processor: sgemm and copies, with one thread and with all of the backend's, each for
 * about half of `seconds`. machine is described; sensors may be NULL. 0, or the code of a
 * signal. */
int ceilings_measure(Ceilings *out, const Machine *machine, Backend *backend, Sensors *sensors,
                     double seconds);

/* Appends a value with the date of c; one that is not a positive number is left out. unit and how
 * are kept as they are. */
void ceilings_add(Ceilings *c, const char *name, const char *unit, double value, const char *how);

/* Joins them with what is stored: fills best and date, and writes the file. ERR_FAILED when it
 * cannot be written; best and date are then filled all the same. */
int ceilings_store(Ceilings *ceilings);

/* The stored value of a name, and when it was measured; false when there is none. */
bool ceilings_find(const CeilingKey *key, const char *name, double *value,
                   char date[CLOCK_STAMP_SIZE]);

const Ceiling *ceilings_get(const Ceilings *ceilings, const char *name); /* NULL: not measured */

/* The type of products that a run in dtype is held against on a processor: bf16 where the backend
 * has ops for it, else f32. */
DType ceilings_dtype(const Backend *backend, DType dtype);

/* Names of the ceilings of products and copies that a run is held against. */
#define CEILING_NAME_SIZE 32
void ceilings_names(const Backend *backend, DType dtype, char product[CEILING_NAME_SIZE],
                    char copy[CEILING_NAME_SIZE]);

cJSON *ceilings_json(const Ceilings *ceilings); /* caller deletes it */
