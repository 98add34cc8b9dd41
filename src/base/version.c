#include "base/version.h"

/* The build defines these for this file alone (cmake/Version.cmake). */
#ifndef PACER_VERSION
#define PACER_VERSION "unknown"
#define PACER_FEATURES "unknown"
#define PACER_COMMIT "unknown"
#endif

const char *version_string(void)
{
    return PACER_VERSION;
}

const char *version_commit(void)
{
    return PACER_COMMIT;
}

const char *version_build_features(void)
{
    return PACER_FEATURES;
}
