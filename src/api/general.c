/* What does not belong to a handle: versions, the message of a failure, memory, the log. */
#include "api/internal.h"

#include "base/err.h"
#include "base/log.h"
#include "base/version.h"

#include <stdlib.h>

_Static_assert((int)PACER_FAILED == ERR_FAILED && (int)PACER_INPUT == ERR_INPUT &&
                   (int)PACER_MEMORY == ERR_MEMORY && (int)PACER_CHECK == ERR_CHECK &&
                   (int)PACER_STOPPED == ERR_INTERRUPTED && (int)PACER_TERMINATED == ERR_TERMINATED,
               "the codes of pacer.h are those of base/err.h");
_Static_assert((int)PACER_LOG_NONE == LOG_NONE && (int)PACER_LOG_ERRORS == LOG_ERROR &&
                   (int)PACER_LOG_WARNINGS == LOG_WARN && (int)PACER_LOG_INFO == LOG_INFO &&
                   (int)PACER_LOG_DEBUG == LOG_DEBUG,
               "the levels of pacer.h are those of base/log.h");

void api_enter(void)
{
    log_begin_silent();
}

const char *pacer_version(void)
{
    return version_string();
}

int pacer_api_version(void)
{
    return PACER_API_VERSION;
}

const char *pacer_error(void)
{
    return err_message();
}

void pacer_free(void *memory)
{
    free(memory);
}

void pacer_log(int level)
{
    int lowest = level < LOG_NONE ? LOG_NONE : level;
    log_setup((LogLevel)(lowest > LOG_DEBUG ? LOG_DEBUG : lowest), 0, 1);
}
