#!/usr/bin/env python3
"""Makes the stored PyTorch results that tests/test_model_parity.c compares with.

    python3 tests/gold/make_gold.py tests/gold [NAME...]        (needs torch and numpy; safetensors is written by hand)

Each file holds a small model of odd dimensions: its initial parameters (f32), tokens, and what PyTorch
computes from them in float64: logits, loss, every gradient, and ten losses of AdamW training on one batch
with clipping. Parameter names and layouts are pacer's.
"""
import json
import struct
import sys

import numpy as np
import torch
import torch.nn.functional as F

CASES = {
    "gpt2": dict(kind="gpt2", vocab=67, width=24, layers=2, heads=3, kv_heads=3, ffn=52, context=19, tied=True,
                 batch=3, seq=17),
    "llama": dict(kind="llama", vocab=61, width=40, layers=3, heads=5, kv_heads=5, ffn=37, context=23, tied=False,
                  batch=2, seq=19),
    "llama_gqa": dict(kind="llama", vocab=53, width=36, layers=2, heads=6, kv_heads=2, ffn=41, context=13, tied=True,
                      batch=5, seq=13),
    "ttt_linear_model": dict(kind="ttt", ttt=1, mini=4, rate=1.0, vocab=47, width=36, layers=2, heads=3, kv_heads=3, ffn=28,
                       context=10, tied=True, batch=2, seq=10),
    "ttt_mlp_model": dict(kind="ttt", ttt=2, mini=5, rate=0.1, vocab=43, width=20, layers=2, heads=2, kv_heads=2, ffn=36,
                    context=13, tied=True, batch=3, seq=13),
}
LR, BETAS, EPS, DECAY, CLIP, STEPS = 3e-3, (0.9, 0.95), 1e-8, 0.1, 1.0, 10


def shapes(c):
    """name -> shape, in the order of the model's forward pass; decay follows from the rank, but for TTT models, where
    everything decays."""
    d, f, v = c["width"], c["ffn"], c["vocab"]
    if c["kind"] == "ttt":
        return ttt_shapes(c)
    kv = d // c["heads"] * c["kv_heads"]
    out = {}
    if c["kind"] == "gpt2":
        out["wte.weight"], out["wpe.weight"] = (v, d), (c["context"], d)
        for i in range(c["layers"]):
            p = f"h.{i}."
            out[p + "ln_1.weight"] = out[p + "ln_1.bias"] = (d,)
            out[p + "attn.qkv.weight"], out[p + "attn.qkv.bias"] = (3 * d, d), (3 * d,)
            out[p + "attn.proj.weight"], out[p + "attn.proj.bias"] = (d, d), (d,)
            out[p + "ln_2.weight"] = out[p + "ln_2.bias"] = (d,)
            out[p + "mlp.fc.weight"], out[p + "mlp.fc.bias"] = (f, d), (f,)
            out[p + "mlp.proj.weight"], out[p + "mlp.proj.bias"] = (d, f), (d,)
        out["ln_f.weight"] = out["ln_f.bias"] = (d,)
        return out
    out["model.embed_tokens.weight"] = (v, d)
    for i in range(c["layers"]):
        p = f"model.layers.{i}."
        out[p + "input_layernorm.weight"] = (d,)
        out[p + "self_attn.q_proj.weight"] = (d, d)
        out[p + "self_attn.k_proj.weight"] = out[p + "self_attn.v_proj.weight"] = (kv, d)
        out[p + "self_attn.o_proj.weight"] = (d, d)
        out[p + "post_attention_layernorm.weight"] = (d,)
        out[p + "mlp.gate_proj.weight"] = out[p + "mlp.up_proj.weight"] = (f, d)
        out[p + "mlp.down_proj.weight"] = (d, f)
    out["model.norm.weight"] = (d,)
    if not c["tied"]:
        out["lm_head.weight"] = (v, d)
    return out


def ttt_shapes(c):
    d, f, h = c["width"], c["ffn"], c["heads"]
    inner = (4 if c["ttt"] == 2 else 1) * (d // h)
    out = {"model.embed_tokens.weight": (c["vocab"], d)}
    for i in range(c["layers"]):
        p, s = f"model.layers.{i}.", f"model.layers.{i}.seq_modeling_block."
        out[p + "seq_norm.weight"] = (d,)
        for m in "qkv":
            out[s + f"{m}_proj.weight"] = (d, d)
        out[s + "learnable_ttt_lr_weight"], out[s + "learnable_ttt_lr_bias"] = (h, 1, d), (h, 1)
        out[s + "learnable_token_idx"] = (c["mini"],)
        out[s + "ttt_norm_weight"] = out[s + "ttt_norm_bias"] = (h, d // h)
        out[s + "W1"], out[s + "b1"] = (h, d // h, inner), (h, 1, inner)
        if c["ttt"] == 2:
            out[s + "W2"], out[s + "b2"] = (h, inner, d // h), (h, 1, d // h)
        out[s + "post_norm.weight"] = out[s + "post_norm.bias"] = (d,)
        out[s + "o_proj.weight"] = (d, d)
        out[p + "ffn_norm.weight"] = (d,)
        out[p + "mlp.gate_proj.weight"] = out[p + "mlp.up_proj.weight"] = (f, d)
        out[p + "mlp.down_proj.weight"] = (d, f)
    out["model.norm.weight"] = (d,)
    return out


def rotate_neighbours(x, base=10000.0):
    """Rotary positions on (B, H, n, D), pairs (2i, 2i + 1)."""
    n, D = x.shape[-2:]
    ang = torch.arange(n, dtype=x.dtype)[:, None] * base ** (-torch.arange(0, D, 2, dtype=x.dtype) / D)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * ang.cos() - b * ang.sin(), a * ang.sin() + b * ang.cos()), -1).flatten(-2)


def inner_model(x, state):
    """Without its norm; x (B, H, 1, D), one state per sequence and head."""
    z = x @ state[0] + state[1]
    return z if len(state) == 2 else F.gelu(z, approximate="tanh") @ state[2] + state[3]


def ttt_layer(h, w, c):
    """Token by token as the layer is defined; inner gradients by autograd of the inner loss."""
    B, T, C = h.shape
    H, D, m = c["heads"], C // c["heads"], c["mini"]
    q, k, v = (F.linear(h, w(f"{n}_proj.weight")).view(B, T, H, D).transpose(1, 2) for n in "qkv")
    rate = c["rate"] / D * torch.sigmoid(h @ w("learnable_ttt_lr_weight")[:, 0].T + w("learnable_ttt_lr_bias")[:, 0])
    tau = torch.clamp_min(1 / torch.arange(1, m + 1, dtype=h.dtype) + w("learnable_token_idx"), 0)
    names = ["W1", "b1"] + (["W2", "b2"] if c["ttt"] == 2 else [])
    start, outputs = [w(n).expand(B, *w(n).shape) for n in names], []
    norm = lambda z: F.layer_norm(z, (D,), eps=1e-6) * w("ttt_norm_weight")[:, None] + w("ttt_norm_bias")[:, None]
    for first in range(0, T, m):
        n = min(m, T - first)
        turned_q, turned_k = (rotate_neighbours(t[:, :, first:first + n]) for t in (q, k))
        sums = [torch.zeros_like(s) for s in start]
        for i in range(n):
            key, value = turned_k[:, :, i:i + 1], v[:, :, first + i:first + i + 1]
            loss = 0.5 * ((norm(inner_model(key, start)) - (value - key)) ** 2).sum()
            slopes = torch.autograd.grad(loss, start, create_graph=True)
            scale = rate[:, first + i].view(B, H, 1, 1)
            sums = [s + scale * g for s, g in zip(sums, slopes)]
            now = [s - tau[i] * a for s, a in zip(start, sums)]
            query = turned_q[:, :, i:i + 1]
            outputs.append(query + norm(inner_model(query, now)))
        start = now
    y = torch.cat(outputs, 2).transpose(1, 2).reshape(B, T, C)
    return F.linear(F.layer_norm(y, (C,), w("post_norm.weight"), w("post_norm.bias"), 1e-6), w("o_proj.weight"))


def ttt_logits_of(p, c, x):
    d = c["width"]
    h = p["model.embed_tokens.weight"][x]
    for i in range(c["layers"]):
        w = lambda name: p[f"model.layers.{i}.{name}"]
        n = F.rms_norm(h, (d,), w("seq_norm.weight"), 1e-6)
        h = h + ttt_layer(n, lambda name: w("seq_modeling_block." + name), c)
        n = F.rms_norm(h, (d,), w("ffn_norm.weight"), 1e-6)
        up = F.silu(F.linear(n, w("mlp.gate_proj.weight"))) * F.linear(n, w("mlp.up_proj.weight"))
        h = h + F.linear(up, w("mlp.down_proj.weight"))
    return F.linear(F.rms_norm(h, (d,), p["model.norm.weight"], 1e-6), p["model.embed_tokens.weight"])


def rotate_half_split(x, base=10000.0):
    """Rotary positions on (B, H, T, D), pairs (i, i + D/2)."""
    T, D = x.shape[-2:]
    inv = base ** (-torch.arange(0, D, 2, dtype=x.dtype) / D)
    ang = torch.arange(T, dtype=x.dtype)[:, None] * inv
    cos, sin = torch.cat((ang.cos(), ang.cos()), -1), torch.cat((ang.sin(), ang.sin()), -1)
    a, b = x[..., : D // 2], x[..., D // 2:]
    return x * cos + torch.cat((-b, a), -1) * sin


def attend(q, k, v, c, rope):
    B, T, _ = q.shape
    D = c["width"] // c["heads"]
    q = q.view(B, T, c["heads"], D).transpose(1, 2)
    k, v = (t.view(B, T, c["kv_heads"], D).transpose(1, 2) for t in (k, v))
    if rope:
        q, k = rotate_half_split(q), rotate_half_split(k)
    k, v = (t.repeat_interleave(c["heads"] // c["kv_heads"], 1) for t in (k, v))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).reshape(B, T, -1)


def logits_of(p, c, x):
    d = c["width"]
    if c["kind"] == "ttt":
        return ttt_logits_of(p, c, x)
    if c["kind"] == "gpt2":
        h = p["wte.weight"][x] + p["wpe.weight"][: x.shape[1]]
        for i in range(c["layers"]):
            w = lambda name: p[f"h.{i}.{name}"]
            n = F.layer_norm(h, (d,), w("ln_1.weight"), w("ln_1.bias"))
            q, k, v = F.linear(n, w("attn.qkv.weight"), w("attn.qkv.bias")).split(d, -1)
            h = h + F.linear(attend(q, k, v, c, False), w("attn.proj.weight"), w("attn.proj.bias"))
            n = F.layer_norm(h, (d,), w("ln_2.weight"), w("ln_2.bias"))
            u = F.gelu(F.linear(n, w("mlp.fc.weight"), w("mlp.fc.bias")), approximate="tanh")
            h = h + F.linear(u, w("mlp.proj.weight"), w("mlp.proj.bias"))
        return F.linear(F.layer_norm(h, (d,), p["ln_f.weight"], p["ln_f.bias"]), p["wte.weight"])
    h = p["model.embed_tokens.weight"][x]
    for i in range(c["layers"]):
        w = lambda name: p[f"model.layers.{i}.{name}.weight"]
        n = F.rms_norm(h, (d,), w("input_layernorm"), 1e-5)
        y = attend(*(F.linear(n, w(f"self_attn.{m}_proj")) for m in "qkv"), c, True)
        h = h + F.linear(y, w("self_attn.o_proj"))
        n = F.rms_norm(h, (d,), w("post_attention_layernorm"), 1e-5)
        h = h + F.linear(F.silu(F.linear(n, w("mlp.gate_proj"))) * F.linear(n, w("mlp.up_proj")), w("mlp.down_proj"))
    head = p["model.embed_tokens.weight" if c["tied"] else "lm_head.weight"]
    return F.linear(F.rms_norm(h, (d,), p["model.norm.weight"], 1e-5), head)


def make(c, seed):
    gen = torch.Generator().manual_seed(seed)
    start = {}
    for name, shape in shapes(c).items():
        value = torch.randn(shape, generator=gen) * (0.3 if len(shape) == 1 else 0.15)
        if (len(shape) == 1 and name.endswith("weight")) or name.endswith("norm_weight"):
            value += 1
        start[name] = value.float()
    ids = torch.randint(0, c["vocab"], (c["batch"], c["seq"] + 1), generator=gen)
    x, y = ids[:, :-1], ids[:, 1:]
    p = {n: t.double().clone().requires_grad_() for n, t in start.items()}
    decays = lambda t: t.dim() > 1 or c["kind"] == "ttt"
    groups = [dict(params=[t for t in p.values() if decays(t)], weight_decay=DECAY),
              dict(params=[t for t in p.values() if not decays(t)], weight_decay=0.0)]
    opt = torch.optim.AdamW(groups, lr=LR, betas=BETAS, eps=EPS)
    out, losses, norms = dict(start), [], []
    for step in range(STEPS):
        opt.zero_grad(set_to_none=True)
        logits = logits_of(p, c, x)
        loss = F.cross_entropy(logits.reshape(-1, c["vocab"]), y.reshape(-1))
        loss.backward()
        if step == 0:
            out["logits"] = logits.detach().reshape(-1, c["vocab"])
            out.update({"grad." + n: t.grad.clone() for n, t in p.items()})
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(p.values(), CLIP).item())
        opt.step()
    out["losses"] = torch.tensor(losses, dtype=torch.float64)
    out["norms"] = torch.tensor(norms, dtype=torch.float64)
    out["ids"], out["targets"] = x.reshape(-1).int(), y.reshape(-1).int()
    return out


def save(path, tensors, meta):
    names = {torch.float32: "F32", torch.float64: "F64", torch.int32: "I32"}
    header, at = {"__metadata__": meta}, 0
    for name, t in tensors.items():
        size = t.numel() * t.element_size()
        header[name] = dict(dtype=names[t.dtype], shape=list(t.shape), data_offsets=[at, at + size])
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            f.write(np.ascontiguousarray(t.numpy()).tobytes())


def main():
    for seed, (name, c) in enumerate(CASES.items()):
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        meta = {k: str(int(v) if isinstance(v, bool) else v) for k, v in c.items()}
        meta.update(lr=str(LR), beta1=str(BETAS[0]), beta2=str(BETAS[1]), eps=str(EPS), weight_decay=str(DECAY),
                    clip=str(CLIP), torch=torch.__version__)
        save(f"{sys.argv[1]}/{name}.safetensors", make(c, seed), meta)


if __name__ == "__main__":
    main()
