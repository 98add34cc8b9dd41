/* The list of shapes, odd ones on purpose: single rows and columns, widths beside powers of two,
 * sequences beside tile sizes, groups of heads, and one or two shapes of real models. Each shape is
 * taken with every choice the op depends on. */
#include "support/op_spec.h"

#include "base/assert.h"

/* N, C, O (or V), rows of a sequence. */
typedef struct {
    int64_t rows, width, outs, seq;
} Plain;

/* clang-format off */
static const Plain embed_shapes[] = {
    {1, 5, 11, 1}, {14, 24, 97, 7}, {66, 67, 11, 33}, {34, 64, 1003, 17}, {4, 1, 3, 2},
    {260, 192, 97, 130},
};

#define LINEAR_SHAPES \
    {1, 5, 3, 0}, {7, 24, 67, 0}, {33, 67, 24, 0}, {17, 1, 1, 0}, {65, 64, 130, 0}, \
    {64, 512, 160, 0}

static const Plain linear_shapes[] = {LINEAR_SHAPES};

/* Forward only: so few rows that kernels of their own may make them, and one more; inputs beside
 * what their warps take at once, with rows that begin at 16 bytes in bf16, in f32 alone, or not;
 * outputs beside what a block has, some as many as those of a vocabulary. */
#define FEW_ROWS_SHAPES \
    {1, 776, 50, 0}, {2, 1552, 13, 0}, {3, 264, 33, 0}, {4, 132, 9, 0}, {5, 40, 7, 0}, \
    {8, 3080, 21, 0}, {9, 24, 66, 0}, {16, 776, 17, 0}, {17, 136, 67, 0}, {25, 772, 9, 0}, \
    {32, 72, 41, 0}, {33, 72, 41, 0}, {1, 40, 8201, 0}, {2, 12, 8193, 0}, {7, 8, 8195, 0}, \
    {19, 24, 8201, 0}
static const Plain linear_forward_shapes[] = {LINEAR_SHAPES, FEW_ROWS_SHAPES};

/* The last has a result of a million elements and more, which a fused kernel may make in blocks. */
static const Plain linear_gelu_forward_shapes[] = {LINEAR_SHAPES, FEW_ROWS_SHAPES,
                                                   {1030, 7, 1031, 0}};
static const Plain linear_gelu_backward_shapes[] = {LINEAR_SHAPES, {1030, 1031, 7, 0}};

static const Plain row_shapes[] = {
    {1, 5, 0, 0}, {7, 24, 0, 0}, {33, 67, 0, 0}, {130, 1, 0, 0}, {2, 1003, 0, 0}, {130, 512, 0, 0},
    {5000, 24, 0, 0},
};

static const Plain vocab_shapes[] = {
    {1, 0, 11, 0}, {7, 0, 97, 0}, {33, 0, 1003, 0}, {130, 0, 2, 0}, {17, 0, 4096, 0},
    {2200, 0, 97, 0}, {3, 0, 130001, 0},
};

static const Plain flat_shapes[] = {
    {1, 0, 0, 0}, {7, 0, 0, 0}, {33, 0, 0, 0}, {1003, 0, 0, 0}, {4096, 0, 0, 0}, {100003, 0, 0, 0},
};
/* clang-format on */

typedef struct {
    HeadShape heads;
    double scale; /* large: one key takes almost all of a query's weight, and scores pass 88 */
} Heads;

static const Heads head_shapes[] = {
    {HEADS(1, 1, 1, 1, 4), 1},    {HEADS(3, 2, 3, 1, 6), 1},    {HEADS(2, 17, 4, 2, 32), 1},
    {HEADS(2, 65, 2, 2, 64), 1},  {HEADS(1, 130, 3, 1, 80), 1}, {HEADS(1, 64, 4, 4, 32), 1},
    {HEADS(1, 33, 2, 1, 64), 6},  {HEADS(2, 70, 3, 3, 96), 1},  {HEADS(1, 129, 4, 2, 128), 1},
    {HEADS(1, 257, 2, 1, 32), 1}, {HEADS(1, 129, 1, 1, 64), 3}, {HEADS(1, 200, 2, 2, 64), 1},
};

/* Forward only, after the above: beside the tiles of a GPU's kernels for wide heads, several
 * sequences and groups of heads, and sequences that take more than one block of queries. */
static const Heads forward_shapes[] = {
    {HEADS(3, 1, 2, 1, 64), 1},    {HEADS(2, 63, 2, 1, 128), 1},  {HEADS(2, 64, 4, 2, 64), 1},
    {HEADS(2, 127, 2, 1, 64), 1},  {HEADS(1, 128, 2, 1, 128), 1}, {HEADS(1, 180, 2, 1, 64), 6},
    {HEADS(1, 200, 2, 1, 128), 3}, {HEADS(1, 385, 2, 1, 64), 1},  {HEADS(1, 385, 1, 1, 128), 1},
};

/* Of which a query sees some: windows of one key, below, at and beyond the sequence, beside tiles
 * of queries and of keys; other scales; caps that most scores are far below and that most pass;
 * documents of a token and longer, and all of it at once. rope reads the documents alone. */
static const Heads seeing_shapes[] = {
    {SEES(1, 1, 1, 1, 4, 1, 0, 0, 1), 1},           {SEES(3, 7, 3, 1, 6, 2, 0.7, 0, 0), 1},
    {SEES(3, 7, 3, 1, 6, 0, 0, 1.5, 1), 2},         {SEES(2, 17, 4, 2, 32, 5, 0, 0, 0), 1},
    {SEES(2, 65, 2, 2, 64, 0, 0, 0, 1), 1},         {SEES(1, 130, 3, 1, 80, 33, 0, 0, 0), 1},
    {SEES(1, 130, 2, 1, 64, 0, 0, 7.5, 0), 3},      {SEES(2, 70, 3, 3, 96, 1, 0, 0, 0), 1},
    {SEES(1, 129, 4, 2, 128, 64, 0.11, 20, 1), 1},  {SEES(1, 257, 2, 1, 32, 100, 0, 0, 1), 1},
    {SEES(1, 200, 2, 2, 64, 200, 0.125, 50, 0), 1}, {SEES(1, 200, 1, 1, 64, 1000, 0, 0, 0), 1},
    {SEES(2, 97, 2, 1, 64, 48, 0, 3, 1), 3},        {SEES(1, 300, 1, 1, 64, 130, 0, 0, 0), 1},
    {SEES(1, 257, 1, 1, 128, 63, 0, 30, 0), 1},     {SEES(2, 193, 2, 1, 128, 70, 0, 0, 1), 1},
    {SEES(1, 385, 2, 1, 64, 150, 0, 0, 1), 1},      {SEES(1, 385, 1, 1, 128, 0, 0, 0, 1), 1},
    {SEES(1, 321, 1, 1, 64, 64, 0, 0, 0), 1},       {SEES(1, 330, 1, 1, 64, 65, 0, 0, 1), 1},
    {SEES(1, 257, 1, 1, 64, 127, 0, 0, 0), 1},      {SEES(1, 320, 1, 1, 64, 128, 0, 20, 0), 1},
    {SEES(1, 449, 1, 1, 64, 193, 0, 0, 0), 1},      {SEES(1, 321, 1, 1, 128, 64, 0, 0, 0), 1},
    {SEES(1, 300, 1, 1, 128, 65, 0, 0, 1), 1},      {SEES(1, 320, 1, 1, 128, 191, 0, 0, 0), 1},
};

/* Backward only: the same in fewer numbers, with a sequence of three blocks of keys. */
static const Heads backward_shapes[] = {
    {HEADS(2, 63, 2, 1, 128), 1},
    {HEADS(1, 260, 1, 1, 64), 1},
};

/* Both kinds with every length of a mini-batch that matters: 1, one that divides nothing, those
 * of real layers; sequences shorter than one, of whole ones, with a rest, and of so many that
 * rings of them in shared memory come round; few sequences and heads, and more. The wide heads are
 * those of real models, the widths of rows with and without padding behind 3HD + H. */
typedef struct {
    TttShape shape; /* width: the padding alone; base_rate and eps are filled in */
    double inner;
    int64_t clamped;
} Inner;

static const Inner ttt_shapes[] = {
    {{TTT_LINEAR, 1, 3, 1, 4, 16, 0, 0, 0}, 0.3, 0},
    {{TTT_LINEAR, 3, 9, 2, 6, 4, 3, 0, 0}, 0.3, 4},
    {{TTT_LINEAR, 2, 11, 3, 8, 5, 0, 0, 0}, 0.3, 2},
    {{TTT_LINEAR, 1, 5, 2, 4, 1, 2, 0, 0}, 0.3, 0},
    {{TTT_LINEAR, 2, 16, 1, 8, 16, 7, 0, 0}, 0.3, 7},
    {{TTT_LINEAR, 1, 37, 1, 64, 16, 7, 0, 0}, 0.1, 0},
    {{TTT_LINEAR, 2, 20, 3, 64, 16, 0, 0, 0}, 0.02, 3},
    {{TTT_LINEAR, 1, 128, 1, 64, 16, 7, 0, 0}, 0.02, 0},
    {{TTT_LINEAR, 1, 32, 4, 64, 16, 4, 0, 0}, 0.05, 0},
    {{TTT_LINEAR, 2, 20, 1, 96, 16, 7, 0, 0}, 0.02, 0},
    {{TTT_LINEAR, 1, 32, 2, 96, 16, 0, 0, 0}, 0.1, 16},
    {{TTT_LINEAR, 1, 331, 2, 64, 16, 0, 0, 0}, 0.02, 0},
    {{TTT_LINEAR, 2, 131, 1, 96, 13, 7, 0, 0}, 0.02, 0},
    {{TTT_LINEAR, 1, 230, 3, 32, 15, 3, 0, 0}, 0.05, 3},
    {{TTT_LINEAR, 5, 43, 24, 64, 4, 0, 0, 0}, 0.02, 0},
    {{TTT_MLP, 1, 3, 1, 4, 16, 0, 0, 0}, 0.3, 0},
    {{TTT_MLP, 3, 9, 2, 6, 4, 3, 0, 0}, 0.3, 4},
    {{TTT_MLP, 2, 11, 3, 8, 5, 0, 0, 0}, 0.3, 2},
    {{TTT_MLP, 1, 3, 2, 4, 1, 2, 0, 0}, 0.3, 0},
    {{TTT_MLP, 1, 16, 1, 8, 16, 7, 0, 0}, 0.3, 7},
    {{TTT_MLP, 1, 37, 1, 64, 16, 7, 0, 0}, 0.05, 0},
    {{TTT_MLP, 1, 16, 2, 64, 16, 6, 0, 0}, 0.1, 0},
    {{TTT_MLP, 2, 103, 1, 64, 16, 0, 0, 0}, 0.05, 0},
    {{TTT_MLP, 1, 75, 2, 64, 12, 6, 0, 0}, 0.1, 2},
    {{TTT_MLP, 1, 20, 1, 96, 16, 7, 0, 0}, 0.05, 0},
};

/* Caches: of one sequence and of several, positions at both ends and between, groups of heads,
 * widths of whole vectors, narrow to wide, and of none, and more positions than one part of a
 * kernel that splits them, or than all the parts that may be joined at once. seq is the position +
 * 1 of a step, the tokens of a fill, whose batch divides the sequences. */
typedef struct {
    HeadShape heads;
    int64_t sequences, context;
    double scale;
} Cached;

static const Cached step_shapes[] = {
    {HEADS(1, 1, 3, 1, 5), 1, 7, 1},
    {HEADS(3, 2, 3, 1, 5), 3, 7, 1},
    {HEADS(3, 7, 3, 3, 5), 3, 7, 1},
    {HEADS(1, 1, 3, 1, 64), 1, 33, 1},
    {HEADS(3, 2, 3, 1, 64), 3, 33, 1},
    {HEADS(1, 17, 4, 2, 64), 1, 33, 1},
    {HEADS(3, 33, 3, 1, 64), 3, 33, 1},
    {HEADS(1, 4, 2, 1, 80), 1, 7, 1},
    {HEADS(3, 33, 3, 1, 80), 3, 33, 1},
    {HEADS(2, 129, 2, 1, 128), 2, 200, 1},
    {HEADS(1, 256, 4, 4, 6), 1, 257, 1},
    {HEADS(1, 700, 2, 1, 64), 1, 1030, 6},
    {HEADS(1, 1030, 1, 1, 96), 1, 1030, 1},
    {HEADS(1, 300, 2, 1, 256), 1, 310, 1},
    {HEADS(2, 131, 4, 2, 32), 2, 140, 1},
    {HEADS(1, 21, 1, 1, 260), 1, 40, 1},
    {HEADS(70, 150, 4, 2, 8), 70, 160, 1},
    {HEADS(1, 9000, 2, 1, 8), 1, 9001, 1},
    {SEES(3, 2, 3, 1, 6, 3, 0.6, 0, 0), 3, 7, 1},
    {SEES(1, 17, 4, 2, 64, 1, 0, 0, 0), 1, 33, 1},
    {SEES(2, 129, 2, 1, 128, 50, 0, 20, 0), 2, 200, 1},
    {SEES(1, 700, 2, 1, 64, 257, 0, 4, 0), 1, 1030, 3},
    {SEES(1, 300, 2, 2, 80, 300, 0.05, 0, 0), 1, 400, 1},
    {SEES(1, 301, 2, 1, 80, 1000, 0, 0, 0), 1, 400, 1},
};

static const Cached fill_shapes[] = {
    {HEADS(1, 1, 3, 1, 5), 1, 7, 1},     {HEADS(1, 7, 3, 1, 5), 3, 7, 1},
    {HEADS(3, 4, 3, 3, 64), 3, 33, 1},   {HEADS(2, 33, 4, 2, 80), 6, 33, 1},
    {HEADS(1, 40, 2, 1, 64), 1, 300, 1},
};

/* Among the values that are capped: some hardly change, others become the cap. */
#define XENT_CAP 60
#define SCALE_CAP 1.5

#define LENGTH(array) ((int)(sizeof(array) / sizeof((array)[0])))

static bool heads_of(OpId op, int i, OpCase *k)
{
    const Heads *shape = NULL;
    int more = i - LENGTH(head_shapes), rest = more - LENGTH(seeing_shapes);
    if (more < 0) {
        shape = &head_shapes[i];
    } else if (rest < 0) {
        shape = &seeing_shapes[more];
    } else if (op == OP_ATTENTION_FORWARD && rest < LENGTH(forward_shapes)) {
        shape = &forward_shapes[rest];
    } else if (op == OP_ATTENTION_BACKWARD && rest < LENGTH(backward_shapes)) {
        shape = &backward_shapes[rest];
    }
    if (shape != NULL) {
        *k = (OpCase){.op = op, .heads = shape->heads, .scale = shape->scale};
    }
    return shape != NULL;
}

static bool ttt_of(OpId op, int i, OpCase *k)
{
    if (i >= LENGTH(ttt_shapes)) {
        return false;
    }
    const Inner *inner = &ttt_shapes[i];
    *k = (OpCase){.op = op, .ttt = inner->shape, .inner = inner->inner, .clamped = inner->clamped};
    k->ttt.width += 3 * k->ttt.heads * k->ttt.head_dim + k->ttt.heads;
    k->ttt.base_rate = k->ttt.kind == TTT_MLP ? 0.1 : 1;
    k->ttt.eps = 1e-6;
    return true;
}

static bool cached_of(OpId op, int i, OpCase *k)
{
    bool step = op == OP_ATTENTION_STEP;
    const Cached *list = step ? step_shapes : fill_shapes;
    if (i >= (step ? LENGTH(step_shapes) : LENGTH(fill_shapes))) {
        return false;
    }
    *k = (OpCase){.op = op,
                  .heads = list[i].heads,
                  .sequences = list[i].sequences,
                  .context = list[i].context,
                  .scale = list[i].scale};
    return true;
}

/* Sizes of shape number i, or false when the op has no more. */
static bool shape_of(OpId op, int i, OpCase *k)
{
    const Plain *list = row_shapes;
    int count = LENGTH(row_shapes);
    switch (op) {
    case OP_EMBED_FORWARD:
    case OP_EMBED_BACKWARD:
    case OP_EMBED_STEP:
        list = embed_shapes;
        count = LENGTH(embed_shapes);
        break;
    case OP_LINEAR_FORWARD:
        list = linear_forward_shapes;
        count = LENGTH(linear_forward_shapes);
        break;
    case OP_LINEAR_BACKWARD_INPUT:
    case OP_LINEAR_BACKWARD_WEIGHT:
        list = linear_shapes;
        count = LENGTH(linear_shapes);
        break;
    case OP_LINEAR_GELU_FORWARD:
        list = linear_gelu_forward_shapes;
        count = LENGTH(linear_gelu_forward_shapes);
        break;
    case OP_LINEAR_GELU_BACKWARD_INPUT:
        list = linear_gelu_backward_shapes;
        count = LENGTH(linear_gelu_backward_shapes);
        break;
    case OP_XENT:
        list = vocab_shapes;
        count = LENGTH(vocab_shapes);
        break;
    case OP_SUM:
    case OP_SUM_SQUARES:
    case OP_ADAMW:
    case OP_SGD:
        list = flat_shapes;
        count = LENGTH(flat_shapes);
        break;
    case OP_NORM_PIECES:
    case OP_HEAD_NORM_FORWARD:
    case OP_HEAD_NORM_BACKWARD:
    case OP_ROPE:
    case OP_ATTENTION_FORWARD:
    case OP_ATTENTION_BACKWARD:
        return heads_of(op, i, k);
    case OP_TTT_FORWARD:
    case OP_TTT_BACKWARD:
    case OP_TTT_START:
    case OP_TTT_STEP:
        return ttt_of(op, i, k);
    case OP_ATTENTION_FILL:
    case OP_ATTENTION_STEP:
        return cached_of(op, i, k);
    default:
        break;
    }
    if (i < count) {
        *k = (OpCase){.op = op,
                      .rows = list[i].rows,
                      .width = list[i].width,
                      .outs = list[i].outs,
                      .seq = list[i].seq};
    }
    return i < count;
}

/* One choice of the op for this shape: a bit per thing that can vary, and the alias. False if the
 * op does not have it. */
static bool choose(const OpSpec *spec, unsigned bits, int alias, OpCase *k)
{
    if ((bits & ~spec->varies) != 0 || (bits & VARY_GELU && bits & VARY_RELU2)) {
        return false;
    }
    k->option = (bits & VARY_OPTION) != 0;
    k->flag = (bits & VARY_FLAG) != 0;
    k->halves = (bits & VARY_HALVES) != 0;
    k->cap = (bits & VARY_CAP) == 0 ? 0 : k->op == OP_XENT ? XENT_CAP : SCALE_CAP;
    k->mode = (bits & VARY_MODE) != 0 ? MODE_ADD : MODE_SET;
    k->mode2 = (bits & VARY_MODE2) != 0 ? MODE_ADD : MODE_SET;
    k->norm = (bits & VARY_NORM) != 0 ? NORM_RMS : NORM_LAYER;
    k->act = bits & VARY_GELU ? ACT_GELU : bits & VARY_RELU2 ? ACT_RELU2 : ACT_SILU;
    k->attention = (bits & VARY_ATTENTION) != 0 ? ATTENTION_FLASH : ATTENTION_NAIVE;
    k->alias = alias;
    if (alias == 0) {
        return true;
    }
    /* An output may be its input only where it is assigned. */
    int out = spec->alias[alias - 1].out;
    return out > 0 && !op_arg_reads_old(&spec->arg[out], k);
}

/* Leaves out choices that make no difference, and takes the large results once. */
static bool is_worthwhile(const OpCase *k)
{
    if (k->op == OP_EMBED_BACKWARD && !k->option && k->mode2 == MODE_ADD) {
        return false;
    }
    if ((k->op == OP_EMBED_BACKWARD || k->op == OP_EMBED_FORWARD) && !k->option && k->flag) {
        return false; /* documents change positions alone */
    }
    if (k->op == OP_ATTENTION_STEP && k->option && k->heads.head_dim % 2 != 0) {
        return false; /* rope turns pairs */
    }
    if (k->op == OP_TTT_BACKWARD && op_case_work(k) > 1e6 && k->mode == MODE_ADD) {
        return false;
    }
    return k->rows < 1000 || k->width == 0 || (k->alias == 0 && !k->option);
}

int op_cases(OpId op, OpCase cases[OP_CASES_MAX])
{
    const OpSpec *spec = op_spec(op);
    int count = 0;
    OpCase k;
    for (int shape = 0; shape_of(op, shape, &k); shape++) {
        for (unsigned bits = 0; bits <= spec->varies; bits++) {
            for (int alias = 0; alias <= OP_ALIASES_MAX; alias++) {
                if (choose(spec, bits, alias, &k) && is_worthwhile(&k)) {
                    PACER_ASSERT(count < OP_CASES_MAX, "more than %d cases", OP_CASES_MAX);
                    cases[count++] = k;
                }
            }
        }
    }
    return count;
}
