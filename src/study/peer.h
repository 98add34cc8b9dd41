#pragma once
/* Peers: other programs that make the runs of an experiment beside pacer, so that its report can
 * compare them. Both that there are are PyTorch, plain and compiled, through a script of pacer's
 * own (tools/peer/torch_train.py), which is told what to train by a JSON file and leaves a run
 * directory as `pacer train` does. */
#include "study/experiment.h"

/* What there is to run peers with. */
typedef struct {
    char version[32]; /* of PyTorch; "": it is not there */
    int gpus;         /* that it can use */
    char why[256];    /* it is not there */
} PeerTools;

/* Asks the interpreter, which takes it seconds. */
void peer_tools_find(PeerTools *tools);

/* Adds, behind pacer's runs of each repeat, those of the recipe's peers: one for every planned
 * combination that the peer can do, with the settings that mean something to it. To be followed
 * by experiment_identify, which drops those that have become equal thereby. Where there are
 * none, or not all, peer_note says why, and so does the log. */
void peers_add(Experiment *experiment, const PeerTools *tools);

/* The interpreter: $PACER_PYTHON, or python3. */
const char *peer_python(void);

/* Path of the script, beside the installed program or in the source it was built in; "" when it
 * is in neither. Caller frees. */
char *peer_script(void);

/* Writes what the script is told about a run; *path is the file's, caller frees. */
int peer_tell(const Experiment *experiment, const ExperimentRun *run, char **path);
