#!/usr/bin/env python3
"""Serve while it learns: a classifier of film reviews is trained without the reviews of one topic, served to 100 users at once,
and taught that topic by five operators, while the users go on asking.

    scripts/demo_serve.py [--data DIR] [--topic WORD] [--users 100] [--keep DIR]

DIR holds ratings_train and ratings_test of NSMC (https://github.com/e9t/nsmc), also compressed with gzip.
"""
import argparse
import gzip
import http.client
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--data", type=pathlib.Path, default=pathlib.Path("../shared/data/nsmc"))
parser.add_argument("--topic", default="드라마", help="reviews with this word are new to the model (%(default)s: television drama)")
parser.add_argument("--users", type=int, default=100)
parser.add_argument("--corrections", type=int, default=500)
parser.add_argument("--max-steps", type=int, default=0, help="steps of the first training; 0: an epoch")
parser.add_argument("--keep", type=pathlib.Path, help="leave the models here")
options = parser.parse_args()

root = pathlib.Path(__file__).resolve().parent.parent
sullae = root / "build" / "release" / "bin" / "sullae"
TOLERANCE = 0.5
OPERATORS = 5
THINKING = 0.1  # seconds between a user's requests
MODEL = "nsmc"


def read(name):
    for file in (options.data / f"{name}.txt.gz", options.data / f"{name}.txt"):
        if file.exists():
            with (gzip.open if file.suffix == ".gz" else open)(file, "rt", encoding="utf8") as stream:
                rows = [line.rstrip("\n").split("\t") for line in stream]
            return rows[0], [row for row in rows[1:] if len(row) == 3 and row[1].strip()]
    sys.exit(f"{options.data}: expected {name}.txt or {name}.txt.gz (NSMC); give --data DIR")


def write(file, header, rows):
    file.write_text("".join("\t".join(row) + "\n" for row in [header, *rows]), encoding="utf8")


class Server:
    """`sullae serve --online` for as long as a with statement."""

    def __init__(self, repository, log):
        self.command = [sullae, "serve", repository, "--online", "--http-port", "0", "--grpc-port", "0"]
        self.log = log

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=open(self.log, "w"), text=True)
        line = self.process.stdout.readline()
        if "http://" not in line:
            sys.exit(f"the server did not start: {pathlib.Path(self.log).read_text()}")
        self.port = int(line.split("http://127.0.0.1:")[1].split("/")[0])
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)


def ask(connection, path, body=None):
    connection.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body),
                       {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = response.read()
    if response.status != 200:
        raise RuntimeError(f"{path}: {response.status} {answer.decode()}")
    return json.loads(answer)


def predict(connection, texts):
    answer = ask(connection, f"/v1/models/{MODEL}:predict", {"instances": texts})
    return [prediction["label"] for prediction in answer["predictions"]]


class Users:
    """People who ask one after the other, with a little thought between; counts what they got."""

    def __init__(self, server, texts, count):
        self.server, self.texts, self.answered, self.failed, self.slowest = server, texts, 0, [], 0.0
        self.stopping, self.lock = threading.Event(), threading.Lock()
        self.threads = [threading.Thread(target=self.be_one, args=(i,), daemon=True) for i in range(count)]

    def be_one(self, seed):
        choice = random.Random(seed)
        connection = self.server.connect()
        while not self.stopping.wait(choice.uniform(0, 2 * THINKING)):
            start = time.monotonic()
            try:
                predict(connection, [choice.choice(self.texts)])
                with self.lock:
                    self.answered += 1
                    self.slowest = max(self.slowest, time.monotonic() - start)
            except (OSError, RuntimeError, http.client.HTTPException) as error:
                with self.lock:
                    self.failed.append(str(error))
                connection = self.server.connect()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        for thread in self.threads:
            thread.join()


def accuracy(server, rows):
    """Of what the server answers, in percent."""
    connection, right = server.connect(), 0
    for begin in range(0, len(rows), 64):
        part = rows[begin:begin + 64]
        labels = predict(connection, [row[1] for row in part])
        right += sum(label == row[2] for label, row in zip(labels, part))
    return 100 * right / len(rows)


def teach(server, rows):
    connection = server.connect()
    for begin in range(0, len(rows), 20):
        samples = [{"key": row[0], "text": row[1], "label": row[2]} for row in rows[begin:begin + 20]]
        ask(connection, f"/v1/models/{MODEL}/examples", {"examples": samples})


def main(folder):
    header, train = read("ratings_train")
    _, test = read("ratings_test")
    known = [row for row in train if options.topic not in row[1]]
    topic = [row for row in train if options.topic in row[1]]
    old_test = [row for row in test if options.topic not in row[1]]
    topic_test = [row for row in test if options.topic in row[1]]
    if len(topic) < options.corrections or not topic_test:
        sys.exit(f"only {len(topic)} reviews mention '{options.topic}': expected {options.corrections}")
    (folder / "data").mkdir(parents=True, exist_ok=True)
    write(folder / "data" / "ratings_train.txt", header, known)
    write(folder / "data" / "ratings_test.txt", header, old_test)
    print(f"1. Training on {len(known)} reviews that do not mention {options.topic}", flush=True)
    steps = ["--max-steps", str(options.max_steps)] if options.max_steps else []
    subprocess.run([sullae, "train", "nsmc", "--data", folder / "data", "--epochs", "1", "--batch-size", "128", *steps,
                    "--export", folder / "models"], check=True)
    (folder / "models" / MODEL / "config.toml").write_text(
        f"[online]\nmin_examples = {options.corrections}\ntolerance = {TOLERANCE}\ntest_examples = 0\n")

    print(f"\n2. Serving, with {options.users} users at once", flush=True)
    with Server(folder / "models", folder / "serve.log") as server:
        print(f"   http://127.0.0.1:{server.port}/ shows it")
        with Users(server, [row[1] for row in old_test[:5000] + topic_test], options.users) as users:
            control = server.connect()
            time.sleep(3)
            # Operators look at reviews of the new topic and correct what the model gets wrong.
            corrected = topic[:options.corrections]
            sets = {"the corrected reviews": corrected,
                    f"other reviews that mention {options.topic}": topic_test,
                    "the old test set": old_test}
            before = {name: accuracy(server, rows) for name, rows in sets.items()}
            print(f"\n3. {OPERATORS} operators send {options.corrections} reviews of the new topic with the right labels", flush=True)
            start = time.monotonic()
            operators = [threading.Thread(target=teach, args=(server, corrected[i::OPERATORS])) for i in range(OPERATORS)]
            for operator in operators:
                operator.start()
            for operator in operators:
                operator.join()
            while True:
                online = ask(control, f"/v1/models/{MODEL}/online")
                ended = online["rounds"] and online["rounds"][0]["state"] not in ("training", "publishing")
                if ended or time.monotonic() - start > 900:
                    break
                time.sleep(0.5)
            if not ended or online["rounds"][0]["state"] != "published":
                sys.exit(f"nothing was published: {json.dumps(online)}\n{(folder / 'serve.log').read_text()}")
            version = online["rounds"][0]["version"]
            while ask(control, "/v1/models")["models"][0]["serving"] != version:
                time.sleep(0.2)
            took = time.monotonic() - start
            after = {name: accuracy(server, rows) for name, rows in sets.items()}
            print(f"   version {version} answers {took:.0f} s after the first correction\n")
            print(f"   {'accuracy on':<38}{'version 1':>11}{f'version {version}':>11}")
            for name in sets:
                width = 38 - len(options.topic) * (options.topic in name and not options.topic.isascii())
                print(f"   {name:<{width}}{before[name]:>9.2f} %{after[name]:>9.2f} %")
        print(f"\n   meanwhile the users asked {users.answered} times; {len(users.failed)} requests failed; the slowest took "
              f"{1000 * users.slowest:.0f} ms")
    lost = before["the old test set"] - after["the old test set"]
    good = not users.failed and after["the corrected reviews"] > before["the corrected reviews"] and lost <= TOLERANCE
    for failure in users.failed[:5]:
        print(f"   {failure}")
    sys.exit(0 if good else "FAILED: see above")


if options.keep:
    main(options.keep)
else:
    with tempfile.TemporaryDirectory(prefix="sullae-demo-") as temporary:
        main(pathlib.Path(temporary))
