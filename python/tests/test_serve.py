"""Models from Python into service: what is exported is served, and answers what the model answers."""

import pathlib
import pickle
import subprocess
import sys
import tarfile
import threading

import pytest
import torch
from server import Server

import sullae
from sullae import serve

numpy = pytest.importorskip("numpy")
DATA = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data" / "imagenet-sample" / "images.tar"


class Branching(torch.nn.Module):
    """Cannot be traced: what it does depends on what it is given."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x):
        y = self.dropout(self.linear(x))
        if bool(y.sum() > 0):
            return y, y.sum(1)
        return -y, y.sum(1)


class Choosing(torch.nn.Module):
    """Neither compiled nor traced rightly: it takes any number of arguments, and does what it is given says."""

    def forward(self, *xs):
        return xs[0] * 2 if bool(xs[0].sum() != 0) else xs[0]


class Unscriptable(torch.nn.Module):
    """Cannot be compiled: it takes any number of arguments."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, *x, **_):
        return self.linear(sum(x))


class Bag(torch.nn.Module):
    """Scores of texts."""

    def __init__(self, words):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, 2, padding_idx=0)

    def forward(self, words: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return self.embedding(words).sum(1)


class Grey(torch.nn.Module):
    def forward(self, pixels):
        mean = pixels.mean((1, 2, 3))
        return torch.stack([mean, -mean], 1)


def test_answers_are_the_models(tmp_path):
    torch.manual_seed(1)
    scripted, traced, bag = Branching(), Unscriptable(), Bag(4)
    with torch.no_grad():
        bag.embedding.weight.copy_(torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 2.0], [1.0, 0.0]]))
    assert serve.export(scripted, tmp_path, "scripted", example_inputs=torch.zeros(1, 4)) == tmp_path / "scripted" / "1"
    assert scripted.training and scripted.dropout.training
    both = {"a": serve.TensorSpec(torch.float32, [-1, 4]), "b": (torch.float32, [-1, 4])}
    assert serve.export(traced, tmp_path, "traced", inputs=both).name == "1"
    words = serve.Texts(["좋다", "bad"], normalise=True)
    serve.export(bag, tmp_path, "bag", preprocessing=words, classes=["negative", "positive"])
    serve.export(Grey(), tmp_path, "grey", preprocessing=serve.Images(8, 1, mean=[0.5], deviation=[0.5]))
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    with Server(tmp_path) as server, serve.Client(server.address) as client:
        assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("scripted")
        assert not client.is_model_ready("nobody") and not client.is_model_ready("scripted", "2")
        assert client.get_server_metadata()["name"] == "sullae"
        assert client.get_model_metadata("scripted")["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
        answer = client.infer("scripted", {"x": x})
        for expected, output in zip(scripted.eval()(x), ("output_0", "output_1")):
            assert numpy.allclose(answer[output], expected.detach(), atol=1e-6)
        answer = client.infer("traced", {"a": x.numpy(), "b": y.tolist()} | {"b": y}, version="1")
        assert numpy.allclose(answer["output"], traced(x + y).detach(), atol=1e-6)
        assert client.predict("scripted", x[:1]) == [
            {"output_0": pytest.approx(scripted(x[:1])[0][0].tolist()), "output_1": pytest.approx(scripted(x[:1])[1].item())}
        ]
        answer = client.infer("bag", {"text": ["좋다 좋다", "BAD!", "other"]})
        assert answer["label"].tolist() == [b"positive", b"negative", b"negative"]
        assert numpy.allclose(answer["probabilities"][0], torch.softmax(torch.tensor([0.0, 4.0]), 0))
        assert [one["label"] for one in client.predict("bag", ["좋다", b"bad".decode()])] == ["positive", "negative"]
        answer = client.infer("grey", {"image": numpy.ones((2, 1, 8, 8), "float32")})
        assert answer["label"].tolist() == [b"0", b"0"]
        with pytest.raises(serve.RequestError, match="expected one input, 'text'") as caught:
            client.infer("bag", {"words": "a"})
        assert caught.value.status == 400
        with pytest.raises(serve.RequestError, match="404"):
            client.infer("nobody", {"x": x})
        with pytest.raises(serve.RequestError, match="complex64 tensors cannot be sent"):
            client.infer("scripted", {"x": x.to(torch.complex64)})
        # A new version, from the model that was trained on.
        with torch.no_grad():
            scripted.linear.weight.zero_()
        serve.export(scripted, tmp_path, "scripted", example_inputs=torch.zeros(1, 4))
        while not client.is_model_ready("scripted", "2"):
            pass
        assert numpy.allclose(client.infer("scripted", {"x": x})["output_1"], scripted.linear.bias.sum().item(), atol=1e-6)

        # Several threads, and a server that closes connections.
        failed = []

        def ask():
            try:
                for _ in range(20):
                    client.infer("traced", {"a": x, "b": y})
            except sullae.Error as error:
                failed.append(error)

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        address = server.address
    with pytest.raises(serve.RequestError, match="/v2/health/live") as caught:
        client.is_server_live()
    assert caught.value.status == 0 and address in str(caught.value)


def test_photographs(tmp_path):
    if not DATA.exists():
        pytest.skip(f"{DATA} is not there")
    with tarfile.open(DATA) as tar:
        files = [member for member in tar if member.name.endswith(".JPEG")][:2]
        photographs = [tar.extractfile(member).read() for member in files]
    serve.export(Grey(), tmp_path, "grey", preprocessing=serve.Images(32, mean=[0], deviation=[1]), classes=["light", "dark"])
    with Server(tmp_path) as server, serve.Client(server.address) as client:
        answer = client.infer("grey", {"image": photographs})
        assert answer["label"].tolist() == [b"light"] * 2 and answer["probabilities"].shape == (2, 2)
        with pytest.raises(serve.RequestError, match="400: input 'image', image 0"):
            client.infer("grey", {"image": b"no JPEG"})
        assert [one["label"] for one in client.predict("grey", photographs)] == ["light"] * 2


def test_keras(tmp_path):
    pytest.importorskip("sullae.keras")
    import keras

    model = keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3, "softmax")])
    serve.export(model, tmp_path, "keras", example_inputs=torch.zeros(2, 6))
    x = numpy.random.default_rng(1).standard_normal((5, 6)).astype("float32")
    with Server(tmp_path) as server, serve.Client(f"http://{server.address}") as client:
        (answer,) = client.infer("keras", {client.get_model_metadata("keras")["inputs"][0]["name"]: x}).values()
    assert numpy.allclose(answer, model.predict(x, verbose=0), atol=1e-5)


def test_tritonclient_as_it_is(tmp_path):
    tritonhttp = pytest.importorskip("tritonclient.http")
    tritongrpc = pytest.importorskip("tritonclient.grpc")
    model = torch.nn.Linear(4, 2)
    serve.export(model, tmp_path, "linear", example_inputs=torch.zeros(1, 4))
    x = numpy.random.default_rng(1).standard_normal((3, 4)).astype("float32")
    with Server(tmp_path) as server:
        for module, address in ((tritonhttp, server.address), (tritongrpc, server.grpc_address)):
            client = module.InferenceServerClient(address)
            assert client.is_server_ready() and client.is_model_ready("linear")
            given = module.InferInput("input", [3, 4], "FP32")
            given.set_data_from_numpy(x)
            answer = client.infer("linear", [given]).as_numpy("output")
            assert numpy.allclose(answer, model(torch.from_numpy(x)).detach(), atol=1e-6)
            client.close()


def test_a_token_is_asked_for(tmp_path):
    serve.export(torch.nn.Linear(4, 2), tmp_path / "models", "linear", example_inputs=torch.zeros(1, 4))
    tokens = tmp_path / "tokens.toml"
    token = "0123456789abcdef0123456789abcdef"
    tokens.write_text(f'[[token]]\nname = "kim"\nrole = "infer"\ntoken = "{token}"\n')
    tokens.chmod(0o600)
    with Server(tmp_path / "models", "--tokens-file", str(tokens)) as server:
        with serve.Client(server.address, token=token) as client:
            assert client.infer("linear", {"input": numpy.zeros((1, 4), "float32")})["output"].shape == (1, 2)
        with serve.Client(server.address) as client, pytest.raises(serve.RequestError, match="401") as caught:
            client.get_model_metadata("linear")
        assert caught.value.status == 401


class BakedIn(torch.nn.Module):
    def forward(self, *x):
        return x[0].reshape(len(x[0]), 4)[: len(x[0])].reshape(int(x[0].shape[0]), 4)


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "0 of example_inputs, inputs and preprocessing"),
        ({"example_inputs": torch.zeros(1, 4), "preprocessing": serve.Images()}, "2 of example_inputs"),
        ({"example_inputs": [1]}, "expected a tensor, or a list of tensors"),
        ({"example_inputs": torch.zeros(1, 5)}, "forward fails"),
        ({"inputs": {"x": (torch.float32, [4])}}, "the first size is the batch, expected -1"),
        ({"inputs": {"x": ("float", [-1, 4])}, "outputs": {"y": (torch.float32, [-1, 3])}}, "expected a torch.dtype|dtype"),
        ({"inputs": {"x": (torch.float32, [-1, 4])}, "outputs": {"y": (torch.float32, [-1, 3])}}, "expected Float \\[-1, 3\\]"),
        ({"preprocessing": "text"}, "expected Texts"),
        ({"preprocessing": serve.Images(), "outputs": {}}, "preprocessing knows them"),
        ({"preprocessing": serve.Texts(["a", "a"])}, "forward|'a' is there twice"),
        ({"example_inputs": torch.zeros(1, 4), "classes": ["a"]}, "classes: they are answered with preprocessing alone"),
    ],
)
def test_what_cannot_be_exported(tmp_path, options, message):
    with pytest.raises((sullae.InputError, TypeError), match=message):
        serve.export(torch.nn.Linear(4, 2), tmp_path, "linear", **options)
    assert not list(tmp_path.iterdir())


def test_a_repository_in_a_store(tmp_path, monkeypatch):
    program = pathlib.Path(__file__).parents[2] / "tests" / "storage" / "store_server.py"
    server = subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True)
    try:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.stdout.readline().split()[1]}")
        for name, value in {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-north-1"}.items():
            monkeypatch.setenv(name, value)
        x = torch.zeros(1, 4)
        for version in (1, 2):
            folder = serve.export(torch.nn.Linear(4, 2), "s3://bucket/models", "linear", example_inputs=x)
            assert folder == f"s3://bucket/models/linear/{version}"
        with pytest.raises(sullae.InputError, match="s3://bucket/models/linear/config.toml: outputs is .* expected the same"):
            serve.export(torch.nn.Linear(4, 3), "s3://bucket/models", "linear", example_inputs=x)
        with pytest.raises(sullae.InputError, match="which has lost a slash: expected a str, 's3://bucket/models'"):
            serve.export(torch.nn.Linear(4, 2), pathlib.Path("s3://bucket/models"), "linear", example_inputs=x)
    finally:
        server.kill()
        server.wait()


def test_what_tracing_does_not_see(tmp_path):
    with pytest.raises(sullae.InputError, match="answers other inputs otherwise(.|\n)*Python boolean"):
        serve.export(Choosing(), tmp_path, "choosing", example_inputs=torch.zeros(2, 3))
    assert not list(tmp_path.iterdir())


class Any(torch.nn.Module):
    def forward(self, x):
        return x * 2


class Rows(torch.nn.Module):
    def forward(self, x, *others):
        for _ in range(x.shape[0]):
            x = x + 1
        return x


class Optional(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x, mask=None):
        self.calls += 1
        return x + 1 if mask is None else x * mask


@pytest.mark.filterwarnings("ignore")
def test_sizes_that_are_open_and_models_that_are_traced(tmp_path):
    def outputs(name):
        return (tmp_path / name / "config.toml").read_text().split("[[outputs]]")[1]

    serve.export(Any(), tmp_path, "any", inputs={"x": (torch.float32, [-1, -1])})
    assert "shape = [-1, -1]" in outputs("any")
    serve.export(torch.nn.Conv1d(3, 4, 3), tmp_path, "conv", inputs={"x": (torch.float32, [-1, 3, -1])})
    assert "shape = [-1, 4, -1]" in outputs("conv")
    with pytest.raises(sullae.InputError, match="traced it answers other inputs otherwise"):
        serve.export(Rows(), tmp_path, "rows", example_inputs=torch.zeros(1, 3))
    assert not (tmp_path / "rows").exists()
    optional = Optional()
    serve.export(optional, tmp_path, "optional", example_inputs=torch.zeros(2, 3))
    assert optional.calls == 0
    if not hasattr(torch.nn.utils.parametrizations, "weight_norm"):
        return
    normed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(3, 2))
    serve.export(normed, tmp_path, "normed", example_inputs=torch.zeros(2, 3))


def test_what_a_client_sends():
    from sullae.serve.client import _encode

    assert _encode("x", [[1.0, 2.0]])[0]["datatype"] == "FP32"
    assert _encode("x", [numpy.ones(2)])[0]["datatype"] == "FP64"
    assert _encode("x", torch.ones(2, dtype=torch.bfloat16))[0]["datatype"] == "BF16"
    with pytest.raises(serve.RequestError, match="a int among texts"):
        _encode("x", ["a", 5])
    with pytest.raises(serve.RequestError, match="instances: a str: expected a list"):
        serve.Client("localhost:1").predict("m", "good")


def test_what_a_client_says_of_mistakes():
    from sullae.serve.client import _decode, _place_of

    assert _place_of("localhost") == (False, "localhost", 8000)
    assert _place_of("https://[::1]") == (True, "::1", 443)
    for address in ("http://", "localhost:abc", "ftp://host:1", ""):
        with pytest.raises(sullae.InputError, match="expected host:port, or an URL"):
            serve.Client(address)
    with pytest.raises(sullae.InputError, match="inputs: a list: expected a dict"):
        serve.Client("localhost:1").infer("m", [1.0])
    values = torch.tensor([[1.5, -2.0]], dtype=torch.bfloat16)
    described = [{"name": "y", "datatype": "BF16", "shape": [1, 2], "parameters": {"binary_data_size": 4}}]
    assert _decode(described, values.view(torch.int16).numpy().tobytes())["y"].tolist() == [[1.5, -2.0]]


def test_what_export_says_of_mistakes(tmp_path):
    def export(model=None, repository=tmp_path, name="x", **options):
        serve.export(model or torch.nn.Linear(4, 2), repository, name, **({"example_inputs": torch.zeros(1, 4)} | options))

    class Narrow(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(3, 2)

        def forward(self, words, lengths):
            return self.embedding(words).sum(1)

    texts = {"example_inputs": None, "preprocessing": serve.Texts(["good", "bad"])}
    for mistake, message in (
        ({"name": 3}, "name: 3: expected a str"),
        ({"repository": None}, "repository: None: expected a path"),
        ({"classes": "ab"}, "classes: 'ab': expected a list of strs"),
        ({"classes": [0, 1]}, r"classes: \[0, 1\]: expected a list of strs"),
        ({"model": Narrow(), **texts}, "word 3, the vocabulary's last: expected an embedding of 4 rows"),
        ({"model": Narrow(), "example_inputs": None, "preprocessing": serve.Texts("ab")}, "vocabulary: 'ab': expected a list"),
        ({"model": torch.nn.LSTM(4, 2)}, "forward returns a tuple of Tensor, tuple: expected a tensor"),
    ):
        with pytest.raises(sullae.InputError, match=message):
            export(**mistake)
    assert list(tmp_path.iterdir()) == []


def test_a_frozen_module(tmp_path):
    frozen = torch.jit.freeze(torch.jit.script(Branching().eval()))
    assert serve.export(frozen, tmp_path, "frozen", example_inputs=torch.zeros(1, 4)) == tmp_path / "frozen" / "1"
    x = torch.randn(3, 4)
    for expected, output in zip(frozen(x), torch.jit.load(tmp_path / "frozen" / "1" / "model.pt")(x)):
        assert torch.allclose(expected, output)


def test_versions_take_and_give_the_same(tmp_path):
    for name in ("1", "2"):
        assert serve.export(torch.nn.Linear(4, 2), tmp_path, "linear", example_inputs=torch.zeros(1, 4)).name == name
    with pytest.raises(sullae.InputError, match="config.toml: (inputs|outputs) is .* by which all versions"):
        serve.export(torch.nn.Linear(5, 2), tmp_path, "linear", example_inputs=torch.zeros(1, 5))


def test_refusals_are_pickled():
    refusal = pickle.loads(pickle.dumps(serve.RequestError("404: none", 404)))
    assert isinstance(refusal, serve.RequestError) and str(refusal) == "404: none" and refusal.status == 404


def test_what_is_no_model(tmp_path):
    with pytest.raises(sullae.InputError, match="expected a torch.nn.Module"):
        serve.export(lambda x: x, tmp_path, "f", example_inputs=torch.zeros(1))

    class Python(torch.nn.Module):
        def forward(self, *x):
            return {"a": [str(x)]}

    with pytest.raises(sullae.InputError, match="(?s)cannot be compiled .* nor traced"):
        serve.export(Python(), tmp_path, "python", example_inputs=torch.zeros(1, 4))
    with pytest.raises(sullae.InputError, match="cannot be the name of a model"):
        serve.export(torch.nn.Linear(4, 2), tmp_path, "a/b", example_inputs=torch.zeros(1, 4))
    # Tracing has made the number of rows a constant.
    with pytest.raises(sullae.InputError, match="for 1 rows|for 1 row|for 3 rows"):
        serve.export(BakedIn(), tmp_path, "baked", example_inputs=torch.zeros(2, 4))
    assert not list(tmp_path.iterdir())
