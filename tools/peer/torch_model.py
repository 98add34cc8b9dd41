"""The models of torch_train.py."""
import math

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def make_model(spec, seq, naive, recompute):
    """GPT-2 and Llama by the same choices as pacer's presets: norm, feed-forward, positions, biases, tied head."""
    width, heads, kv_heads = spec["d-model"], spec["heads"], spec["kv-heads"]
    head = spec["head-dim"]

    def norm():
        if spec["norm"] == "layer":
            return nn.LayerNorm(width, eps=spec["norm-eps"])
        return nn.RMSNorm(width, eps=spec["norm-eps"])

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * head, bias=spec["bias"] or spec.get("qkv-bias", False))
            self.proj = nn.Linear(heads * head, width, bias=spec["bias"])

        def forward(self, x, angles, mask):
            batch, length, _ = x.shape
            q, k, v = self.qkv(x).split((heads * head, kv_heads * head, kv_heads * head), dim=-1)
            q = q.view(batch, length, heads, head).transpose(1, 2)
            k = k.view(batch, length, kv_heads, head).transpose(1, 2)
            v = v.view(batch, length, kv_heads, head).transpose(1, 2)
            if angles is not None:
                q, k = turn(q, *angles), turn(k, *angles)
            if kv_heads != heads:
                k, v = (t.repeat_interleave(heads // kv_heads, dim=1) for t in (k, v))
            if naive:
                scores = (q @ k.transpose(-2, -1)) / math.sqrt(head)
                y = scores.masked_fill(mask, float("-inf")).softmax(dim=-1).to(v.dtype) @ v
            else:
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.proj(y.transpose(1, 2).reshape(batch, length, heads * head))

    def scaled(rates):
        kind = spec.get("rope-scaling", "none")
        if kind == "linear":
            return rates / spec["rope-factor"]
        if kind == "llama3":
            turns = spec["rope-context"] * rates / (2 * math.pi)
            kept = ((turns - spec["rope-low"]) / (spec["rope-high"] - spec["rope-low"])).clamp(0, 1)
            return (1 - kept) * rates / spec["rope-factor"] + kept * rates
        if kind == "yarn":
            per_log, period = head / (2 * math.log(spec["rope-base"])), spec["rope-context"] / (2 * math.pi)
            first = max(math.floor(per_log * math.log(period / spec["rope-high"])), 0)
            last = min(math.ceil(per_log * math.log(period / spec["rope-low"])), head - 1)
            last += 0.001 if last == first else 0
            kept = (1 - (torch.arange(head // 2).float() - first) / (last - first)).clamp(0, 1)
            return (1 - kept) * rates / spec["rope-factor"] + kept * rates
        return rates

    def gain():
        if spec.get("rope-scaling", "none") != "yarn":
            return 1.0
        return spec["rope-gain"] or 1 + math.log(spec["rope-factor"]) / 10

    def turn(x, cosine, sine):
        a, b = x.chunk(2, dim=-1)
        cosine, sine = cosine.to(x.dtype), sine.to(x.dtype)
        return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1)

    class FeedForward(nn.Module):
        def __init__(self):
            super().__init__()
            self.gated = spec["ffn-kind"] in ("swiglu", "geglu")
            self.act = {"swiglu": F.silu, "relu2": lambda x: F.relu(x).square()}.get(
                spec["ffn-kind"], lambda x: F.gelu(x, approximate="tanh"))
            self.up = nn.Linear(width, spec["ffn"] * (2 if self.gated else 1), bias=spec["bias"] and not self.gated)
            self.proj = nn.Linear(spec["ffn"], width, bias=spec["bias"])

        def forward(self, x):
            h = self.up(x)
            if self.gated:
                gate, h = h.chunk(2, dim=-1)
                return self.proj(self.act(gate) * h)
            return self.proj(self.act(h))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.attention, self.norm2, self.ffn = norm(), Attention(), norm(), FeedForward()

        def forward(self, x, angles, mask):
            x = x + self.attention(self.norm1(x), angles, mask)
            return x + self.ffn(self.norm2(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(spec["vocab"], width)
            self.places = nn.Embedding(spec["context"], width) if spec["learned-positions"] else None
            self.blocks = nn.ModuleList(Block() for _ in range(spec["layers"]))
            self.norm, self.head = norm(), nn.Linear(width, spec["vocab"], bias=False)
            if "rope-base" in spec:
                rates = scaled(spec["rope-base"] ** (-torch.arange(0, head, 2).float() / head))
                angle = torch.arange(seq).float()[:, None] * rates
                self.register_buffer("cosine", gain() * angle.cos(), persistent=False)
                self.register_buffer("sine", gain() * angle.sin(), persistent=False)
            if naive:
                above = torch.ones(seq, seq, dtype=torch.bool).triu(1)
                self.register_buffer("mask", above, persistent=False)
            self.begin()
            if spec["tied"]:
                self.head.weight = self.embed.weight

        def begin(self):
            small = 0.02 / math.sqrt(2 * spec["layers"]) if spec["scaled-residual"] else 0.02
            for name, part in self.named_modules():
                if isinstance(part, (nn.Linear, nn.Embedding)):
                    nn.init.normal_(part.weight, std=small if name.endswith(".proj") else 0.02)
                if isinstance(part, nn.Linear) and part.bias is not None:
                    nn.init.zeros_(part.bias)

        def forward(self, tokens, targets):
            x = self.embed(tokens)
            if self.places is not None:
                x = x + self.places.weight[: tokens.shape[1]]
            angles = (self.cosine, self.sine) if "rope-base" in spec else None
            mask = self.mask if naive else None
            for block in self.blocks:
                x = checkpoint(block, x, angles, mask, use_reentrant=False) if recompute else block(x, angles, mask)
            logits = self.head(self.norm(x))
            return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    return Model()
