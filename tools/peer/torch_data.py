"""Token batches for torch_train.py: shards that `pacer data prepare` made (docs/reference/formats.md), or random tokens."""
import json
import math
import mmap
import os
import struct

import torch

HEADER_BYTES = 256  # of a shard
RANDOM_BATCHES = 8  # made before the clock runs, then used in turn


def read_split(folder, split):
    """The tokens of a split as one tensor of int32 or int16 bits; None when there is no such dataset."""
    try:
        with open(os.path.join(folder, "manifest.json")) as file:
            manifest = json.load(file)
    except (OSError, ValueError):
        return None
    parts = []
    for shard in manifest["shards"]:
        if shard["split"] != split:
            continue
        with open(os.path.join(folder, shard["file"]), "rb") as file:
            header = file.read(HEADER_BYTES)
            magic, version, width, tokens = struct.unpack_from("<8sIIQ", header)
            if magic != b"PACERSHD" or version != 1 or width not in (2, 4):
                raise SystemExit(f"{shard['file']}: not a shard that this script reads")
            view = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        kind = torch.uint16 if width == 2 else torch.int32
        parts.append(torch.frombuffer(view, dtype=kind, count=tokens, offset=HEADER_BYTES).to(torch.int32))
    return torch.cat(parts) if parts else None


class Batches:
    """Micro-batches of (inputs, targets), each (batch, seq), for one rank; `real` says whether they are text."""

    def __init__(self, told, rank, ranks, device):
        config = told["config"]
        self.device = device
        self.batch, self.seq = config["batch"], told["seq"]
        self.rank, self.ranks, self.seed, self.taken = rank, ranks, config["seed"], 0
        tokens = read_split(config["data"], "train")
        self.real = tokens is not None and len(tokens) > self.seq
        if self.real:
            self.tokens, self.val = tokens, read_split(config["data"], "validation")
            self.windows = (len(tokens) - 1) // self.seq
            self.epoch, self.order = -1, None
        else:
            generator = torch.Generator().manual_seed(config["seed"] * ranks + rank)
            shape = (RANDOM_BATCHES, self.batch, self.seq + 1)
            self.pool = torch.randint(0, told["model"]["vocab"], shape, generator=generator).to(device)

    def cut(self, tokens, windows):
        rows = torch.stack([tokens[w * self.seq: w * self.seq + self.seq + 1] for w in windows]).long()
        if self.device.type == "cuda":
            rows = rows.pin_memory().to(self.device, non_blocking=True)
        return rows[:, :-1], rows[:, 1:]

    def window(self, k):
        epoch, at = divmod(k, self.windows)
        if epoch != self.epoch:
            generator = torch.Generator().manual_seed(self.seed + 7919 * epoch)
            self.epoch, self.order = epoch, torch.randperm(self.windows, generator=generator)
        return int(self.order[at])

    def next(self):
        """Micro-step m of rank r holds sequences (m x ranks + r) x batch onwards."""
        if not self.real:
            rows = self.pool[self.taken % RANDOM_BATCHES]
            self.taken += 1
            return rows[:, :-1], rows[:, 1:]
        first = (self.taken * self.ranks + self.rank) * self.batch
        self.taken += 1
        return self.cut(self.tokens, [self.window(first + i) for i in range(self.batch)])

    def epochs_begun(self):
        return math.ceil(self.taken * self.ranks * self.batch / self.windows) if self.real else 1

    def validation(self, count):
        """Up to `count` batches from the beginning of the split."""
        if not self.real or self.val is None:
            return []
        windows = (len(self.val) - 1) // self.seq
        return [self.cut(self.val, range(i * self.batch, (i + 1) * self.batch))
                for i in range(min(count, windows // self.batch))]
