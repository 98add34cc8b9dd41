#!/usr/bin/env python3
"""Makes the stored PyTorch results that tests/test_muon.c and tests/test_mup.c compare with.

    python3 tests/gold/make_optim.py tests/gold        (needs torch 2.9 or newer, and numpy)

muon.safetensors: matrices of odd shapes, three gradients each, and what torch.optim.Muon makes of them. It works in
bfloat16; here its conversion to that is replaced by one to float64.
muon_gpt2.safetensors, muon_llama_gqa.safetensors: whole models (make_gold.py) that torch.optim.Muon trains with AdamW beside
it: losses, norms and the weights after ten updates with clipping. q, k and v are matrices of their own.
mup.safetensors: a model with the factors of the maximal update parametrization written out as its paper has them: logits
times 1 / m, scores times sqrt(base head width) / head width, rates by group. pacer has the logits' factor in the final
norm's weights, so these are stored as what pacer starts from.
"""
import sys

import torch
import torch.nn.functional as F

import make_gold as g

SHAPES = [(5, 11), (13, 4), (1, 7), (9, 1), (6, 6), (1, 1), (33, 20), (20, 47)]
LR, MOMENTUM, DECAY, STEPS = 0.02, 0.95, 0.1, 10
torch.Tensor.bfloat16 = torch.Tensor.double


def muon(params, lr=LR):
    return torch.optim.Muon(params, lr=lr, weight_decay=DECAY, momentum=MOMENTUM, nesterov=True,
                            adjust_lr_fn="match_rms_adamw")


def matrices():
    gen, out = torch.Generator().manual_seed(7), {}
    for i, shape in enumerate(SHAPES):
        start = torch.randn(shape, generator=gen)
        p = start.double().clone().requires_grad_()
        opt = muon([p])
        out[f"{i}.start"] = start
        for step in range(3):
            grad = torch.randn(shape, generator=gen) * 10.0 ** (step - 3)
            out[f"{i}.grad.{step}"] = grad
            p.grad = grad.double()
            opt.step()
        out[f"{i}.end"] = p.detach().clone()
    return out


def data(c, gen):
    ids = torch.randint(0, c["vocab"], (c["batch"], c["seq"] + 1), generator=gen)
    return ids[:, :-1], ids[:, 1:]


def start_of(c, gen):
    start = {}
    for name, shape in g.shapes(c).items():
        value = torch.randn(shape, generator=gen) * (0.3 if len(shape) == 1 else 0.15)
        start[name] = (value + 1 if len(shape) == 1 and name.endswith("weight") else value).float()
    return start


def in_block(name, t):
    return t.dim() == 2 and (name.startswith("h.") or ".layers." in name)


def train(leaves, join, c, x, y, optimizers, clip, logits=g.logits_of):
    losses, norms = [], []
    for _ in range(STEPS):
        for opt in optimizers:
            opt.zero_grad(set_to_none=True)
        loss = F.cross_entropy(logits(join(leaves), c, x).reshape(-1, c["vocab"]), y.reshape(-1))
        loss.backward()
        losses.append(loss.item())
        norms.append(torch.nn.utils.clip_grad_norm_(leaves.values(), clip).item())
        for opt in optimizers:
            opt.step()
    return dict(losses=torch.tensor(losses, dtype=torch.float64), norms=torch.tensor(norms, dtype=torch.float64),
                ids=x.reshape(-1).int(), targets=y.reshape(-1).int())


def whole(c, seed):
    """Packed q, k, v as three leaves, joined for the forward pass."""
    gen = torch.Generator().manual_seed(seed)
    start = start_of(c, gen)
    x, y = data(c, gen)
    leaves = {}
    for name, t in start.items():
        parts = t.double().chunk(3) if name.endswith("qkv.weight") else [t.double()]
        for i, part in enumerate(parts):
            leaves[f"{name}:{i}"] = part.clone().requires_grad_()

    def join(leaves):
        names = dict.fromkeys(n.rsplit(":", 1)[0] for n in leaves)
        return {n: torch.cat([leaves[k] for k in leaves if k.rsplit(":", 1)[0] == n]) for n in names}

    hidden = [t for n, t in leaves.items() if in_block(n, t)]
    rest = [(n, t) for n, t in leaves.items() if not in_block(n, t)]
    groups = [dict(params=[t for _, t in rest if t.dim() > 1], weight_decay=DECAY),
              dict(params=[t for _, t in rest if t.dim() == 1], weight_decay=0.0)]
    adamw = torch.optim.AdamW(groups, lr=g.LR, betas=g.BETAS, eps=g.EPS)
    out = dict(start)
    out.update(train(leaves, join, c, x, y, [muon(hidden, g.LR), adamw], g.CLIP))
    out.update({"end." + n: t.detach().clone() for n, t in join(leaves).items()})
    return out


def mup_logits(p, c, x):
    """make_gold's Llama with the two factors."""
    d, D = c["width"], c["width"] // c["heads"]
    m = d / c["base"]
    h = p["model.embed_tokens.weight"][x]
    for i in range(c["layers"]):
        w = lambda name: p[f"model.layers.{i}.{name}.weight"]
        n = F.rms_norm(h, (d,), w("input_layernorm"), 1e-5)
        q, k, v = (F.linear(n, w(f"self_attn.{m}_proj")) for m in "qkv")
        q = q * (c["base_head"] ** 0.5 / D) * D ** 0.5  # attend multiplies by 1 / sqrt(D)
        h = h + F.linear(g.attend(q, k, v, c, True), w("self_attn.o_proj"))
        n = F.rms_norm(h, (d,), w("post_attention_layernorm"), 1e-5)
        h = h + F.linear(F.silu(F.linear(n, w("mlp.gate_proj"))) * F.linear(n, w("mlp.up_proj")), w("mlp.down_proj"))
    head = p["model.embed_tokens.weight" if c["tied"] else "lm_head.weight"]
    return F.linear(F.rms_norm(h, (d,), p["model.norm.weight"], 1e-5), head) / m


def mup(c, seed, eps):
    gen = torch.Generator().manual_seed(seed)
    start = start_of(c, gen)
    x, y = data(c, gen)
    m, f = c["width"] / c["base"], c["ffn"] / c["base_ffn"]
    p = {n: t.double().clone().requires_grad_() for n, t in start.items()}
    groups = []
    for name, t in p.items():
        growth = f if "down_proj" in name else m if in_block(name, t) else 1
        groups.append(dict(params=[t], lr=g.LR / growth, weight_decay=DECAY * growth if t.dim() > 1 else 0.0))
    adamw = torch.optim.AdamW(groups, betas=g.BETAS, eps=eps)
    out = dict(start)
    out["model.norm.weight"] = start["model.norm.weight"].double() / m
    out.update(train(p, lambda q: q, c, x, y, [adamw], 1e9, mup_logits))
    out.update({"end." + n: t.detach() / (m if n == "model.norm.weight" else 1) for n, t in p.items()})
    return out


def main():
    meta = dict(torch=torch.__version__, weight_decay=str(DECAY), beta1=str(g.BETAS[0]), beta2=str(g.BETAS[1]))
    text = lambda c: {k: str(int(v) if isinstance(v, bool) else v) for k, v in c.items()}
    save = lambda name, tensors, more: g.save(f"{sys.argv[1]}/{name}.safetensors", tensors, dict(meta, **more))
    save("muon", matrices(), dict(lr=str(LR), momentum=str(MOMENTUM)))
    for seed, name in enumerate(["gpt2", "llama_gqa"]):
        c = g.CASES[name]
        save("muon_" + name, whole(c, 40 + seed),
             dict(text(c), lr=str(g.LR), eps=str(g.EPS), clip=str(g.CLIP), momentum=str(MOMENTUM)))
    c = dict(g.CASES["llama_gqa"], base=12, base_ffn=20, base_head=2)
    save("mup", mup(c, 50, 1e-15), dict(text(c), lr=str(g.LR), eps=str(1e-15), clip="0"))


if __name__ == "__main__":
    main()
