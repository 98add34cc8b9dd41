#pragma once
/* The trace file of a profile in pieces (profile_json.c), for those that put several ranks into
 * one. */
#include "analyse/profile.h"

/* Where the text goes. */
typedef struct {
    int (*put)(void *user, const char *text, size_t size);
    void *user;
} ProfileSink;
int profile_put_output(void *output, const char *text, size_t size); /* user: an Output */

/* The process of one rank. */
typedef struct {
    int rank;
    const char *name, *label; /* label NULL: none */
    int64_t origin_ns;        /* of the file, by this rank's clock */
    bool has_comm;            /* a lane of communication */
    bool first;               /* in the file */
} ProfileLanes;

/* In this order, the lanes as often as there are ranks. */
int profile_put_head(ProfileSink sink);
int profile_put_lanes(const Profile *profile, ProfileCeilings ceilings, ProfileLanes lanes,
                      ProfileSink sink);
int profile_put_tail(ProfileSink sink);
