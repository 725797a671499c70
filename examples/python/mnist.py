"""MNIST with PyTorch, on any number of ranks:

    sullae run -np 2 python examples/python/mnist.py --data ../shared/data/mnist

The lines with ``hvd`` are all that make it distributed."""

import argparse
import gzip
import pathlib
import time

import numpy
import torch

import sullae.torch as hvd


def read_idx(folder: pathlib.Path, name: str) -> torch.Tensor:
    plain, packed = folder / name, folder / f"{name}.gz"
    if not plain.exists() and not packed.exists():
        raise SystemExit(f"{plain}: not there, nor {packed.name}: expected MNIST's four IDX files in --data")
    data = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
    dimensions = data[3]
    shape = numpy.frombuffer(data, ">u4", dimensions, 4).tolist()
    return torch.from_numpy(numpy.frombuffer(data, numpy.uint8, -1, 4 + 4 * dimensions).reshape(shape).copy())


def network() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 5, padding=2),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 5, padding=2),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(32 * 7 * 7, 128),
        torch.nn.ReLU(),
        torch.nn.Linear(128, 10),
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--data", type=pathlib.Path, required=True, help="the folder of MNIST's IDX files, plain or .gz")
    arguments.add_argument("--epochs", type=int, default=3)
    arguments.add_argument("--batch-size", type=int, default=64, help="of all ranks together")
    arguments.add_argument("--lr", type=float, default=0.02)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()

    hvd.init()
    torch.manual_seed(options.seed)
    torch.set_num_threads(1)
    images = read_idx(options.data, "train-images-idx3-ubyte")[:, None] / 255
    labels = read_idx(options.data, "train-labels-idx1-ubyte").long()
    dataset = torch.utils.data.TensorDataset(images, labels)
    batch = options.batch_size // hvd.size()
    sampler = hvd.DistributedSampler(dataset, seed=options.seed, drop_last=True, block=batch)

    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)
    steps = options.epochs * (len(sampler) // batch)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)

    start = time.perf_counter()
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        indices = torch.tensor(list(sampler))
        for rows in indices.split(batch):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images[rows]), labels[rows])
            loss.backward()
            optimizer.step()
            schedule.step()
        if hvd.rank() == 0:
            print(f"epoch {epoch + 1}: loss {loss.item():.4f}", flush=True)
    seconds = time.perf_counter() - start

    test_images = read_idx(options.data, "t10k-images-idx3-ubyte")[:, None] / 255
    test_labels = read_idx(options.data, "t10k-labels-idx1-ubyte").long()
    own = slice(hvd.rank(), None, hvd.size())
    with torch.no_grad():
        right = sum(
            (model(part).argmax(1) == expected).sum()
            for part, expected in zip(test_images[own].split(1000), test_labels[own].split(1000))
        )
    right = hvd.allreduce(right, op=hvd.Sum)
    if hvd.rank() == 0:
        samples = options.epochs * len(indices) * hvd.size()
        print(f"test accuracy {100 * right.item() / len(test_labels):.2f} %, {samples / seconds:.0f} samples/s")


if __name__ == "__main__":
    main()
