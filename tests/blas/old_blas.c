/* An OpenBLAS that is older than the processor, preloaded by test_restart_settings.sh: unless it is
 * told which kernels to take, it says that it took those of 2004. */
#include <stdlib.h>

char *openblas_get_corename(void);

char *openblas_get_corename(void)
{
    static char old[] = "Prescott", told[] = "SkylakeX";
    return getenv("OPENBLAS_CORETYPE") == NULL ? old : told;
}
