"""Packages of AOTInductor: what is exported is served, answers what the model answers, and refuses what it was not compiled for."""

import threading

import pytest
import torch
from server import Server
from test_serve import Bag, Branching

import sullae
from sullae import serve

numpy = pytest.importorskip("numpy")


class Positions(torch.nn.Module):
    """Of at most 64 places; nothing but the sum's sizes says so."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.randn(64))
        self.embedding = torch.nn.Embedding(8, 1)

    def forward(self, x):
        return self.embedding(x).squeeze(-1) + self.table[: x.shape[1]]


class Pairs(torch.nn.Module):
    """Of an even number of places."""

    def forward(self, x):
        return x.reshape(x.shape[0], -1, 2).sum(2)


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x):
        self.calls.add_(1)
        return x + self.calls


packages = pytest.mark.skipif(
    tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 8), reason="AOTInductor's packages are of torch 2.8 and later"
)


@packages
def test_packages_answer_as_the_models(tmp_path):
    torch.manual_seed(1)

    class Network(torch.nn.Module):
        """Sequences of any length, of numbers and of places in a table."""

        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(16, 4)
            self.norm, self.linear = torch.nn.LayerNorm(4), torch.nn.Linear(4, 3)

        def forward(self, places, scale):
            hidden = self.norm(self.embedding(places)).mean(1) * scale
            return self.linear(hidden), places.sum(1)

    network, bag = Network(), Bag(4)
    with torch.no_grad():
        bag.embedding.weight.copy_(torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 2.0], [1.0, 0.0]]))
    models = tmp_path / "models"
    takes = {"places": serve.TensorSpec(torch.int64, [-1, -1]), "scale": serve.TensorSpec(torch.float32, [-1, 1])}
    assert serve.export(network, models, "net", inputs=takes, max_batch_size=16, format="aot_inductor") == models / "net" / "1"
    assert [file.name for file in (models / "net" / "1").iterdir()] == ["model.pt2"]
    assert network.training
    words = serve.Texts(vocabulary=["good", "bad"])
    serve.export(bag, models, "bag", preprocessing=words, classes=["no", "yes"], format="aot_inductor")
    # Of attention one row is another way.
    attention = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True).eval()
    serve.export(attention, models, "attention", example_inputs=torch.zeros(1, 5, 8), format="aot_inductor")
    config = (models / "net" / "config.toml").read_text()
    for name, content in (("broken", b"no package"), ("loose", (models / "net" / "1" / "model.pt2").read_bytes())):
        (models / name / "1").mkdir(parents=True)
        (models / name / "1" / "model.pt2").write_bytes(content)
        (models / name / "config.toml").write_text(config.replace("shape = [-1, 1]", "shape = [-1, -1]"))
    with Server(models) as server, serve.Client(server.address) as client:
        assert "is no package of AOTInductor that libtorch" in server.said
        assert client.get_model_metadata("net")["platform"] == "torch_aoti"
        for rows, length in ((1, 1), (1, 7), (2, 3), (16, 40)):
            places, scale = torch.randint(0, 16, (rows, length)), torch.randn(rows, 1)
            answer = client.infer("net", {"places": places.numpy(), "scale": scale.numpy()})
            with torch.no_grad():
                scores, sums = network(places, scale)
            numpy.testing.assert_allclose(answer["output_0"], scores, rtol=1e-4, atol=1e-5)
            assert (answer["output_1"] == sums.numpy()).all()
        for rows in (1, 2, 1, 64):
            given = torch.randn(rows, 5, 8)
            with torch.no_grad():
                expected = attention(given)
            numpy.testing.assert_allclose(client.infer("attention", {"src": given.numpy()})["output"], expected, rtol=1e-4, atol=1e-5)
        # Threads at a time, as many as the server gives it.
        many = [threading.Thread(target=client.predict, args=("bag", ["good"] * 3)) for _ in range(8)]
        for thread in many:
            thread.start()
        for thread in many:
            thread.join()
        assert [one["label"] for one in client.predict("bag", ["good good bad", "bad"])] == ["yes", "no"]
        with pytest.raises(serve.RequestError, match="17 rows, expected at most 16"):
            client.infer("net", {"places": numpy.zeros((17, 3), "int64"), "scale": numpy.zeros((17, 1), "float32")})
        # A configuration that allows more than was compiled.
        with pytest.raises(serve.RequestError, match="cannot compute this request: size 1 of input 'scale': expected 1, got 5"):
            client.infer("loose", {"places": numpy.zeros((2, 3), "int64"), "scale": numpy.zeros((2, 5), "float32")})


@packages
@pytest.mark.parametrize(
    "model, options, message",
    [
        (torch.nn.Linear(4, 2), {"format": "onnx"}, "format: 'onnx': expected 'torchscript' or 'aot_inductor'"),
        (torch.jit.script(torch.nn.Linear(4, 2)), {}, "which is TorchScript: expected the module that it was made from"),
        (Branching(), {}, "AOTInductor cannot compile Branching: "),
        (Counting(), {}, r"forward changes \['calls'\], which batches that are computed at a time would share"),
        (Pairs(), {"example_inputs": None, "inputs": {"x": (torch.float32, [-1, -1])}}, "Pairs refuses inputs of the shapes .*, and compiled by AOTInductor"),
        (torch.nn.Linear(4, 2), {"example_inputs": None, "inputs": {"x": (torch.float32, [4])}}, "'x': the first size is the batch, expected -1"),
        (
            torch.nn.Linear(4, 2),
            {"example_inputs": None, "inputs": {"x": (torch.float32, [-1, -1])}},
            "forward fails|size 1 was to be any, and is always 4 in what AOTInductor compiles",
        ),
        (
            torch.nn.Linear(4, 2),
            {"example_inputs": None, "inputs": {"x": (torch.float32, [-1, 4])}, "outputs": {"y": (torch.float32, [-1, 3])}},
            r"output 'y': forward returns torch.float32 \[1, 2\], expected torch.float32 \[-1, 3\]",
        ),
    ],
)
def test_what_cannot_be_a_package(tmp_path, model, options, message):
    with pytest.raises(sullae.InputError, match=message):
        serve.export(model, tmp_path, "m", **{"format": "aot_inductor", "example_inputs": torch.zeros(3, 4), **options})
    assert not list(tmp_path.iterdir())


@packages
def test_packages_refuse_what_they_were_not_compiled_for(tmp_path):
    """Beyond its sizes a package would read others' memory, or end the server."""
    torch.manual_seed(1)
    positions = Positions()
    serve.export(positions, tmp_path, "m", inputs={"x": (torch.int64, [-1, -1])}, max_batch_size=4, format="aot_inductor")
    images = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.Flatten(), torch.nn.Linear(2 * 6 * 6, 2))
    serve.export(images, tmp_path, "images", example_inputs=torch.zeros(2, 1, 8, 8), format="aot_inductor")
    serve.export(torch.nn.Linear(4, 2), tmp_path, "single", example_inputs=torch.zeros(4), max_batch_size=0, format="aot_inductor")
    with Server(tmp_path) as server, serve.Client(server.address) as client:
        for length in (1, 2, 64):
            x = torch.randint(0, 8, (3, length))
            numpy.testing.assert_allclose(client.infer("m", {"x": x.numpy()})["output"], positions(x).detach(), rtol=1e-5)
        for length in (65, 100_000):
            with pytest.raises(serve.RequestError, match=f"size 1 of input 'x': expected 1 to 64, got {length}"):
                client.infer("m", {"x": numpy.zeros((3, length), "int64")})
        with pytest.raises(serve.RequestError, match="cannot compute this request"):
            client.infer("m", {"x": numpy.full((3, 5), 9, "int64")})
        for rows in (1, 17, 64):
            pixels = torch.randn(rows, 1, 8, 8)
            numpy.testing.assert_allclose(client.infer("images", {"input": pixels.numpy()})["output"], images(pixels).detach(), rtol=1e-3, atol=1e-5)
        assert client.infer("single", {"input": numpy.zeros(4, "float32")})["output"].shape == (2,)
