"""The network of `sullae train gpt` in PyTorch, trained with DistributedDataParallel over gloo: the same sizes, batch, optimizer and
dropout, on numbers drawn at random. A rank of torchrun; rank 0 prints {"samples_per_second": …}.

    torchrun --standalone --nproc-per-node 2 bench/language/pytorch.py STEPS PIECES
"""

import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

STEPS, PIECES = map(int, sys.argv[1:])
BATCH, CONTEXT, SIZE, HEADS, LAYERS, DROPOUT = 32, 128, 128, 4, 4, 0.1


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(SIZE), nn.LayerNorm(SIZE)
        self.qkv, self.mix = nn.Linear(SIZE, 3 * SIZE), nn.Linear(SIZE, SIZE)
        self.up, self.down = nn.Linear(SIZE, 4 * SIZE), nn.Linear(4 * SIZE, SIZE)
        self.register_buffer("later", torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1), persistent=False)

    def attend(self, x):
        q, k, v = self.qkv(x).view(x.size(0), CONTEXT, 3, HEADS, SIZE // HEADS).permute(2, 0, 3, 1, 4)
        if hasattr(F, "scaled_dot_product_attention"):
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(2, 3)) / (SIZE // HEADS) ** 0.5
            seen = F.softmax(scores.masked_fill(self.later, float("-inf")), -1) @ v
        return self.mix(seen.transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = x + F.dropout(self.attend(self.norm1(x)), DROPOUT, self.training)
        return x + F.dropout(self.down(F.gelu(self.up(self.norm2(x)))), DROPOUT, self.training)


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.pieces, self.places = nn.Embedding(PIECES, SIZE), nn.Embedding(CONTEXT, SIZE)
        self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.norm = nn.LayerNorm(SIZE)

    def forward(self, x):
        x = F.dropout(self.pieces(x) + self.places(torch.arange(CONTEXT)), DROPOUT, self.training)
        return F.linear(self.norm(self.blocks(x)), self.pieces.weight)


def main():
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    torch.manual_seed(1)
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(Gpt())
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.99), weight_decay=0.1)
    rows = BATCH // dist.get_world_size()
    seconds = []
    for _ in range(STEPS):
        numbers = torch.randint(0, PIECES, (rows, CONTEXT + 1))
        start = time.perf_counter()
        optimizer.zero_grad()
        F.cross_entropy(model(numbers[:, :-1]).flatten(0, 1), numbers[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        seconds.append(time.perf_counter() - start)
    if dist.get_rank() == 0:
        print(json.dumps({"samples_per_second": BATCH / statistics.median(seconds)}))


main()
