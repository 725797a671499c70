#!/usr/bin/env python3
"""Texts that go on: `sullae serve` and the generate() of Hugging Face's Transformers in turn, in one run; medians of the rounds.

    build/python/bin/pip install transformers
    bench/generation.py --rounds 3

Ours are clients that ask the server for a text each at the same moment, over HTTP; theirs is one batch in a process of its own, all of
whose texts begin and end together. Both are those of build/python (`make python`), and so of one libtorch. "anew" is ours without
memory for what was seen (kv_cache_megabytes = 0), so that each piece costs the text before it again."""

import argparse
import csv
import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time

from figures import ROOT, Figures

TOKENS = 100
PIECES = 8000
# Of `sullae train gpt` by default, and of GPT-2's smallest but for its pieces: size, heads, layers, context.
MODELS = {"1.9 million": (128, 4, 4, 128), "92 million": (768, 12, 12, 1024)}


def make_texts(data, folder):
    with open(os.path.join(data, "test.csv"), newline="") as file:
        texts = [" ".join(row[1:]).replace("\n", " ") for row, _ in zip(csv.reader(file), range(4000))]
    for name, part in (("train.txt", texts[20:]), ("test.txt", texts[:20])):
        with open(os.path.join(folder, name), "w") as file:
            file.write("\n".join(part))
    return [" ".join(text.split()[:6]) for text in texts[-64:]]


# How well it writes does not matter.
def train(sullae, texts, repository, size, heads, layers, context):
    words = [sullae, "train", "gpt", "--data", texts, "--max-steps", 1, "--batch-size", 1, "--pieces", PIECES, "--embedding-size", size,
             "--heads", heads, "--layers", layers, "--context", context, "--export", repository]
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)


class Server:
    def __init__(self, sullae, repository):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.process = subprocess.Popen([sullae, "serve", repository, "--http-port", str(self.port), "--grpc-port", "0"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self.ask("GET", "/v2/models/gpt/ready").status != 200:
            time.sleep(0.1)

    def ask(self, method, path, body=None):
        for _ in range(600):
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
            try:
                connection.request(method, path, body and json.dumps(body))
                answer = connection.getresponse()
                answer.text = answer.read()
                return answer
            except ConnectionRefusedError:
                time.sleep(0.1)
            finally:
                connection.close()
        raise SystemExit("sullae serve did not start")

    def write(self, prompt, seed):
        answer = self.ask("POST", "/v2/models/gpt/generate", {"text_input": prompt, "max_tokens": TOKENS, "seed": seed})
        assert answer.status == 200, answer.text
        return json.loads(answer.text)["tokens"]

    def tokens_per_second(self, prompts):
        written = [0] * len(prompts)

        def client(i):
            written[i] = self.write(prompts[i], i)

        clients = [threading.Thread(target=client, args=(i,)) for i in range(len(prompts))]
        start = time.perf_counter()
        for one in clients:
            one.start()
        for one in clients:
            one.join()
        return sum(written) / (time.perf_counter() - start)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def ours(sullae, repository, prompts, megabytes):
    with open(os.path.join(repository, "gpt", "config.toml"), "w") as file:
        file.write(f"kv_cache_megabytes = {megabytes}\ntimeout_milliseconds = 600000\n")
    with Server(sullae, repository) as server:
        server.tokens_per_second(prompts[:1])
        return server.tokens_per_second(prompts)


def theirs(python, sizes, texts):
    words = [python, os.path.join(ROOT, "bench/language/transformers_generate.py"), *sizes, PIECES, texts, TOKENS]
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, env={**os.environ, "TRANSFORMERS_VERBOSITY": "error"})
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    return json.loads(result.stdout.strip().splitlines()[-1])["tokens_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.path.join(ROOT, "..", "shared", "data", "ag_news"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--texts", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--environment", default=os.path.join(ROOT, "build", "python"))
    args = parser.parse_args()
    python, sullae = (os.path.join(args.environment, "bin", name) for name in ("python", "sullae"))
    with Figures("generation") as figures, tempfile.TemporaryDirectory() as folder:
        prompts = make_texts(args.data, folder)
        figures.print(f"{'tokens/s':<26}{'sullae':>9}{'anew':>9}{'Transformers':>14}{'ratio':>9}")
        for name, sizes in MODELS.items():
            repository = os.path.join(folder, name.replace(" ", "-"))
            train(sullae, folder, repository, *sizes)
            for texts in args.texts:
                rounds = [(ours(sullae, repository, prompts[:texts], 1024), theirs(python, sizes, texts)) for _ in range(args.rounds)]
                mine, peer = (statistics.median(side) for side in zip(*rounds))
                anew = ours(sullae, repository, prompts[:texts], 0)
                ratio = statistics.median(one / other for one, other in rounds)
                figures[f"{name}, {texts} texts, ratio"] = ratio
                figures.print(f"{f'{name}, {texts} texts':<26}{mine:>9.0f}{anew:>9.0f}{peer:>14.0f}{ratio:>7.2f} x")


if __name__ == "__main__":
    main()
