"""The models of `sullae train` in PyTorch, trained with DistributedDataParallel over gloo: the same layers, data, batch, optimizer
and threads. One rank of $SULLAE_SIZE; prints "samples_per_second X", and with --epochs "test_accuracy X" too.

    sullae run -np 2 python3 bench/training/peer.py mnist --data DIR --steps 300
    python3 bench/training/peer.py nsmc --data DIR --epochs 2 --sparse      the accuracy of one process
"""

import argparse
import gzip
import os
import time
from collections import Counter

import numpy
import torch
import torch.distributed as dist
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("model", choices=["mnist", "nsmc"])
parser.add_argument("--data", required=True)
parser.add_argument("--batch-size", type=int, default=64, help="over all ranks together")
parser.add_argument("--steps", type=int, default=0)
parser.add_argument("--epochs", type=int, default=0)
parser.add_argument("--sparse", action="store_true", help="sparse gradients of the embedding, with SparseAdam")
parser.add_argument("--seed", type=int, default=1)
args = parser.parse_args()

rank = int(os.environ.get("SULLAE_RANK", "0"))
size = int(os.environ.get("SULLAE_SIZE", "1"))
torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
torch.manual_seed(args.seed)
if size > 1:
    store = dist.FileStore(os.environ["GLOO_STORE"] + "/ddp", size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)


class Mnist:
    def __init__(self):
        def read(name, header):
            with gzip.open(f"{args.data}/{name}.gz") as file:
                return torch.from_numpy(numpy.frombuffer(file.read(), numpy.uint8, offset=header).copy())

        self.images = {"train": read("train-images-idx3-ubyte", 16).view(-1, 1, 28, 28),
                       "test": read("t10k-images-idx3-ubyte", 16).view(-1, 1, 28, 28)}
        self.labels = {"train": read("train-labels-idx1-ubyte", 8).long(), "test": read("t10k-labels-idx1-ubyte", 8).long()}
        self.model = nn.Sequential(nn.Conv2d(1, 16, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(16, 32, 5), nn.MaxPool2d(2), nn.ReLU(),
                                   nn.Flatten(), nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, 10))

    def batch(self, split, index):
        images = (self.images[split][index].float() - 255 * 0.1307) / (255 * 0.3081)
        return (images,), self.labels[split][index]


class Classifier(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.embedding = nn.Embedding(words, 300, sparse=args.sparse)
        with torch.no_grad():
            self.embedding.weight.normal_(0, 0.1)
        self.lstm = nn.LSTM(300, 300)
        self.output = nn.Linear(300, 2)
        self.dropout = nn.Dropout(0.3)

    def forward(self, words, batch_sizes):
        vectors = self.dropout(self.embedding(words))
        packed = nn.utils.rnn.PackedSequence(vectors, batch_sizes)
        return self.output(self.dropout(self.lstm(packed)[1][0].squeeze(0)))


class Nsmc:
    def __init__(self):
        texts = {}
        for split in ("train", "test"):
            with gzip.open(f"{args.data}/ratings_{split}.txt.gz", "rt", encoding="utf-8", newline="\n") as file:
                rows = [line.rstrip("\r\n").split("\t") for line in file][1:]
            texts[split] = [row[1].split() for row in rows]
            setattr(self, split + "_labels", torch.tensor([int(row[2]) for row in rows]))
        counts = Counter(word for text in texts["train"] for word in text)
        numbers = {word: i + 2 for i, (word, _) in enumerate(counts.most_common())}
        self.words = {split: [[numbers.get(word, 1) for word in text[:64]] or [1] for text in texts[split]] for split in texts}
        self.labels = {"train": self.train_labels, "test": self.test_labels}
        self.model = Classifier(len(numbers) + 2)

    def batch(self, split, index):
        order = sorted(index.tolist(), key=lambda i: -len(self.words[split][i]))
        words, sizes = [], []
        for step in range(len(self.words[split][order[0]])):
            column = [self.words[split][i][step] for i in order if len(self.words[split][i]) > step]
            words += column
            sizes.append(len(column))
        return (torch.tensor(words), torch.tensor(sizes)), self.labels[split][order]


task = Mnist() if args.model == "mnist" else Nsmc()
model = nn.parallel.DistributedDataParallel(task.model) if size > 1 else task.model
sparse = [p for n, p in task.model.named_parameters() if args.sparse and n.startswith("embedding")]
dense = [p for p in task.model.parameters() if all(p is not q for q in sparse)]
optimizers = [torch.optim.Adam(dense, 1e-3)]
if sparse:
    optimizers.append(torch.optim.SparseAdam(sparse, 1e-3))

count = len(task.labels["train"])
share = args.batch_size // size
warm_up = 5
done = 0
start = None
torch.manual_seed(args.seed + 100 + rank)
order_generator = torch.Generator().manual_seed(args.seed)
for epoch in range(max(args.epochs, 1000 if args.steps else 0)):
    task.model.train()
    order = torch.randperm(count, generator=order_generator)
    for begin in range(0, count - args.batch_size + 1, args.batch_size):
        inputs, labels = task.batch("train", order[begin + rank * share:begin + (rank + 1) * share])
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(model(*inputs), labels).backward()
        for optimizer in optimizers:
            optimizer.step()
        done += 1
        if done == warm_up:
            start = time.perf_counter()
        if args.steps and done == warm_up + args.steps:
            break
    if args.steps and done == warm_up + args.steps:
        break
if rank == 0:
    print("samples_per_second", (done - warm_up) * args.batch_size / (time.perf_counter() - start), flush=True)

if args.epochs:
    task.model.eval()
    with torch.no_grad():
        right = 0
        for index in torch.arange(len(task.labels["test"])).split(250):
            inputs, labels = task.batch("test", index)
            right += (task.model(*inputs).argmax(1) == labels).sum().item()
    if rank == 0:
        print("test_accuracy", right / len(task.labels["test"]), flush=True)
