"""Keras 3 on torch: training on any number of ranks gives what one process gives, and what is saved can be loaded anywhere."""

import contextlib
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import pytest
import torch
from ranks import on_ranks

import sullae

if int(torch.__version__.split(".")[0]) < 2:
    pytest.skip("Keras 3 wants torch 2", allow_module_level=True)
hvd = pytest.importorskip("sullae.keras")
import keras  # noqa: E402

ROWS, STEPS = 16, 30


def network(seed=1):
    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Input((6,)), keras.layers.Dense(16, "tanh"), keras.layers.BatchNormalization(trainable=False)]
    return keras.Sequential(layers + [keras.layers.Dense(3)])


def data(steps=STEPS):
    generator = numpy.random.default_rng(2)
    x = generator.standard_normal((steps * ROWS, 6)).astype("float32")
    return x, x[:, :3] * 2 - x[:, 3:]


def own(*arrays):
    """This rank's rows of every batch: its batches, one after the other, make up those of one process."""
    batches = [a.reshape(-1, hvd.size(), ROWS // hvd.size(), *a.shape[1:]) for a in arrays]
    return [b[:, hvd.rank()].reshape(-1, *b.shape[3:]) for b in batches]


def fit(model, x, y, ranks=1, **options):
    return model.fit(x, y, batch_size=ROWS // ranks, shuffle=False, verbose=0, **options)


def expect_same(model, reference, limit=1e-5):
    for v, w in zip(model.weights, reference.weights):
        difference = numpy.abs(keras.ops.convert_to_numpy(v) - keras.ops.convert_to_numpy(w)).max()
        assert difference < limit, f"{v.path}: {difference}"


OPTIMIZERS = [
    lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    lambda: keras.optimizers.Adam(0.01, global_clipnorm=0.1),
    lambda: keras.optimizers.AdamW(0.01, gradient_accumulation_steps=2),
    lambda: keras.optimizers.RMSprop(0.01, use_ema=True),
]


@on_ranks(1, 2, 4)
def test_equal_one_process():
    hvd.init()
    x, y = data()
    for make in OPTIMIZERS:
        reference, model = network(), network(seed=1 + hvd.rank())
        reference.compile(make(), "mse")
        fit(reference, x, y)
        model.compile(hvd.DistributedOptimizer(make(), bucket_bytes=128), "mse")
        start = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
        fit(model, *own(x, y), hvd.size(), callbacks=start)
        expect_same(model, reference)


@on_ranks(2)
def test_loops_of_ones_own():
    hvd.init()
    x, y = data()
    reference = network()
    reference.compile(keras.optimizers.SGD(0.1), "mse")
    fit(reference, x, y)
    x, y = (torch.from_numpy(a) for a in own(x, y))
    for by_backward in (True, False):
        model = network()
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
        variables = model.trainable_variables
        for rows in zip(x.split(ROWS // 2), y.split(ROWS // 2)):
            loss = (model(rows[0]) - rows[1]).pow(2).mean()
            if by_backward:
                model.zero_grad()
                loss.backward()
                gradients = [v.value.grad for v in variables]
            else:
                gradients = torch.autograd.grad(loss, [v.value for v in variables])
            with torch.no_grad():
                optimizer.apply(gradients, variables)
        expect_same(model, reference)


@on_ranks(2)
def test_half_precision_leaves_the_same_steps_out_everywhere():
    hvd.init()
    keras.config.set_dtype_policy("mixed_float16")
    model = network()
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), "mse")
    assert isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    x, y = data(steps=8)
    x, y = own(x, y)
    if hvd.rank() == 1:
        y[ROWS] = float("inf")  # of one step, on one rank
    fit(model, x, y, 2)
    assert float(model.optimizer.dynamic_scale) == 2.0**14
    weights = [keras.ops.convert_to_numpy(v) for v in model.weights]
    assert all(numpy.isfinite(w).all() for w in weights)
    for mine, first in zip(weights, hvd.broadcast_object(weights, 0)):
        assert (mine == first).all()


@on_ranks(2)
def test_layers_of_ones_own():
    hvd.init()
    model = network()
    local = model.layers[0]
    before = numpy.array(local.get_weights()[0])
    optimizer = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=local)
    model.compile(optimizer, "mse")
    x, y = own(*data(steps=2))
    fit(model, x, y, 2)
    kernels = hvd.allgather(numpy.stack([layer.get_weights()[0].ravel()[:48] for layer in (local, model.layers[2])])[None])
    assert (kernels[0, 0] != kernels[1, 0]).any() and (kernels[0, 1] == kernels[1, 1]).all()
    assert (before != local.get_weights()[0]).any()


@on_ranks(2)
def test_layers_of_ones_own_that_are_built_later():
    hvd.init()
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(16, "tanh"), keras.layers.Dense(3)])
    local = model.layers[0]
    model.compile(hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=local), "mse")
    fit(model, *own(*data(steps=2)), 2)
    kernels = hvd.allgather(numpy.stack([layer.get_weights()[0].ravel()[:48] for layer in model.layers])[None])
    assert (kernels[0, 0] != kernels[1, 0]).any() and (kernels[0, 1] == kernels[1, 1]).all()
    elsewhere = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=keras.layers.Dense(1, name="other"))
    with refused(sullae.InputError, "'other' is not built"):
        elsewhere.build(network().trainable_variables)


@on_ranks(2)
def test_a_model_is_compiled_again():
    """As fine-tuning does, which sets what is trained anew."""
    hvd.init()
    model = network()
    x, y = own(*data(steps=2))
    held = []
    for trained, rate in ((False, 0.1), (True, 0.01)):
        model.layers[0].trainable = trained
        held.append(hvd.DistributedOptimizer(keras.optimizers.SGD(rate)))
        model.compile(held[-1], "mse")
        fit(model, x, y, 2)
    for weight in model.get_weights():
        assert numpy.array_equal(hvd.broadcast(weight, root_rank=0), weight)


@on_ranks(2)
def test_gradients_of_both_kinds_in_turn():
    """A backward() leaves gradients behind, which are none of the next step's."""
    hvd.init()
    model = network()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    model.compile(optimizer, "mse")
    x, y = own(*data(steps=2))
    fit(model, x, y, 2)
    weights = [v.value for v in model.trainable_variables]
    for _ in range(3):
        gradients = torch.autograd.grad(((model(torch.tensor(x[:8])) - torch.tensor(y[:8])) ** 2).mean(), weights)
        optimizer.apply(gradients, model.trainable_variables)
    for weight in weights:
        assert torch.equal(hvd.broadcast(weight.detach(), 0), weight)


@on_ranks(2)
def test_metrics_and_learning_rates():
    hvd.init()
    rates, seen = [], []

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            rates.append(float(self.model.optimizer.learning_rate))

        def on_epoch_end(self, epoch, logs=None):
            seen.append(dict(logs))

    x, y = own(*data(steps=4))
    model = network()
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.8, momentum=0.5)), "mse")
    warmup = hvd.callbacks.LearningRateWarmupCallback(0.8, warmup_epochs=2, verbose=1)
    decay = hvd.callbacks.LearningRateScheduleCallback(0.8, 0.5, start_epoch=2)
    average = hvd.callbacks.MetricAverageCallback()
    start = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
    history = fit(model, x, y, 2, epochs=4, callbacks=[start, average, warmup, decay, Look()], validation_data=(x[:8], y[:8]))
    expected = [0.4 * (1 + n / 8) for n in range(1, 9)] + [0.8] * 4 + [0.4] * 4
    assert numpy.allclose(rates, expected), rates
    assert model.optimizer.momentum == 0.5
    assert [entry["lr"] for entry in seen] == pytest.approx([0.6, 0.8, 0.8, 0.4])
    assert hvd.allgather_object(history.history["val_loss"])[0] == history.history["val_loss"] == [e["val_loss"] for e in seen]


@on_ranks(2)
def test_what_is_saved_is_loaded_anywhere():
    hvd.init()
    folder = pathlib.Path(hvd.broadcast_object(tempfile.mkdtemp(), 0))
    path = folder / "model.keras"
    x, y = data()
    half = len(x) // 2
    reference, model = network(), network()
    reference.compile(keras.optimizers.Adam(0.01), "mse")
    fit(reference, x, y)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), "mse")
    best = hvd.callbacks.BestModelCheckpoint(str(path), monitor="loss")
    fit(model, *own(x[:half], y[:half]), 2, callbacks=[best])
    hvd.barrier()
    plain = "import sys, keras; m = keras.models.load_model(sys.argv[1]); print(type(m.optimizer).__name__, int(m.optimizer.iterations))"
    alone = {**os.environ, "KERAS_BACKEND": "torch"}
    told = subprocess.run([sys.executable, "-c", plain, path], env=alone, capture_output=True, text=True, check=True).stdout
    assert told.split() == ["Adam", str(STEPS // 2)]
    loaded = hvd.load_model(path)
    fit(loaded, *own(x[half:], y[half:]), 2)
    expect_same(loaded, reference)
    assert loaded.evaluate(x, y, verbose=0) == pytest.approx(reference.evaluate(x, y, verbose=0), rel=1e-4)

    # What one rank alone has loaded reaches the others, with the optimizer's state.
    resumed = hvd.load_model(path) if hvd.rank() == 0 else network(seed=7)
    if hvd.rank() == 1:
        resumed.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), "mse")
    fit(resumed, *own(x[half:], y[half:]), 2, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    expect_same(resumed, reference)


@on_ranks(2)
def test_collectives_take_what_keras_takes():
    hvd.init()
    rank = hvd.rank()
    assert hvd.allreduce(float(rank)) == 0.5 and hvd.allreduce(rank, average=False) == 1
    assert hvd.allreduce(numpy.float32(rank), op=hvd.Max).dtype == numpy.float32
    assert hvd.allgather(numpy.full((1 + rank, 2), rank)).tolist() == [[0, 0], [1, 1], [1, 1]]
    assert hvd.broadcast([1 + rank, 2], root_rank=1).tolist() == [2, 2]
    assert hvd.reducescatter(numpy.arange(4.0), op=hvd.Sum).tolist() == ([0, 2] if rank == 0 else [4, 6])
    assert isinstance(hvd.allreduce(torch.ones(2)), torch.Tensor)
    variable = keras.Variable(float(rank), dtype="float32")
    assert hvd.allreduce(variable) == 0.5
    hvd.broadcast_variables([variable], root_rank=1)
    assert float(variable) == 1.0


@contextlib.contextmanager
def refused(kind, part):
    with pytest.raises(kind) as caught:
        yield
    assert part in str(caught.value), str(caught.value)


@on_ranks(2)
def test_what_cannot_be():
    hvd.init()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    with refused(sullae.InputError, "distributed already"):
        hvd.DistributedOptimizer(optimizer)
    with refused(sullae.InputError, "expected a keras.optimizers.Optimizer"):
        hvd.DistributedOptimizer(torch.optim.SGD([torch.ones(1)], lr=0.1))
    with refused(sullae.InputError, "op: expected Average or Sum"):
        hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), op=hvd.Max)
    with refused(sullae.InputError, "expected layers of Keras"):
        hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.1), local_layers=[1])
    with refused(sullae.InputError, "expected a tensor, an array"):
        hvd.allreduce(object())
    with refused(sullae.InputError, "initial_lr"):
        hvd.callbacks.LearningRateScheduleCallback(None, 0.5)
    model = network()
    model.compile(optimizer, "mse")
    x, y = data(steps=4 + hvd.rank())
    with refused(sullae.MismatchError, "(rank 0: 4, rank 1: 5)"):
        fit(model, x, y, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])


def test_another_backend_is_refused():
    elsewhere = {**os.environ, "KERAS_BACKEND": "numpy"}
    told = subprocess.run([sys.executable, "-c", "import sullae.keras"], env=elsewhere, capture_output=True, text=True).stderr
    assert "Keras 3 on torch" in told and "set KERAS_BACKEND=torch" in told, told
