#!/usr/bin/env python3
"""Holds pacer's exchange with Hugging Face against transformers itself.

    python3 tests/tools/hf_check.py BUILD TEXT [FOLDER]        (needs torch, transformers and safetensors)

BUILD has the programs pacer and tests/test_exchange, TEXT is any text file of some 100 KB. Trains small models, exports them, loads
them with transformers; saves random models of transformers', imports them; and compares logits (1e-4) and token ids. Not run by
`make test`, which has stored fixtures for the same.
"""
import logging
import os
import shutil
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

BUILD, TEXT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
WORK = sys.argv[3] if len(sys.argv) > 3 else tempfile.mkdtemp(prefix="hf-check-")
BOUND = 1e-4
SMALL = "--layers 2 --d-model 64 --heads 4 --context 64 --batch 4 --steps 20 --eval-every 0 --threads 1 --quiet".split()
RUNS = {
    "gpt2": ["--model", "gpt2-124m", "--ffn", "256", "--vocab", "600"],
    "gpt2-untied": ["--model", "gpt2-124m", "--ffn", "200", "--vocab", "608", "--tied", "off"],
    "llama": ["--model", "tiny", "--kv-heads", "2", "--ffn", "100", "--norm-eps", "1e-6", "--rope-base", "500000"],
    "llama-tied": ["--model", "llama-22m", "--ffn", "172", "--vocab", "600", "--tied", "on"],
    "qwen3": ["--model", "qwen3-0.6b", "--kv-heads", "2", "--head-dim", "24", "--ffn", "100", "--vocab", "600"],
    "mistral": ["--model", "mistral-7b", "--kv-heads", "2", "--ffn", "100", "--vocab", "600", "--window", "16"],
    "gemma2": ["--model", "gemma-2-2b", "--kv-heads", "2", "--head-dim", "24", "--ffn", "100", "--vocab", "600",
               "--window", "16", "--score-scale", "0.25"],
    "gemma3": ["--model", "gemma-3-1b", "--kv-heads", "1", "--head-dim", "24", "--ffn", "100", "--vocab", "600",
               "--window", "16", "--full-every", "2"],
}
LLAMA = dict(vocab_size=96, hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=6,
             max_position_embeddings=40, bos_token_id=0, eos_token_id=0)
RANDOM = {
    "gpt2": (GPT2LMHeadModel, GPT2Config(vocab_size=97, n_positions=32, n_embd=40, n_layer=3, n_head=5), torch.float32, "1GB"),
    "gpt2-untied": (GPT2LMHeadModel, GPT2Config(vocab_size=97, n_positions=32, n_embd=40, n_layer=3, n_head=5,
                                                tie_word_embeddings=False), torch.float16, "1GB"),
    "llama": (LlamaForCausalLM, LlamaConfig(**LLAMA, num_key_value_heads=2, rms_norm_eps=1e-6,
                                            rope_parameters={"rope_type": "default", "rope_theta": 5e5}), torch.bfloat16, "1GB"),
    "llama-tied": (LlamaForCausalLM, LlamaConfig(**LLAMA, num_key_value_heads=3, tie_word_embeddings=True), torch.float16, "1GB"),
    "sharded": (LlamaForCausalLM, LlamaConfig(**LLAMA, num_key_value_heads=6), torch.float32, "40KB"),
}
failed = False


def report(good, what):
    global failed
    failed |= not good
    print("ok    " if good else "FAILED", what, flush=True)


def pacer(*arguments):
    done = subprocess.run([os.path.join(BUILD, "pacer"), *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"pacer {' '.join(arguments)}: {done.stderr}")
    return done.stdout


def distance(model, folder):
    """How far pacer's logits of `model` are from folder/expected.safetensors."""
    done = subprocess.run([os.path.join(BUILD, "tests/test_exchange"), model, folder], capture_output=True, text=True)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else float("inf")


def expect(model, folder, length):
    """Stores what transformers computes for some ids."""
    ids = torch.randint(0, model.config.vocab_size, (2, length), dtype=torch.int32)
    with torch.no_grad():
        logits = model.eval()(ids.long()).logits
    save_file({"ids": ids, "logits": logits.float().contiguous()}, os.path.join(folder, "expected.safetensors"))


class Warnings(logging.Handler):
    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def load(folder, **options):
    """The model, whether every key found its place, and what transformers warned of."""
    heard = Warnings()
    logger = logging.getLogger("transformers")
    logger.addHandler(heard)
    model, info = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, **options)
    logger.removeHandler(heard)
    whole = not any(info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    return model, whole, heard.lines


def check_trained(name, options, shards, text):
    run, out = os.path.join(WORK, "run-" + name), os.path.join(WORK, "hf-" + name)
    pacer("train", *options, *SMALL, "--data", shards, "--out", run)
    for kind, more in {"f32": [], "sharded": ["--shard-bytes", "100k"], "bf16": ["--dtype", "bf16"]}.items():
        shutil.rmtree(out, ignore_errors=True)
        pacer("export", run, "--out", out, "--quiet", *more)
        model, whole, lines = load(out, dtype=torch.float64)
        report(whole and not lines, f"{name} {kind}: every key has its place, no warnings {lines}")
        expect(model, out, 64)
        off = distance(run, out)
        report(off < (2.0 if kind == "bf16" else BOUND), f"{name} {kind}: logits of the run off by {off:g}")
        off = distance(out, out)
        report(off < BOUND, f"{name} {kind}: logits of the exported folder off by {off:g}")
    ids = [int(i) for i in pacer("tokenizer", "encode", "--tokenizer", os.path.join(run, "tokenizer.json"), text).split()]
    tokenizer = AutoTokenizer.from_pretrained(out)
    report(tokenizer(open(text).read())["input_ids"] == ids, f"{name}: AutoTokenizer gives the same {len(ids)} ids")
    report(tokenizer.eos_token_id == model.config.eos_token_id is not None, f"{name}: eos is {tokenizer.eos_token!r}")


def check_random(name, kind, config, dtype, shard):
    torch.manual_seed(3)
    folder, run, back = (os.path.join(WORK, p + name) for p in ("random-", "imported-", "back-"))
    model = kind(config)
    for parameter in model.parameters():
        parameter.data.normal_(0.1 if parameter.dim() == 1 else 0.0, 0.2)
    model.to(dtype).save_pretrained(folder, max_shard_size=shard)
    model, _, _ = load(folder, dtype=torch.float64)
    expect(model, folder, 32)
    pacer("import", folder, "--out", run, "--quiet")
    for path in (folder, run):
        off = distance(path, folder)
        report(off < BOUND, f"random {name} ({dtype}, {len(os.listdir(folder))} files): {os.path.basename(path)} off by {off:g}")
    pacer("export", run, "--out", back, "--quiet")
    again, whole, lines = load(back, dtype=torch.float64)
    same = all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), again.state_dict().values()))
    report(whole and not lines and same, f"random {name}: comes back with the same weights {lines}")


def main():
    print("transformers", transformers.__version__, "torch", torch.__version__, "in", WORK)
    os.makedirs(WORK, exist_ok=True)
    text = os.path.join(WORK, "text.txt")
    with open(TEXT, encoding="utf-8", errors="ignore") as file, open(text, "w", encoding="utf-8") as part:
        part.write(file.read(200000))
    tok, shards = os.path.join(WORK, "tok.json"), os.path.join(WORK, "shards")
    pacer("tokenizer", "train", "--vocab", "600", "--out", tok, text)
    pacer("data", "prepare", "--tokenizer", tok, "--out", shards, text)
    for name, options in RUNS.items():
        check_trained(name, options, shards, text)
    for name, case in RANDOM.items():
        check_random(name, *case)
    if len(sys.argv) <= 3:
        shutil.rmtree(WORK)
    sys.exit(failed)


if __name__ == "__main__":
    main()
