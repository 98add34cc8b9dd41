#pragma once
/* Whether a trainer computes the right thing in the very shape that was timed: its loss and
 * gradients beside those of a slow backend that is trusted, on the same weights and tokens. */
#include "train/trainer.h"

typedef struct {
    const char *trusted; /* whose numbers are expected: "the CPU's" */
    double loss, expected_loss;
    double norm, expected_norm; /* of the whole gradient */
    int tensors;                /* whose gradients were compared */
    double error;               /* of the worst of them, as a fraction (verify.c says of what) */
    char worst[128];            /* its name */
    double update_error;        /* of the weights after an update, in units of the rate */
    double loss_limit, norm_limit, limit, update_limit; /* absolute, relative, of the two errors */
} Verification;

/* Runs one update of `trainer`, whose weights, gradients and moments are lost, and `sequences`
 * (1, or 2 when the update has an even number of them) single sequences on the trusted backend
 * in f32. ERR_MEMORY when there is no room for those; 0 otherwise, whatever was found. */
int verify_against(Trainer *trainer, Backend *trusted, int sequences, Verification *found);

/* How the trusted side computes that many sequences, as long as those of `timed`. */
TrainerSetup verify_trusted_setup(const TrainerSetup *timed, int sequences);

/* 0 when everything is within its limit; else ERR_CHECK, and the message names what is not. */
int verify_judge(const Verification *found);

typedef struct {
    int threads;        /* of the processor, which may be the trusted side */
    size_t host_memory; /* bytes that may be taken; 0: what the machine has free */
    double seconds;     /* that the trusted side may take, as estimated beforehand */
} VerifyOptions;

/* The same with a trusted backend of its choice: the CPU, or ref for a trainer on the CPU. When
 * a sequence would take the trusted side too long, a trainer of the same kind on shorter
 * sequences stands for this one. Prints one line to stdout: what was found, or why nothing could
 * be verified, which is no error. */
int verify_trainer(Trainer *trainer, VerifyOptions options);
