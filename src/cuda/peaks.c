/* Stated peaks: dense tensor-core rates with f32 sums, from the makers' data sheets (those with
 * "sparsity" are twice as high and no dense product reaches them). A GPU that is not here, or
 * has 0, is measured instead. */
#include "cuda/internal.h"

#include <string.h>

typedef struct {
    const char *name; /* part of what the driver calls it; the first that fits counts */
    double bf16_tflops;
} Peak;

static const Peak peaks[] = {
    {"GB200", 2500},       {"B200", 2250},     {"GH200", 990},   {"H200 NVL", 835}, {"H200", 989},
    {"H100 PCIe", 756},    {"H100 NVL", 835},  {"H100", 989},    {"H800", 989},     {"H20", 148},
    {"A100", 312},         {"A800", 312},      {"A30", 165},     {"A40", 150},      {"A10G", 0},
    {"A10", 125},          {"RTX A6000", 155}, {"L40S", 362},    {"L40", 181},      {"L4", 121},
    {"RTX 6000 Ada", 364}, {"RTX 4090", 165},  {"RTX 3090", 71},
};

double cuda_peak_flops(const char *name, DType dtype)
{
    for (size_t i = 0; dtype == DT_BF16 && i < sizeof peaks / sizeof peaks[0]; i++) {
        if (strstr(name, peaks[i].name) != NULL) {
            return peaks[i].bf16_tflops * 1e12;
        }
    }
    return 0;
}
