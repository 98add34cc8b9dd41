/* The tables of rotary positions: cosines and sines of each pair of a head at each position, with
 * the ways to stretch them over longer texts (linear, Llama 3, YaRN). */
#include "model/model.h"

#include <math.h>

#define PI 3.14159265358979323846

Tensor model_rope_shape(const Model *model)
{
    const ModelSpec *s = &model->spec;
    if (s->rope_base <= 0) {
        return TENSOR_NONE;
    }
    int64_t positions = s->mixer == MIXER_TTT ? s->mini : s->context;
    int64_t tables = s->rope_local_base > 0 ? 2 : 1;
    return tensor_2d(NULL, dtype_accumulate(model->act), tables * positions, s->head_dim);
}

Tensor model_rope(const Model *model, int layer)
{
    if (!(model->spec.rope_local_base > 0)) {
        return model->rope;
    }
    int64_t positions = model->rope.dim[0] / 2;
    return tensor_rows(model->rope, spec_windowed(&model->spec, layer) ? positions : 0, positions);
}

/* How much of pair i's angle stays, the rest being divided by rope_factor. Llama 3 goes by the
 * turns that it makes within rope_context: none below rope_low, all above rope_high, in between a
 * line. YaRN draws the line over the pairs, between the whole ones that make so many turns. */
static double rope_kept(const ModelSpec *s, int64_t i, double angle)
{
    double kept = 0;
    if (s->rope_scaling == ROPE_LLAMA3) {
        double turns = (double)s->rope_context * angle / (2 * PI);
        kept = (turns - s->rope_low) / (s->rope_high - s->rope_low);
    } else if (s->rope_scaling == ROPE_YARN) {
        double per_log = (double)s->head_dim / (2 * log(s->rope_base));
        double period = (double)s->rope_context / (2 * PI);
        double first = fmax(floor(per_log * log(period / s->rope_high)), 0);
        double last = fmin(ceil(per_log * log(period / s->rope_low)), (double)s->head_dim - 1);
        last += last == first ? 0.001 : 0;
        kept = 1 - ((double)i - first) / (last - first);
    }
    return kept < 0 ? 0 : kept > 1 ? 1 : kept;
}

double model_rope_angle(const ModelSpec *s, int64_t i, bool local)
{
    double base = local ? s->rope_local_base : s->rope_base;
    double angle = pow(base, -2.0 * (double)i / (double)s->head_dim);
    if (s->rope_scaling == ROPE_PLAIN || local) {
        return angle;
    }
    double kept = rope_kept(s, i, angle);
    return (1 - kept) * angle / s->rope_factor + kept * angle;
}

static double rope_gain(const ModelSpec *s)
{
    return s->rope_scaling != ROPE_YARN ? 1
           : s->rope_gain > 0           ? s->rope_gain
                                        : 1 + 0.1 * log(s->rope_factor);
}

void model_fill_rope(const Model *model, Tensor host_rope)
{
    const ModelSpec *s = &model->spec;
    int64_t width = s->head_dim, half = width / 2;
    int64_t positions = host_rope.dim[0] / (s->rope_local_base > 0 ? 2 : 1);
    for (int64_t t = 0; t < host_rope.dim[0]; t++) {
        bool local = t >= positions;
        double gain = local ? 1 : rope_gain(s);
        for (int64_t i = 0; i < half; i++) {
            double angle = (double)(t % positions) * model_rope_angle(s, i, local);
            if (host_rope.dtype == DT_F64) {
                double *row = (double *)host_rope.data + t * width;
                row[i] = gain * cos(angle);
                row[half + i] = gain * sin(angle);
            } else {
                float *row = (float *)host_rope.data + t * width;
                row[i] = (float)(gain * cos(angle));
                row[half + i] = (float)(gain * sin(angle));
            }
        }
    }
}
