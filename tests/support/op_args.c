/* What the table of op_spec.c says of one case: which arguments are given and read, their
 * shapes, and the case in words. */
#include "support/op_spec.h"

#include "base/assert.h"

#include <stdio.h>
#include <string.h>

int op_spec_count(const OpSpec *spec)
{
    int count = 0;
    while (count < OP_ARGS_MAX && spec->arg[count].name != NULL) {
        count++;
    }
    return count;
}

int op_spec_find(const OpSpec *spec, const char *name, const OpCase *k)
{
    for (int i = 0; i < op_spec_count(spec); i++) {
        if (strcmp(spec->arg[i].name, name) == 0 && op_arg_given(&spec->arg[i], k)) {
            return i;
        }
    }
    return -1;
}

bool op_arg_given(const OpArg *arg, const OpCase *k)
{
    switch (arg->when) {
    case WHEN_ALWAYS:
        return true;
    case WHEN_OPTION:
        return k->option;
    case WHEN_NO_OPTION:
        return !k->option;
    case WHEN_LAYER_NORM:
        return k->norm == NORM_LAYER;
    case WHEN_NAIVE:
        return k->attention == ATTENTION_NAIVE;
    case WHEN_FLASH:
        return k->attention != ATTENTION_NAIVE;
    case WHEN_TTT_MLP:
        return k->ttt.kind == TTT_MLP;
    case WHEN_STARTS:
        return tensor_given(k->heads.starts);
    case WHEN_FLAG:
        return k->flag;
    }
    return false;
}

bool op_arg_written(const OpArg *arg)
{
    return arg->use != USE_IN && arg->use != USE_SPENT;
}

bool op_arg_reads_old(const OpArg *arg, const OpCase *k)
{
    switch (arg->use) {
    case USE_IN:
    case USE_SPENT:
    case USE_UPDATE:
        return true;
    case USE_OUT:
        return false;
    case USE_BY_MODE:
        return k->mode == MODE_ADD;
    case USE_BY_MODE2:
        return k->mode2 == MODE_ADD;
    }
    return false;
}

static HeadShape heads_of(const OpCase *k)
{
    const TttShape *t = &k->ttt;
    return t->batch == 0 ? k->heads : head_shape(t->batch, t->seq, t->heads, t->heads, t->head_dim);
}

static int64_t dimension(char letter, const OpCase *k)
{
    HeadShape s = heads_of(k);
    switch (letter) {
    case 'N':
        return k->rows;
    case 'C':
        return k->width;
    case 'U':
        return 2 * k->width;
    case 'O':
        return k->outs;
    case 'P':
        return k->seq + 3;
    case 'B':
        return s.batch;
    case 'H':
        return s.heads;
    case 'T':
        return s.seq;
    case 'D':
        return s.head_dim;
    case 'S':
        return s.seq + 2;
    case 'R':
        return s.batch * s.seq;
    case 'A':
        return s.heads * s.head_dim;
    case 'Q':
        return (s.heads + 2 * s.kv_heads) * s.head_dim;
    case 'Y':
        return HYPER_COUNT;
    case 'W':
        return k->ttt.width;
    case 'M':
        return k->ttt.mini;
    case 'F':
        return ttt_inner(&k->ttt);
    case 'K':
        return s.seq < k->ttt.mini ? s.seq : k->ttt.mini;
    case 'E':
        return s.batch * s.heads;
    case 'Z':
        return 2 * ttt_state(&k->ttt);
    case 'J':
        return k->sequences;
    case 'X':
        return 2 * s.kv_heads * k->context;
    case 'L':
        return k->context;
    case '1':
        return 1;
    case '2':
        return 2;
    }
    PACER_ASSERT(false, "no dimension '%c'", letter);
}

static DType type_under(ArgType type, const OpCase *k, DType act)
{
    switch (type) {
    case TYPE_ACT:
        return act;
    case TYPE_ACC:
        return dtype_accumulate(act);
    case TYPE_F32:
        return DT_F32;
    case TYPE_BF16:
        return DT_BF16;
    case TYPE_I32:
        return DT_I32;
    case TYPE_STATE:
        return k->halves ? DT_BF16 : dtype_accumulate(act);
    }
    return act;
}

Tensor op_arg_tensor(const OpArg *arg, const OpCase *k, DType act)
{
    if (!op_arg_given(arg, k)) {
        return TENSOR_NONE;
    }
    Tensor t = {.dtype = type_under(arg->type, k, act), .rank = (int)strlen(arg->shape)};
    for (int i = 0; i < t.rank; i++) {
        t.dim[i] = dimension(arg->shape[i], k);
    }
    return t;
}

int64_t op_case_classes(const OpCase *k)
{
    return !k->flag ? k->outs : k->outs > 64 ? k->outs - 41 : k->outs - 1;
}

static double ttt_work(const OpCase *k)
{
    const TttShape *s = &k->ttt;
    double d = (double)s->head_dim, m = (double)s->mini;
    double head = s->kind == TTT_MLP ? 28 * d * d + 10 * m * d : 3 * d * d + 2 * m * d;
    bool single = k->op == OP_TTT_START || k->op == OP_TTT_STEP;
    return (double)(s->batch * s->heads * (single ? 1 : s->seq)) * head;
}

double op_case_work(const OpCase *k)
{
    if (k->ttt.batch > 0) {
        return ttt_work(k);
    }
    HeadShape s = k->heads;
    double width = (double)(k->width > 0 ? k->width : 1),
           outs = (double)(k->outs > 0 ? k->outs : 1);
    double reach = (double)(k->context > 0 ? 1 : s.seq); /* queries of a sequence */
    return (double)k->rows * width * outs +
           (double)(s.batch * s.heads * s.seq) * reach * (double)s.head_dim;
}

const char *op_case_label(const OpCase *k, char text[OP_LABEL_SIZE])
{
    unsigned varies = op_spec(k->op)->varies;
    int used = snprintf(text, OP_LABEL_SIZE, "%s", op_name(k->op));
    if (k->ttt.batch > 0) {
        const TttShape *s = &k->ttt;
        used += snprintf(text + used, (size_t)(OP_LABEL_SIZE - used),
                         " %s B=%d T=%d H=%d D=%d m=%d width=%d inner=%g",
                         s->kind == TTT_MLP ? "mlp" : "linear", (int)s->batch, (int)s->seq,
                         (int)s->heads, (int)s->head_dim, (int)s->mini, (int)s->width, k->inner);
    } else if (k->heads.batch > 0) {
        HeadShape s = k->heads;
        used += snprintf(text + used, (size_t)(OP_LABEL_SIZE - used), " B=%d T=%d H=%d G=%d D=%d",
                         (int)s.batch, (int)s.seq, (int)s.heads, (int)s.kv_heads, (int)s.head_dim);
        used += snprintf(text + used, (size_t)(OP_LABEL_SIZE - used), "%s",
                         tensor_given(s.starts) ? " documents" : "");
        if (s.window > 0 || s.scale > 0 || s.cap > 0) {
            used += snprintf(text + used, (size_t)(OP_LABEL_SIZE - used),
                             " window=%d scale=%g cap=%g", (int)s.window, s.scale, s.cap);
        }
        if (k->context > 0) {
            used += snprintf(text + used, (size_t)(OP_LABEL_SIZE - used), " S=%d context=%d",
                             (int)k->sequences, (int)k->context);
        }
    } else {
        used += snprintf(text + used, (size_t)(OP_LABEL_SIZE - used), " N=%d C=%d O=%d T=%d",
                         (int)k->rows, (int)k->width, (int)k->outs, (int)k->seq);
    }
    snprintf(text + used, (size_t)(OP_LABEL_SIZE - used), "%s%s%s%s%s%s%s%s%s",
             k->halves ? " bf16 state" : "", k->option ? " option" : "", k->flag ? " flag" : "",
             k->mode == MODE_ADD ? " add" : "", k->mode2 == MODE_ADD ? " add2" : "",
             (varies & VARY_NORM) == 0 ? ""
             : k->norm == NORM_RMS     ? " rms"
                                       : " layer",
             (varies & VARY_GELU) == 0 ? ""
             : k->act == ACT_GELU      ? " gelu"
             : k->act == ACT_RELU2     ? " relu2"
                                       : " silu",
             (varies & VARY_ATTENTION) == 0    ? ""
             : k->attention == ATTENTION_NAIVE ? " naive"
                                               : " flash",
             k->alias == 0   ? ""
             : k->alias == 1 ? " alias1"
                             : " alias2");
    return text;
}
