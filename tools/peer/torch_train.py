#!/usr/bin/env python3
"""One run of an experiment by PyTorch, beside those of pacer.

    torch_train.py --probe     prints "torch VERSION gpus N", or fails where torch cannot be imported
    torch_train.py TOLD.json   trains as `pacer sweep` has written there, and leaves a run directory

The model has the dimensions, initial spread, optimizer and schedule of pacer's; the numbers themselves are PyTorch's own.
Tokens come from a folder that `pacer data prepare` made, in an order of their own; with other data they are random, which
makes time and memory comparable and the losses meaningless: those are then left out. What is recorded is in
docs/reference/formats.md. Exit status: 0 done, 3 out of memory, 1 anything else, with a last line that says why.
"""
import time

STARTED = time.perf_counter()

import contextlib
import datetime
import fcntl
import json
import math
import os
import platform
import resource
import shutil
import sys
import traceback

ERROR_MARK = "pacer: error: "  # what a sweep looks for in the log
sys.dont_write_bytecode = True  # the folder may be an installed one


# --- records ---


def stamp():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def save_json(path, tree):
    """Replaces path as one event."""
    beside = f"{path}.tmp-{os.getpid()}"
    with open(beside, "w") as file:
        json.dump(tree, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


def quantile(values, part):
    """Linear between neighbours; None of nothing."""
    ordered = sorted(values)
    if not ordered:
        return None
    at = part * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (at - low) * (ordered[high] - ordered[low])


def machine(device_name):
    found = {"host": platform.node(), "kernel": f"{platform.system()} {platform.release()}",
             "cores": len(os.sched_getaffinity(0))}
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                found["cpu"] = line.split(":", 1)[1].strip()
                break
    if device_name is not None:
        found["device"] = device_name
    return found


def span(seconds, count=1):
    return {"total_s": seconds, "count": count, "mean_s": seconds / count if count else None}


class Record:
    """run.json, metrics.jsonl and ranks/K.json of one run; rank 0 writes the first two."""

    def __init__(self, told, rank, version, parameters, device_name, note):
        self.dir, self.rank, self.lines = told["out"], rank, None
        model = {key: told["model"][key] for key in ("name", "vocab", "context")}
        model["parameters"] = parameters
        self.run = {"schema": 1, "id": told["id"], "status": "running", "started": stamp(),
                    "peer": {"name": told["peer"], "version": version}, "total_steps": told["steps"],
                    "model": model, "config": told["config"], "machine": machine(device_name)}
        if note:
            self.run["peer"]["note"] = note
        if rank == 0:
            self.save()
            self.lines = open(os.path.join(self.dir, "metrics.jsonl"), "w", buffering=1)

    def save(self):
        self.run["updated"] = stamp()
        save_json(os.path.join(self.dir, "run.json"), self.run)

    def line(self, **fields):
        if self.lines is not None:
            self.lines.write(json.dumps(fields, separators=(",", ":")) + "\n")

    def finish(self, summary):
        if self.rank == 0:
            self.lines.close()
            self.run.update(status="done", summary=summary)
            self.save()

    def finish_rank(self, ranks, device, spans, memory):
        folder = os.path.join(self.dir, "ranks")
        os.makedirs(folder, exist_ok=True)
        save_json(os.path.join(folder, f"{self.rank}.json"),
                  {"schema": 1, "rank": self.rank, "ranks": ranks, "host": platform.node(), "device": device,
                   "wall_s": spans["total"]["total_s"], "spans": spans, "memory": memory, "gpu": None})


# --- training ---


def rate_at(told, step):
    """Learning rate of update `step`, counted from 0, as docs/guide/train.md defines the schedules."""
    config, warmup, total, floor = told["config"], told["warmup"], told["steps"], told["min_lr"]
    peak, kind, top = config["lr"], config["schedule"], max(0, warmup - 1)

    def progress(start):
        return min(1.0, max(0.0, (step - start) / (total - 1 - start))) if total - 1 > start else 0.0

    if step < warmup:
        return peak * (step + 1) / warmup
    height = 1.0
    if kind == "cosine":
        height = 0.5 * (1 + math.cos(math.pi * progress(top)))
    elif kind == "linear":
        height = 1 - progress(top)
    elif kind == "wsd":
        height = 1 - math.sqrt(progress(max(top, (1 - config["wsd-decay"]) * total - 1)))
    return floor + height * (peak - floor)


def make_optimizer(torch, model, config):
    """Matrices and embeddings decay, norms and biases do not."""
    params = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in params if p.dim() > 1], "weight_decay": config["weight-decay"]},
              {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0}]
    settings = {"lr": config["lr"], "betas": (config["beta1"], config["beta2"]), "eps": config["eps"]}
    try:
        return torch.optim.AdamW(groups, fused=True, **settings)
    except (RuntimeError, TypeError):  # a version without the fused kernel for this device
        return torch.optim.AdamW(groups, **settings)


class StepTimes:
    """Milliseconds of each step: by events of the GPU, which cost no waiting, or by the clock."""

    def __init__(self, torch, device):
        self.torch, self.gpu, self.marks = torch, device.type == "cuda", []

    def mark(self):
        if self.gpu:
            event = self.torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.perf_counter())

    def all(self):
        pairs = zip(self.marks[::2], self.marks[1::2])
        return [a.elapsed_time(b) if self.gpu else 1e3 * (b - a) for a, b in pairs]


def train(rank, told):
    import torch
    from torch_data import Batches
    from torch_model import make_model

    config, ranks = told["config"], told["config"]["ranks"]
    device = torch.device("cuda", rank) if config["device"] == "cuda" else torch.device("cpu")
    on_gpu = device.type == "cuda"
    threads = config["threads"] or max(1, len(os.sched_getaffinity(0)) // ranks)
    torch.set_num_threads(threads)
    torch.manual_seed(config["seed"])
    if on_gpu:
        torch.cuda.set_device(device)
    if ranks > 1:
        meet = os.path.abspath(os.path.join(told["out"], "rendezvous"))
        torch.distributed.init_process_group("nccl" if on_gpu else "gloo", init_method=f"file://{meet}",
                                             rank=rank, world_size=ranks)
    model = make_model(told["model"], told["seq"], config["attention"] == "naive", config["recompute"] == "block")
    parameters = sum(p.numel() for p in model.parameters())
    model = model.to(device)
    optimizer = make_optimizer(torch, model, config)
    net = model
    if ranks > 1:
        net = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank] if on_gpu else None,
                                                        gradient_as_bucket_view=True)
    if told["peer"] == "torch-compile":
        net = torch.compile(net)
    batches = Batches(told, rank, ranks, device)
    note = "" if batches.real else "trained on random tokens of the same vocabulary: losses would mean nothing"
    record = Record(told, rank, torch.__version__, parameters,
                    torch.cuda.get_device_name(device) if on_gpu else None, note)
    low = config["dtype"] == "bf16"

    def loss_of(pair):
        with torch.autocast(device.type, torch.bfloat16, enabled=low):
            return net(*pair)

    def settle():
        if on_gpu:
            torch.cuda.synchronize(device)

    warm_up(torch, model, optimizer, loss_of, batches, config)
    settle()
    batches.taken = 0
    times = StepTimes(torch, device)
    tokens_update = config["batch"] * config["accum"] * ranks * told["seq"]
    begun = time.perf_counter()
    init_s, val_s, last_line, logged = begun - STARTED, 0.0, begun, 0
    val_loss = best = loss = None

    def evaluate():
        pairs = batches.validation(config["eval-batches"])
        with torch.no_grad():
            return sum(float(loss_of(pair)) for pair in pairs) / len(pairs) if pairs else None

    for step in range(told["steps"]):
        for group in optimizer.param_groups:
            group["lr"] = rate_at(told, step)
        times.mark()
        total = 0.0
        for micro in range(config["accum"]):
            hold = ranks > 1 and micro + 1 < config["accum"]
            with model_sync(net, hold):
                loss = loss_of(batches.next()) / config["accum"]
                loss.backward()
            total = total + loss.detach()
        norm = None
        if config["clip"] > 0:
            norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config["clip"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.mark()
        done = step + 1
        if done == 1 or done % config["log-every"] == 0 or done == told["steps"]:
            settle()
            now = time.perf_counter()
            seconds, loss = (now - last_line) / (done - logged), float(total)
            record.line(step=done, tokens=done * tokens_update, loss=loss if batches.real else None,
                        lr=rate_at(told, step), grad_norm=None if norm is None else float(norm),
                        tok_s=tokens_update / seconds, ms=1e3 * seconds,
                        peak_bytes=torch.cuda.max_memory_allocated(device) if on_gpu else None)
            last_line, logged = now, done
        every = config["eval-every"]
        if batches.real and ((every and done % every == 0) or done == told["steps"]):
            settle()
            start = time.perf_counter()
            val_loss = evaluate()
            settle()
            spent = time.perf_counter() - start
            val_s, last_line = val_s + spent, last_line + spent
            if val_loss is not None:
                best = val_loss if best is None else min(best, val_loss)
                record.line(step=done, val_loss=val_loss)
    settle()
    ended = time.perf_counter()
    finish(torch, record, told, device, batches, times.all(), init_s, ended - begun, val_s,
           {"train_loss": loss if batches.real else None, "val_loss": val_loss, "best_val_loss": best})


def warm_up(torch, model, optimizer, loss_of, batches, config):
    """All that a run does, twice, so that compiling and first allocations are no part of its steps. At a rate of 0 the
    weights stay as they are; what the optimizer keeps is set back."""
    pairs = batches.validation(1) or [batches.next()]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    for _ in range(2):
        loss_of(pairs[0]).backward()
        if config["clip"] > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), config["clip"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            loss_of(pairs[0])
            for kept in optimizer.state.values():
                for value in kept.values():
                    value.zero_()


def model_sync(net, hold):
    """Gradients stay on their rank while more are to be added."""
    return net.no_sync() if hold else contextlib.nullcontext()


def finish(torch, record, told, device, batches, ms, init_s, worker_s, val_s, losses):
    """Each rank's file, and behind the last of them the run's."""
    on_gpu, ranks = device.type == "cuda", told["config"]["ranks"]
    epochs, steps = batches.epochs_begun(), told["steps"]
    train_s, wall_s = worker_s - val_s, time.perf_counter() - STARTED
    memory = {"peak_bytes": torch.cuda.max_memory_allocated(device) if on_gpu else None,
              "reserved_bytes": torch.cuda.max_memory_reserved(device) if on_gpu else None,
              "resident_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss}
    spans = {"total": span(wall_s), "init": span(init_s), "worker": span(worker_s),
             "epoch": span(worker_s, epochs), "training": span(train_s, epochs), "update": span(train_s, steps)}
    name = f"cuda:{device.index}" if on_gpu else "cpu"
    record.finish_rank(ranks, name, spans, memory)
    if ranks > 1:
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    config = told["config"]
    tokens = steps * config["batch"] * config["accum"] * ranks * told["seq"]
    record.finish({"steps": steps, "tokens": tokens, "tok_s": tokens / train_s, "wall_s": wall_s, "train_s": train_s,
                   "val_s": val_s, "init_s": init_s, **losses, "peak_bytes": memory["peak_bytes"],
                   "reserved_bytes": memory["reserved_bytes"], "step_p50_ms": quantile(ms, 0.5),
                   "step_p95_ms": quantile(ms, 0.95), "step_max_ms": max(ms)})


# --- the program ---


def lock(folder):
    """As `pacer train` does, so that a sweep that finds this run under way waits for it."""
    os.makedirs(folder, exist_ok=True)
    file = open(os.path.join(folder, "lock"), "a")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    for name in os.listdir(folder):  # of an attempt that was cut off: a run of a peer begins anew
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            shutil.rmtree(path)
        elif name != "lock":
            os.remove(path)
    return file


def main(arguments):
    if arguments == ["--probe"]:
        import torch

        print(f"torch {torch.__version__} gpus {torch.cuda.device_count() if torch.cuda.is_available() else 0}")
        return 0
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with open(arguments[0]) as file:
        told = json.load(file)
    held = lock(told["out"])
    try:
        if told["config"]["ranks"] > 1:
            import torch.multiprocessing

            torch.multiprocessing.spawn(train, args=(told,), nprocs=told["config"]["ranks"])
        else:
            train(0, told)
        with contextlib.suppress(OSError):
            os.remove(os.path.join(told["out"], "rendezvous"))
        return 0
    except Exception as problem:  # whatever PyTorch meets becomes the reason of a row
        text = f"{type(problem).__name__}: {problem}"
        full = "OutOfMemoryError" in text or "out of memory" in text or "can't allocate memory" in text
        traceback.print_exc()
        last = [line for line in text.splitlines() if line.strip()][-1]
        print(f"{ERROR_MARK}PyTorch {'ran out of memory: ' if full else ''}{last.strip()[:400]}", flush=True)
        return 3 if full else 1
    finally:
        held.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
