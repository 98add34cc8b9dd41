#!/usr/bin/env python3
"""Makes the small Hugging Face folders that tests/test_exchange.c reads.

    python3 tests/gold/make_hf.py tests/gold        (needs torch, transformers and safetensors)

Each folder hf_NAME is a random model as transformers saves it, with expected.safetensors beside it: ids of a fixed input and the
logits that transformers computes for them in float64 from the stored (rounded) weights, random targets, the gradients of the
mean cross-entropy by every parameter (grad.NAME), and the tokens that follow most likely, one by one, the first PROMPT of
ids[0].
"""
import json
import os
import shutil
import sys

import torch
from safetensors.torch import save_file
from transformers import (AutoModelForCausalLM, Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM,
                          Gemma3TextConfig, GPT2Config, GPT2LMHeadModel, LlamaConfig,
                          LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM)

LLAMA = dict(vocab_size=53, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=19, bos_token_id=0, eos_token_id=0)
WIDE = {**LLAMA, "hidden_size": 96, "max_position_embeddings": 31}
GEMMA = {**LLAMA, "head_dim": 8, "pad_token_id": None, "sliding_window": 5, "query_pre_attn_scalar": 12, "rms_norm_eps": 1e-5,
         "final_logit_softcapping": 6.0}
PROMPT = 5
CASES = {
    "gpt2": dict(config=lambda: GPT2Config(vocab_size=59, n_positions=17, n_embd=20, n_layer=2, n_head=4, n_inner=52,
                                           bos_token_id=0, eos_token_id=0, layer_norm_epsilon=2e-5),
                 model=GPT2LMHeadModel, dtype=torch.float32),
    "llama": dict(config=lambda: LlamaConfig(**LLAMA, rms_norm_eps=1e-6, tie_word_embeddings=False,
                                             rope_parameters={"rope_type": "default", "rope_theta": 500000.0}),
                  model=LlamaForCausalLM, dtype=torch.bfloat16),
    "llama_tied": dict(config=lambda: LlamaConfig(**{**LLAMA, "num_key_value_heads": 6, "hidden_size": 36},
                                                  rms_norm_eps=1e-5, tie_word_embeddings=True),
                       model=LlamaForCausalLM, dtype=torch.float16),
    "sharded": dict(config=lambda: GPT2Config(vocab_size=31, n_positions=13, n_embd=12, n_layer=3, n_head=3,
                                              tie_word_embeddings=False, bos_token_id=0, eos_token_id=0),
                    model=GPT2LMHeadModel, dtype=torch.float32, shard="8KB"),
    "qwen2": dict(config=lambda: Qwen2Config(
        **LLAMA, rms_norm_eps=1e-6, tie_word_embeddings=True, sliding_window=7,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}),
        model=Qwen2ForCausalLM, dtype=torch.bfloat16),
    "llama3": dict(config=lambda: LlamaConfig(
        **WIDE, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters={"rope_type": "llama3", "rope_theta": 1000.0, "factor": 8.0,
                         "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 16}),
        model=LlamaForCausalLM, dtype=torch.bfloat16),
    "stretched": dict(config=lambda: MistralConfig(
        **LLAMA, rms_norm_eps=1e-5, tie_word_embeddings=False, sliding_window=None, head_dim=6,
        rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}),
        model=MistralForCausalLM, dtype=torch.float16),
    "yarn": dict(config=lambda: Qwen2Config(
        **WIDE, rms_norm_eps=1e-6, tie_word_embeddings=True,
        rope_parameters={"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0,
                         "beta_fast": 2.0, "original_max_position_embeddings": 16}),
        model=Qwen2ForCausalLM, dtype=torch.bfloat16),
    "qwen3": dict(config=lambda: Qwen3Config(
        **LLAMA, head_dim=10, rms_norm_eps=1e-6, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 1000000.0}),
        model=Qwen3ForCausalLM, dtype=torch.bfloat16),
    "mistral": dict(config=lambda: MistralConfig(
        **LLAMA, rms_norm_eps=1e-5, tie_word_embeddings=False, sliding_window=5, head_dim=8,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
        model=MistralForCausalLM, dtype=torch.float32),
    "gemma2": dict(config=lambda: Gemma2Config(
        **{**GEMMA, "num_hidden_layers": 3}, attn_logit_softcapping=2.0),
        model=Gemma2ForCausalLM, dtype=torch.bfloat16),
    "gemma3": dict(config=lambda: Gemma3TextConfig(
        **{**GEMMA, "num_hidden_layers": 4}, sliding_window_pattern=3,
        rope_parameters={"full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 2.0},
                         "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}),
        model=Gemma3ForCausalLM, dtype=torch.bfloat16),
}


def gradients(model, ids):
    """Targets, and by every parameter the gradient of the mean loss."""
    targets = torch.randint(0, model.config.vocab_size, ids.shape, dtype=torch.int32)
    logits = model(ids.long()).logits
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.long().flatten()).backward()
    grads = {"grad." + name: parameter.grad.float().contiguous() for name, parameter in model.named_parameters()}
    return {"targets": targets, **grads}


def continuation(model, ids):
    text = ids[:1, :PROMPT].long()
    while text.shape[1] < model.config.max_position_embeddings:
        text = torch.cat([text, model(text).logits[:, -1:].argmax(-1)], 1)
    return {"greedy": text[0, PROMPT:].int().contiguous()}


def make(folder, case, seed):
    torch.manual_seed(seed)
    config = case["config"]()
    model = case["model"](config)
    for parameter in model.parameters():  # far from what a fresh model has, so that nothing is hidden by ones and zeros
        parameter.data.normal_(0.1 if parameter.dim() == 1 else 0.0, 0.3)
    model = model.to(case["dtype"])
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, max_shard_size=case.get("shard", "1GB"))
    length = config.max_position_embeddings
    ids = torch.randint(0, config.vocab_size, (2, length), dtype=torch.int32)
    again = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).eval()
    with torch.no_grad():
        logits = again(ids.long()).logits
        more = continuation(again, ids)
    more.update(gradients(again, ids))
    save_file({"ids": ids, "logits": logits.float().contiguous(), **more}, os.path.join(folder, "expected.safetensors"))
    generation = os.path.join(folder, "generation_config.json")
    if os.path.exists(generation):
        os.remove(generation)
    print(folder, sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)), "bytes",
          json.load(open(os.path.join(folder, "config.json")))["model_type"])


if __name__ == "__main__":
    for number, (name, case) in enumerate(CASES.items()):
        make(os.path.join(sys.argv[1], "hf_" + name), case, 11 + number)
