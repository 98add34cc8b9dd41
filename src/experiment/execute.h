#pragma once
/* Running an experiment: one child after the other, each state on disk before and after. */
#include "experiment/experiment.h"

/* Makes the experiment's folder, keeps other sweeps out of it until *lock is closed, and waits
 * for runs in it that a killed sweep may have left behind. ERR_INPUT when another sweep is
 * there. */
int experiment_enter(const Experiment *experiment, int *lock);

/* Runs what is waiting or was stopped. A run that fails does not end it. 0 when every run had
 * its chance; ERR_INTERRUPTED or ERR_TERMINATED after a signal, which the child was given too;
 * or why the record cannot be kept. signals_install before. */
int experiment_execute(Experiment *experiment);
