#include "model/model.h"

#include "base/assert.h"
#include "base/mem.h"
#include "model/linear.h"
#include "model/rooms.h"
#include "tensor/half.h"

#include <stdlib.h>
#include <string.h>

/* Logits are made for as many rows at a time as fit in the backend's head_bytes: small enough to
 * be no burden beside the activations, large enough that the head's products run at full speed. */
#define HEAD_CHUNK_ROWS 128 /* chunks have a multiple of it */

/* Which parts each layer has. */
static void choose_parts(Model *model)
{
    static const BlockPart *const mixers[] = {
        [MIXER_ATTENTION] = &part_attention, [MIXER_TTT] = &part_ttt};
    const ModelSpec *s = &model->spec;
    model->layers = mem_zalloc((size_t)s->layers, sizeof *model->layers);
    for (int64_t l = 0; l < s->layers; l++) {
        model->layers[l].mixer = mixers[s->mixer];
        model->layers[l].ffn = &part_ffn;
    }
}

static void declare_block(Model *model, int layer)
{
    const ModelSpec *s = &model->spec;
    const TensorNames *names = tensor_names(s);
    Layer *l = &model->layers[layer];
    norm_declare(&model->params, &l->norm1, names->norm1, layer, s->norm, s->width);
    l->mixer->declare(model, layer);
    if (s->post_norm) {
        norm_declare(&model->params, &l->post1, names->post1, layer, s->norm, s->width);
    }
    norm_declare(&model->params, &l->norm2, names->norm2, layer, s->norm, s->width);
    l->ffn->declare(model, layer);
    if (s->post_norm) {
        norm_declare(&model->params, &l->post2, names->post2, layer, s->norm, s->width);
    }
}

/* A matrix with a row for each token of the vocabulary, padded to a multiple of row_align. */
static void declare_vocab(Model *model, Linear *l, const char *name, int64_t row_align)
{
    const ModelSpec *s = &model->spec;
    linear_declare(&model->params, l, name, -1, s->vocab, s->width, 0, false);
    model->params.rows[l->weight.first].spare_rows = (row_align - s->vocab % row_align) % row_align;
}

void model_init(Model *model, const ModelSpec *spec, DType act, int64_t row_align)
{
    bool quantised = act == DT_E4M3;
    *model = (Model){.spec = *spec, .act = dtype_act(act), .quantised = quantised, .row_head = -1};
    row_align = quantised && row_align % 16 != 0 ? 16 * row_align : row_align;
    choose_parts(model);
    ParamTable *table = &model->params;
    const TensorNames *names = tensor_names(spec);
    table->decay_all = spec->decay_all;
    declare_vocab(model, &model->embed, names->embed, row_align);
    model->vocab_rows = spec->vocab + table->rows[0].spare_rows;
    if (spec->learned_positions) {
        linear_declare(table, &model->positions, names->positions, -1, spec->context, spec->width,
                       0, false);
    }
    for (int l = 0; l < spec->layers; l++) {
        declare_block(model, l);
    }
    norm_declare(table, &model->final_norm, names->final_norm, -1, spec->norm, spec->width);
    if (!spec->tied) {
        model->row_head = table->count;
        declare_vocab(model, &model->head, names->head, row_align);
    }
    model->head.product = true;
    params_place(table);
    model_keep_plain(model, 0);
    model->saved = mem_zalloc((size_t)spec->layers, sizeof *model->saved);
}

void model_free(Model *model)
{
    params_free(&model->params);
    free(model->layers);
    free(model->saved);
    *model = (Model){0};
}

/* (N,2), of a norm. */
static Tensor stats_room(Ctx *c, const Model *model, int64_t rows)
{
    return part_room(c, model, KEEP_INPUTS, MEM_NORM,
                     tensor_2d(NULL, dtype_accumulate(model->act), rows, 2));
}

/* The part's forward, x (N,C) to h_out (N,C), with the norm behind it where the model has one.
 * which: 0 is the mixer, 1 the feed-forward. Leaves on c->scratch what is made again. */
static void branch_forward(Ctx *c, Model *model, int layer, int which, Operand x, Tensor h_out)
{
    const Layer *l = &model->layers[layer];
    const BlockPart *part = which == 0 ? l->mixer : l->ffn;
    BlockSaved *saved = &model->saved[layer];
    if (!model->spec.post_norm) {
        part->inside(c, model, layer, x);
        part->last(c, model, layer, h_out);
        return;
    }
    Tensor shape = tensor_2d(NULL, model->act, h_out.dim[0], h_out.dim[1]);
    saved->branch[which] = part_room(c, model, KEEP_INPUTS, MEM_NORM, shape);
    saved->branch_stats[which] = stats_room(c, model, h_out.dim[0]);
    part->inside(c, model, layer, x);
    part->last(c, model, layer, saved->branch[which]);
    op_norm_forward(c, saved->branch[which],
                    linear_as_norm(&model->spec, which == 0 ? &l->post1 : &l->post2), h_out,
                    saved->branch_stats[which]);
}

/* What was not kept of the part's forward. */
static void branch_again(Ctx *c, Model *model, int layer, int which, Operand x)
{
    const BlockPart *part = which == 0 ? model->layers[layer].mixer : model->layers[layer].ffn;
    bool whole = model->spec.post_norm && model_remakes(model, KEEP_INPUTS);
    if (whole) {
        int64_t rows = model->batch.batch * model->batch.seq;
        Tensor out = ctx_scratch(c, MEM_SCRATCH, model->act, rows, model->spec.width);
        branch_forward(c, model, layer, which, x, out);
    } else {
        part->inside(c, model, layer, x);
    }
}

/* op_norm_backward, and what it tells of single sequences where that is asked for; first: these
 * sums begin here. */
static void norm_backward(Ctx *c, Model *model, const Linear *norm, Tensor dy, Tensor x,
                          Tensor stats, Tensor dx, Mode dx_mode, Mode mode, bool first)
{
    Mode sum = first ? MODE_SET : MODE_ADD;
    if (tensor_given(model->sequence_sq)) { /* before dx, which may be dy */
        ArenaMark mark = arena_mark(&c->scratch);
        Tensor pieces =
            ctx_scratch(c, MEM_SCRATCH, dtype_accumulate(model->act), model->batch.batch, x.dim[1]);
        op_norm_pieces(c, dy, x, stats, pieces);
        op_sum_squares(c, tensor_1d(pieces.data, pieces.dtype, tensor_count(pieces)),
                       model->sequence_sq, sum);
        arena_release(&c->scratch, mark);
    }
    op_norm_backward(c, dy, x, linear_as_norm(&model->spec, norm), stats, dx, dx_mode,
                     norm->weight.grad, norm->bias.grad, mode);
    if (tensor_given(model->gains_sq)) {
        op_sum_squares(c, norm->weight.grad, model->gains_sq, sum);
    }
}

/* The way back: dout (N,C) is left as it is, dx (N,C) as BlockPart.backward has it. */
static void branch_backward(Ctx *c, Model *model, int layer, int which, Tensor dout, Operand x,
                            Tensor dx, Mode mode)
{
    const Layer *l = &model->layers[layer];
    const BlockPart *part = which == 0 ? l->mixer : l->ffn;
    const BlockSaved *saved = &model->saved[layer];
    if (model->spec.post_norm) {
        const Linear *norm = which == 0 ? &l->post1 : &l->post2;
        Tensor dbranch = ctx_scratch(c, MEM_SCRATCH, model->act, dout.dim[0], dout.dim[1]);
        norm_backward(c, model, norm, dout, saved->branch[which], saved->branch_stats[which],
                      dbranch, MODE_SET, mode, false);
        dout = dbranch;
    }
    part->backward(c, model, layer, dout, x, dx, mode);
}

/* n1 or n2 in its room. Its product is the part's first. */
static Operand norm_room(Ctx *c, Model *model, int layer, int which, int64_t rows, bool product)
{
    const Layer *l = &model->layers[layer];
    return linear_input(c, model, which == 0 ? &l->mixing[0] : &l->up, KEEP_NO_NORMS, MEM_NORM,
                        rows, product);
}

/* Norm and mixer. h: see block_forward; r is where the sum goes. */
static void first_half(Ctx *c, Model *model, int layer, Tensor x, Tensor h, Tensor r, Tensor h_out)
{
    BlockSaved *saved = &model->saved[layer];
    saved->n1 = norm_room(c, model, layer, 0, x.dim[0], true);
    saved->stats1 = stats_room(c, model, x.dim[0]);
    norm_operand(c, linear_as_norm(&model->spec, &model->layers[layer].norm1), x, h, r, saved->n1,
                 saved->stats1);
    branch_forward(c, model, layer, 0, saved->n1, h_out);
}

/* Norm and feed-forward. r2 is where the stream after the mixer goes; none: pushed and kept. */
static void second_half(Ctx *c, Model *model, int layer, Tensor r2, Tensor h_out)
{
    const ModelSpec *s = &model->spec;
    BlockSaved *saved = &model->saved[layer];
    int64_t rows = saved->r1.dim[0];
    saved->r2 = tensor_given(r2) ? r2 : ctx_save(c, MEM_RESIDUAL, model->act, rows, s->width);
    saved->n2 = norm_room(c, model, layer, 1, rows, true);
    saved->stats2 = stats_room(c, model, rows);
    norm_operand(c, linear_as_norm(s, &model->layers[layer].norm2), saved->r1, h_out, saved->r2,
                 saved->n2, saved->stats2);
    branch_forward(c, model, layer, 1, saved->n2, h_out);
}

/* One pre-norm block: norm, mixer, norm, feed-forward, with residual additions, and a norm before
 * each of these where the model has post norms. x (N,C) residual
 * stream, h (N,C) branch not yet added to it, or none in the first block. Leaves the new stream in
 * *x and the new branch in h_out (which may be h). */
static void block_forward(Ctx *c, Model *model, int layer, Tensor *x, Tensor h, Tensor h_out)
{
    BlockSaved *saved = &model->saved[layer];
    Keep keep = model->keep;
    if (layer > 0) {
        saved->mark = arena_mark(&c->saved);
    }
    saved->r1 = *x;
    if (tensor_given(h) && keep != KEEP_NOTHING) {
        saved->r1 = ctx_save(c, MEM_RESIDUAL, model->act, x->dim[0], model->spec.width);
    }
    ArenaMark inside = arena_mark(&c->saved), mark = arena_mark(&c->scratch);
    first_half(c, model, layer, *x, h, saved->r1, h_out);
    arena_release(&c->scratch, mark);
    second_half(c, model, layer, keep < KEEP_INPUTS ? TENSOR_NONE : model->carry, h_out);
    arena_release(&c->scratch, mark);
    *x = saved->r2;
    if (keep == KEEP_NOTHING) {
        arena_release(&c->saved, inside);
    }
}

/* From the block's kept input, on c->scratch: all up to the stream after the mixer, and room for
 * the statistics of the norm that follows. A plain n1 has the stream's place until that is made: it
 * is not worth its room while the feed-forward goes back. */
static void first_half_again(Ctx *c, Model *model, int layer)
{
    BlockSaved *saved = &model->saved[layer];
    int64_t rows = saved->r1.dim[0];
    saved->r2 = ctx_scratch(c, MEM_SCRATCH, model->act, rows, model->spec.width);
    saved->stats2 = stats_room(c, model, rows);
    bool coded = linear_is_quantised(&model->layers[layer].mixing[0]);
    saved->n1 = coded ? norm_room(c, model, layer, 0, rows, true) : (Operand){.plain = saved->r2};
    saved->stats1 = stats_room(c, model, rows);
    norm_operand(c, linear_as_norm(&model->spec, &model->layers[layer].norm1), saved->r1,
                 TENSOR_NONE, TENSOR_NONE, saved->n1, saved->stats1);
    branch_forward(c, model, layer, 0, saved->n1, saved->r2);
    op_add(c, saved->r1, saved->r2, saved->r2);
}

/* n1 or n2 again, where it was not kept, from the norm's input and onto its statistics. inside: the
 * part's first product may follow. */
static void remake_norm(Ctx *c, Model *model, int layer, int which, bool inside)
{
    const Layer *l = &model->layers[layer];
    BlockSaved *saved = &model->saved[layer];
    Tensor x = which == 0 ? saved->r1 : saved->r2;
    Operand *made = which == 0 ? &saved->n1 : &saved->n2;
    if (model_remakes(model, KEEP_NO_NORMS)) {
        bool product = inside && model_remakes(model, which == 0 ? KEEP_NO_MIXERS : KEEP_NO_FFN);
        *made = norm_room(c, model, layer, which, x.dim[0], product);
        norm_operand(c, linear_as_norm(&model->spec, which == 0 ? &l->norm1 : &l->norm2), x,
                     TENSOR_NONE, TENSOR_NONE, *made, which == 0 ? saved->stats1 : saved->stats2);
    }
}

/* Where the gradient by a norm's output goes: over that, or, where it is codes, into scratch. */
static Tensor norm_slope(Ctx *c, const Model *model, Operand norm, int64_t rows)
{
    return tensor_given(norm.plain)
               ? norm.plain
               : ctx_scratch(c, MEM_SCRATCH, model->act, rows, model->spec.width);
}

/* Through a norm and the part that reads it: adds to dres (N,C), the gradient of the stream. made:
 * all of the part that was not kept is there again. */
static void half_backward(Ctx *c, Model *model, int layer, int which, bool made, Tensor dres,
                          Mode mode)
{
    const Layer *l = &model->layers[layer];
    const BlockSaved *saved = &model->saved[layer];
    const Linear *norm = which == 0 ? &l->norm1 : &l->norm2;
    ArenaMark mark = arena_mark(&c->scratch);
    if (!made || tensor_given(saved->n1.plain)) {
        remake_norm(c, model, layer, which, !made);
    }
    Operand x = which == 0 ? saved->n1 : saved->n2;
    if (!made) {
        branch_again(c, model, layer, which, x);
    }
    Tensor dx = norm_slope(c, model, x, dres.dim[0]);
    branch_backward(c, model, layer, which, dres, x, dx, mode);
    norm_backward(c, model, norm, dx, which == 0 ? saved->r1 : saved->r2,
                  which == 0 ? saved->stats1 : saved->stats2, dres, MODE_ADD, mode, false);
    arena_release(&c->scratch, mark);
}

/* dres (N,C): gradient of the stream behind the block, replaced by that before it. */
static void block_backward(Ctx *c, Model *model, int layer, Tensor dres, Mode mode)
{
    bool from_input = model->keep == KEEP_INPUTS;
    ArenaMark mark = arena_mark(&c->scratch);
    model->again = true;
    if (from_input) {
        first_half_again(c, model, layer);
    }
    half_backward(c, model, layer, 1, false, dres, mode);
    half_backward(c, model, layer, 0, from_input, dres, mode);
    model->again = false;
    arena_release(&c->scratch, mark);
    if (!rooms_taken(model) || layer < 2) {
        arena_release(&c->saved, model->saved[layer].mark);
    }
    rooms_await(c, model);
}

/* x (N,C) by the embedding's factor, which has the precision of the activations. */
static void scale_embedding(Ctx *c, const Model *model, Tensor x)
{
    double factor = model->spec.embed_scale;
    if (factor > 0 && factor != 1) {
        factor = model->act == DT_BF16 ? f32_from_bf16(bf16_from_f32((float)factor)) : factor;
        op_scale(c, x, factor, 0, x);
    }
}

/* Tells of the parameters from `row` on that belong to this layer; they lie in forward order, so
 * the next to be told is the one that is returned. */
static int need_layer(Ctx *c, const Model *model, int row, int layer)
{
    const ParamTable *table = &model->params;
    for (; row < table->count && table->rows[row].layer == layer; row++) {
        if (c->need != NULL && !c->dry) {
            c->need(c->need_user, table->rows[row].offset, table->rows[row].count);
        }
    }
    return row;
}

void model_forward(Ctx *c, Model *model, DeviceBatch batch, Keep keep)
{
    const ModelSpec *s = &model->spec;
    int64_t rows = batch.batch * batch.seq;
    PACER_ASSERT(batch.seq <= s->context, "%lld tokens, context %lld", (long long)batch.seq,
                 (long long)s->context);
    model->batch = batch;
    model->keep = keep;
    model->pass_mark = arena_mark(&c->saved);
    model->host_mark = arena_mark(&c->host);
    model->h = ctx_save(c, MEM_RESIDUAL, model->act, rows, s->width);
    if (keep == KEEP_INPUTS) {
        model->carry = ctx_save(c, MEM_RESIDUAL, model->act, rows, s->width);
    }
    model->saved[0].mark = arena_mark(&c->saved); /* its input is the first of what it keeps */
    Tensor x = ctx_save(c, MEM_RESIDUAL, model->act, rows, s->width);
    model->carry = keep == KEEP_INPUTS ? model->carry : x;
    int row = need_layer(c, model, 0, CTX_NO_LAYER);
    if (model_steps(model)) {
        op_embed_step(c, batch.ids, model->embed.weight.value, model->positions.weight.value,
                      model->decode.position, x);
    } else {
        op_embed_forward(c, batch.ids, model->embed.weight.value, model->positions.weight.value,
                         batch.starts, batch.seq, x);
    }
    scale_embedding(c, model, x);
    for (int l = 0; l < s->layers; l++) {
        c->layer = l;
        row = need_layer(c, model, row, l);
        rooms_enter(c, model, l);
        block_forward(c, model, l, &x, l > 0 ? model->h : TENSOR_NONE, model->h);
        rooms_leave(c, model, l);
    }
    c->layer = CTX_NO_LAYER;
    row = need_layer(c, model, row, CTX_NO_LAYER); /* final norm and head: a tied one is there */
    PACER_ASSERT(row == model->params.count, "%d of %d parameters", row, model->params.count);
    model->rf =
        keep < KEEP_INPUTS ? ctx_save(c, MEM_RESIDUAL, model->act, rows, s->width) : model->carry;
    model->head_mark = arena_mark(&c->scratch);
    model->nf = linear_input(c, model, &model->head, KEEP_NOTHING, MEM_NORM, rows, true);
    model->statsf = ctx_save(c, MEM_NORM, dtype_accumulate(model->act), rows, 2);
    norm_operand(c, linear_as_norm(s, &model->final_norm), x, model->h, model->rf, model->nf,
                 model->statsf);
    model->dnf = model->nf.plain;
    if (linear_is_quantised(&model->head) && keep != KEEP_NOTHING) {
        model->dnf = ctx_save(c, MEM_NORM, model->act, rows, s->width);
    }
}

int64_t model_head_rows(const Ctx *c, const Model *model, int64_t rows)
{
    int64_t size = (int64_t)dtype_size(model->act);
    size += linear_is_quantised(&model->head) ? 2 : 0; /* the gradient's codes */
    int64_t fit = (int64_t)c->backend->head_bytes / (model->vocab_rows * size);
    fit = fit < HEAD_CHUNK_ROWS ? HEAD_CHUNK_ROWS : fit;
    if (fit >= rows) {
        return rows;
    }
    /* Chunks of about equal size: the last one is not a sliver. */
    int64_t chunks = (rows + fit - 1) / fit, each = (rows + chunks - 1) / chunks;
    return (each + HEAD_CHUNK_ROWS - 1) / HEAD_CHUNK_ROWS * HEAD_CHUNK_ROWS;
}

/* Gradients of the decaying rows of this layer and behind it are complete: they lie in forward
 * order. The head counts as the layer behind the last. */
static void ready_from(Ctx *c, const Model *model, int layer)
{
    if (c->ready != NULL && !c->dry) {
        const ParamTable *table = &model->params;
        int row = layer < model->spec.layers ? params_first_decayed(table, layer) : model->row_head;
        c->ready(c->ready_user, table->rows[row].offset);
    }
}

void model_head(Ctx *c, Model *model, Tensor losses, double scale, bool gradient, Mode mode)
{
    const ModelSpec *s = &model->spec;
    int64_t rows = model->batch.batch * model->batch.seq, chunk = model_head_rows(c, model, rows);
    bool coded = gradient && linear_is_quantised(&model->head);
    Tensor buffer = ctx_scratch(c, MEM_HEAD, model->act, chunk, model->vocab_rows);
    OpStat before[OP_COUNT];
    for (int64_t first = 0; first < rows; first += chunk) {
        int64_t count = rows - first < chunk ? rows - first : chunk;
        memcpy(before, c->stats, sizeof before);
        Operand x = operand_rows(model->nf, first, count);
        Tensor logits = tensor_rows(buffer, 0, count), targets = model->batch.targets;
        Tensor own = tensor_rows(losses, first, count);
        Mode head_mode = first == 0 ? mode : MODE_ADD;
        targets = tensor_rows(targets, first, count);
        linear_forward(c, &model->head, x, logits);
        if (coded) {
            ArenaMark mark = arena_mark(&c->scratch);
            Quant slope = linear_slope(c, &model->head, count);
            op_quant_xent(c, logits, s->vocab, s->logit_cap, targets, own, scale, slope);
            linear_backward_codes(c, &model->head, x, slope, tensor_rows(model->dnf, first, count),
                                  head_mode);
            arena_release(&c->scratch, mark);
        } else {
            op_xent(c, logits, s->vocab, s->logit_cap, targets, own, scale, gradient);
            if (gradient) {
                linear_backward(c, &model->head, x, logits, tensor_rows(model->dnf, first, count),
                                head_mode);
            }
        }
        /* Between the first chunk and the last one all are alike: a dry run counts them by one. */
        int64_t alike = (rows - 1) / chunk - 2;
        if (c->dry && c->note == NULL && first == chunk && alike > 0) {
            ctx_repeat(c, before, alike);
            first += alike * chunk;
        }
    }
    arena_release(&c->scratch, model->head_mark);
    if (gradient && model->row_head >= 0) {
        ready_from(c, model, (int)model->spec.layers);
    }
}

void model_backward(Ctx *c, Model *model, Mode mode)
{
    const ModelSpec *s = &model->spec;
    const Linear *norm = &model->final_norm;
    Tensor dres = model->h;
    norm_backward(c, model, norm, model->dnf, model->rf, model->statsf, dres, MODE_SET, mode, true);
    for (int l = (int)s->layers - 1; l >= 0; l--) {
        c->layer = l;
        if (c->need != NULL && !c->dry) {
            need_layer(c, model, params_first(&model->params, l), l);
        }
        block_backward(c, model, l, dres, mode);
        ready_from(c, model, l);
        rooms_refill(c, model, l);
    }
    c->layer = CTX_NO_LAYER;
    scale_embedding(c, model, dres);
    /* A tied table already holds the head's part of its gradient. */
    op_embed_backward(c, model->batch.ids, model->batch.order, dres, model->embed.weight.grad,
                      model->positions.weight.grad, model->batch.starts, model->batch.seq,
                      s->tied ? MODE_ADD : mode, mode);
}

void model_logits(Ctx *c, Model *model, int64_t first, Tensor logits)
{
    linear_forward(c, &model->head, operand_rows(model->nf, first, logits.dim[0]), logits);
    if (model->spec.logit_cap > 0) {
        op_scale(c, logits, 1, model->spec.logit_cap, logits);
    }
}

void model_end(Ctx *c, Model *model)
{
    arena_release(&c->saved, model->pass_mark);
    arena_release(&c->host, model->host_mark);
    arena_release(&c->scratch, model->head_mark);
}

void model_evaluate(Ctx *c, Model *model, DeviceBatch batch, Tensor losses, Tensor mean)
{
    model_forward(c, model, batch, KEEP_NOTHING);
    model_head(c, model, losses, 0, false, MODE_SET);
    op_sum(c, losses, 1.0 / (double)(batch.batch * batch.seq), mean, MODE_SET);
    model_end(c, model);
}

Tensor model_decode_shape(const Model *model, int64_t sequences)
{
    Tensor shape = model->layers[0].mixer->decode_shape(model, sequences);
    shape.dim[0] *= model->spec.layers;
    return shape;
}

Tensor model_decode_state(const Model *model, int layer)
{
    int64_t rows = model->decode.states.dim[0] / model->spec.layers;
    return tensor_rows(model->decode.states, layer * rows, rows);
}

void model_decode_start(Ctx *c, Model *model, Decode decode)
{
    model->decode = decode;
    for (int l = 0; l < model->spec.layers; l++) {
        const BlockPart *mixer = model->layers[l].mixer;
        if (mixer->decode_start != NULL) {
            mixer->decode_start(c, model, l, model_decode_state(model, l));
        }
    }
}

int64_t model_pass_length(const Backend *backend, int64_t count, int64_t most)
{
    int64_t length = backend->few_shapes ? 16 : count;
    while (length < count) {
        length = (length & (length - 1)) == 0 ? length / 2 * 3 : length / 3 * 4;
    }
    return length < most ? length : most;
}
