"""MNIST with Keras on torch, on any number of ranks:

    sullae run -np 2 python examples/python/keras_mnist.py --data ../shared/data/mnist

The lines with ``hvd`` are all that make it distributed."""

import argparse
import gzip
import os
import pathlib
import time

import numpy

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras  # noqa: E402
import torch  # noqa: E402

import sullae.keras as hvd  # noqa: E402


def read_idx(folder: pathlib.Path, name: str) -> numpy.ndarray:
    plain, packed = folder / name, folder / f"{name}.gz"
    if not plain.exists() and not packed.exists():
        raise SystemExit(f"{plain}: not there, nor {packed.name}: expected MNIST's four IDX files in --data")
    data = plain.read_bytes() if plain.exists() else gzip.decompress(packed.read_bytes())
    dimensions = data[3]
    shape = numpy.frombuffer(data, ">u4", dimensions, 4).tolist()
    return numpy.frombuffer(data, numpy.uint8, -1, 4 + 4 * dimensions).reshape(shape)


def samples(folder: pathlib.Path, part: str):
    images = read_idx(folder, f"{part}-images-idx3-ubyte")[:, None].astype("float32") / 255
    return images, read_idx(folder, f"{part}-labels-idx1-ubyte").astype("int64")


def network() -> keras.Model:
    keras.config.set_image_data_format("channels_first")  # as torch computes
    return keras.Sequential(
        [
            keras.layers.Input((1, 28, 28)),
            keras.layers.Conv2D(16, 5, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(32, 5, padding="same", activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--data", type=pathlib.Path, required=True, help="the folder of MNIST's IDX files, plain or .gz")
    arguments.add_argument("--epochs", type=int, default=4)
    arguments.add_argument("--batch-size", type=int, default=32, help="of each rank")
    arguments.add_argument("--lr", type=float, default=0.01, help="for one rank; multiplied by their number")
    arguments.add_argument("--threads", type=int, default=1, help="of each rank")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--save", type=pathlib.Path, help="write the model to this .keras file")
    options = arguments.parse_args()

    hvd.init()
    torch.set_num_threads(options.threads)
    keras.utils.set_random_seed(options.seed + hvd.rank())
    images, labels = samples(options.data, "train")
    per_rank = len(images) // hvd.size()
    own = numpy.random.default_rng(options.seed).permutation(len(images))[hvd.rank() * per_rank :][:per_rank]

    model = network()
    rate = options.lr * hvd.size()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(rate, momentum=0.9))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(rate, warmup_epochs=1),
        hvd.callbacks.LearningRateScheduleCallback(rate, lambda epoch: 0.2, start_epoch=max(1, options.epochs - 1)),
    ]
    first = hvd.rank() == 0
    start = time.perf_counter()
    model.fit(
        images[own],
        labels[own],
        batch_size=options.batch_size,
        epochs=options.epochs,
        callbacks=callbacks,
        verbose=2 if first else 0,
    )
    seconds = time.perf_counter() - start

    if first:
        _, accuracy = model.evaluate(*samples(options.data, "t10k"), batch_size=1000, verbose=0)
        trained = options.epochs * per_rank * hvd.size()
        print(f"test accuracy {100 * accuracy:.2f} %, {trained / seconds:.0f} samples/s, {seconds:.1f} s")
        if options.save is not None:
            model.save(options.save)


if __name__ == "__main__":
    main()
