"""Texts that a GPT-2 of Hugging Face's Transformers goes on with, with its KV cache, as one batch; weights drawn at random. Prints
{"tokens_per_second": …}.

    transformers_generate.py SIZE HEADS LAYERS CONTEXT PIECES TEXTS TOKENS
"""

import json
import sys
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel

SIZE, HEADS, LAYERS, CONTEXT, PIECES, TEXTS, TOKENS = map(int, sys.argv[1:])
torch.manual_seed(1)
config = GPT2Config(vocab_size=PIECES, n_positions=CONTEXT, n_embd=SIZE, n_layer=LAYERS, n_head=HEADS, eos_token_id=None, bos_token_id=None)
model = GPT2LMHeadModel(config).eval()
prompts = torch.randint(0, PIECES, (TEXTS, 8))


def write(tokens):
    return model.generate(prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=tokens, min_new_tokens=tokens, do_sample=True,
                          temperature=0.8, top_k=0, pad_token_id=0)


write(8)
start = time.perf_counter()
written = write(TOKENS)
assert written.shape == (TEXTS, prompts.shape[1] + TOKENS), written.shape
print(json.dumps({"tokens_per_second": TEXTS * TOKENS / (time.perf_counter() - start)}))
