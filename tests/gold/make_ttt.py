#!/usr/bin/env python3
"""Makes the stored PyTorch results of test-time-training layers that tests/test_ops_ttt.c compares with.

    python3 tests/gold/make_ttt.py tests/gold        (needs torch and numpy)

Each file holds one call of the op (src/tensor/ttt.h) in float64: its packed input, its parameters, the
rotary table, the output in matrix form, a gradient of the output, and by automatic differentiation the
gradients of the input and of every parameter.
"""
import math
import sys

import torch
import torch.nn.functional as F

from make_gold import save

CASES = {
    "ttt_linear": dict(kind="linear", batch=2, seq=10, heads=2, head_dim=8, mini=4, padding=3, base_rate=1.0),
    "ttt_mlp": dict(kind="mlp", batch=2, seq=7, heads=2, head_dim=4, mini=4, padding=0, base_rate=0.7),
    "ttt_short": dict(kind="linear", batch=1, seq=3, heads=3, head_dim=6, mini=5, padding=1, base_rate=1.0),
    "ttt_long": dict(kind="mlp", batch=1, seq=11, heads=1, head_dim=6, mini=5, padding=2, base_rate=0.1),
}
EPS = 1e-6


def rope_table(positions, width):
    """A row per position: cosines, then sines."""
    angle = torch.arange(positions).double()[:, None] * 10000.0 ** (-torch.arange(0, width, 2).double() / width)
    return torch.cat([torch.cos(angle), torch.sin(angle)], 1)


def turned(x, table):
    """x (tokens, D), pairs of neighbours turned by the table's rows."""
    half = x.shape[1] // 2
    cosine, sine, even, odd = table[:, :half], table[:, half:], x[:, 0::2], x[:, 1::2]
    return torch.stack([even * cosine - odd * sine, odd * cosine + even * sine], 2).flatten(1)


def gelu_slope(x):
    a, b = math.sqrt(2 / math.pi), 0.044715
    t = torch.tanh(a * (x + b * x**3))
    return (1 + t) / 2 + x / 2 * (1 - t * t) * a * (1 + 3 * b * x * x)


def head(q, k, v, rate, tau, gamma, beta, layers, mini):
    """One sequence of one head; layers: [(w, b)] or [(w1, b1), (w2, b2)]. Returns the output (tokens, D)."""
    width = q.shape[1]

    def standard(z):
        centred = z - z.mean(1, keepdim=True)
        sigma = torch.sqrt((centred**2).mean(1, keepdim=True) + EPS)
        return centred / sigma, sigma

    rows = []
    for first in range(0, q.shape[0], mini):
        part = slice(first, min(first + mini, q.shape[0]))
        n = part.stop - part.start
        step, last = tau[:n, None], tau[n - 1]
        keys, queries = [k[part]], [q[part]]  # what each layer is given
        z = [keys[0] @ layers[0][0] + layers[0][1]]
        if len(layers) == 2:
            keys.append(F.gelu(z[0], approximate="tanh"))
            z.append(keys[1] @ layers[1][0] + layers[1][1])
        zhat, sigma = standard(z[-1])
        y = gamma * (gamma * zhat + beta - (v[part] - k[part]))
        slope = [(y - y.mean(1, keepdim=True) - zhat * (y * zhat).mean(1, keepdim=True)) / sigma]
        if len(layers) == 2:
            slope.insert(0, slope[0] @ layers[1][0].T * gelu_slope(z[0]))
        after = []
        for i, (w, b) in enumerate(layers):
            u = rate[part, None] * slope[i]
            pairs = torch.tril(1 + queries[i] @ keys[i].T)
            out = queries[i] @ w + b - step * (pairs @ u)
            queries.append(F.gelu(out, approximate="tanh"))
            after.append((w - last * keys[i].T @ u, b - last * u.sum(0)))
        rows.append(q[part] + gamma * standard(out)[0] + beta)
        layers = after
    return torch.cat(rows)


def layer(x, p, rope, c):
    """The op: x (N, width) to (N, H*D)."""
    heads, d, m, seq = c["heads"], c["head_dim"], c["mini"], c["seq"]
    tau = torch.clamp(1 / torch.arange(1, m + 1).double() + p["index"], min=0)
    rows = []
    for s in range(c["batch"]):
        mine = x[s * seq:(s + 1) * seq]
        table = rope[torch.arange(seq) % m]
        columns = []
        for h in range(heads):
            q, k, v = (mine[:, (part * heads + h) * d:(part * heads + h + 1) * d] for part in range(3))
            rate = c["base_rate"] / d * torch.sigmoid(mine[:, 3 * heads * d + h] + p["rate_bias"][h])
            layers = [(p["w1"][h], p["b1"][h])]
            if c["kind"] == "mlp":
                layers.append((p["w2"][h], p["b2"][h]))
            columns.append(head(turned(q, table), turned(k, table), v, rate, tau, p["gamma"][h], p["beta"][h],
                                layers, m))
        rows.append(torch.cat(columns, 1))
    return torch.cat(rows)


def make(c, seed):
    torch.manual_seed(100 + seed)
    heads, d, m = c["heads"], c["head_dim"], c["mini"]
    f = 4 * d if c["kind"] == "mlp" else d

    def normal(*shape, scale=1.0):
        return torch.randn(*shape, dtype=torch.float64) * scale

    x = normal(c["batch"] * c["seq"], 3 * heads * d + heads + c["padding"])
    p = {"index": normal(m, scale=0.1), "rate_bias": normal(heads, scale=0.3),
         "gamma": 1 + normal(heads, d, scale=0.2), "beta": normal(heads, d, scale=0.2),
         "w1": normal(heads, d, f, scale=0.4), "b1": normal(heads, f, scale=0.2)}
    p["index"][1] = -0.8  # tau of the second token is 0
    if c["kind"] == "mlp":
        p.update(w2=normal(heads, f, d, scale=0.4), b2=normal(heads, d, scale=0.2))
    rope = rope_table(min(m, c["seq"]), d)
    for t in [x, *p.values()]:
        t.requires_grad_()
    out = layer(x, p, rope, c)
    dout = normal(*out.shape)
    gradients = torch.autograd.grad((out * dout).sum(), [x, *p.values()])
    stored = {"x": x, **p, "rope": rope, "out": out, "dout": dout, "dx": gradients[0]}
    stored.update({"d" + name: g for name, g in zip(p, gradients[1:])})
    return {name: t.detach().contiguous() for name, t in stored.items()}


def main():
    for seed, (name, c) in enumerate(CASES.items()):
        meta = {k: str(v) for k, v in c.items()}
        meta.update(eps=str(EPS), torch=torch.__version__)
        save(f"{sys.argv[1]}/{name}.safetensors", make(c, seed), meta)


if __name__ == "__main__":
    main()
