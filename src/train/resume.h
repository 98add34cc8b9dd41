#pragma once
/* Whether a run may go on from a checkpoint with the options it has now, and what it says when
 * it does. Each option's row in config/table.c tells: another value is refused, recorded, or
 * nobody's business. */
#include "train/checkpoint.h"
#include "train/setup.h"

/* Options that a leg of a run has other than the one before it. */
typedef struct {
    ConfigChange *rows;
    size_t count;
    bool data_unknown; /* the checkpoint has no digest of the data */
} LegChanges;

/* ERR_INPUT naming the option at fault with both values when going on would be another training;
 * *changes are then none. Else they are those to be recorded. A refused option whose value
 * differs but stands for the same (a dimension that the preset has anyway, the same tokens in
 * another place) is among them. */
int resume_check(const Run *run, const char *checkpoint, const StateFile *file,
                 LegChanges *changes);
void leg_changes_free(LegChanges *changes);

/* A line for each change, loud where the option was not given. */
void leg_changes_say(const Run *run, const LegChanges *changes);

/* One more leg for the list of a run (docs/reference/formats.md), going on behind `step`; 0: from
 * the start. restarted: a list of the ranks that were lost since the checkpoint, as JSON
 * (comm_restarted); NULL: none was. */
void legs_add(struct cJSON *legs, int64_t step, int ranks, const char *host, const char *restarted,
              const LegChanges *changes);
