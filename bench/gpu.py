#!/usr/bin/env python3
"""On a GPU: training steps of ResNet-50 and of GPT-2 against plain PyTorch on the same GPU, in turn; medians of the rounds; and requests/s of the
LSTM's server on the GPU and on the processors. scripts/gpu_check.sh runs it; it needs a build with a CUDA libtorch, torchvision, transformers and wrk.

    bench/gpu.py --build build/gpu [--models resnet50 gpt] [--rounds 3] [--steps 40] [--seconds 6]
"""

import argparse
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

from figures import ROOT, Figures, output_of

WORDS = "재미있는 영화 정말 지루함 최고 배우 연기 시간 아깝다 감동 음악 좋다 나쁘다 다시 보고 싶다".split()

MODELS = {"resnet50": ("ResNet-50", 256), "gpt": ("GPT-2", 16)}  # and samples a step


def samples_per_second(command):
    return float(output_of(command, timeout=900).split("samples_per_second")[1].split()[0])


def steps(options, figures):
    for model in options.models:
        title, batch = MODELS[model]
        figures.print(f"{title + ', samples/s':24}{'sullae':>10}{'PyTorch':>10}{'ratio':>9}")
        for precision in options.precisions:
            arguments = [model, precision, batch, options.steps]
            rounds = [(samples_per_second([options.build / "bin" / "bench_gpu_step", *arguments]),
                       samples_per_second([sys.executable, f"{ROOT}/bench/gpu/peer.py", *arguments])) for _ in range(options.rounds)]
            ours, peer = (statistics.median(side) for side in zip(*rounds))
            figures[f"{title}, {precision}, ratio"] = ours / peer
            figures.print(f"{precision:24}{ours:>10.0f}{peer:>10.0f}{ours / peer:>7.2f} x")


def write_texts(folder, rows=2000):
    for split in ("train", "test"):
        with open(folder / f"ratings_{split}.txt", "w") as file:
            file.write("id\tdocument\tlabel\n")
            for i in range(rows):
                text = " ".join(WORDS[(i * 7 + j * (1 + i % 5)) % len(WORDS)] for j in range(3 + i % 30))
                file.write(f"{i}\t{text}\t{i % 2}\n")


def requests_per_second(sullae, models, texts, users, seconds):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = subprocess.Popen([sullae, "serve", models, "--http-port", str(port), "--grpc-port", "0"], stdout=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=1)
                break
            except OSError:
                time.sleep(0.1)
        words = ["wrk", "-t2", f"-c{users}", f"-d{seconds}s", "--timeout", "10s", "-s", f"{ROOT}/bench/serving/post.lua",
                 f"http://127.0.0.1:{port}/v1/models/nsmc:predict"]
        output = subprocess.run(words, env={**os.environ, "TEXTS": str(texts)}, capture_output=True, text=True, check=True).stdout
        requests, failed, taken, _, most = output.split("RESULT ")[1].split()
        return float(requests) / float(taken), int(failed), 1e3 * float(most)
    finally:
        server.terminate()
        server.wait()


def serving(options, figures):
    sullae = options.build / "bin" / "sullae"
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_texts(folder)
        subprocess.run([sullae, "train", "nsmc", "--data", folder, "--max-steps", "20", "--export", folder / "models"], check=True,
                       stdout=subprocess.DEVNULL)
        texts = folder / "texts"
        texts.write_text("\n".join(line.split("\t")[1] for line in (folder / "ratings_test.txt").read_text().splitlines()[1:]))
        figures.print(f"{'LSTM, 400 users':24}{'requests/s':>12}{'failed':>8}{'99 % ms':>9}")
        for device in ("cuda", "cpu") if options.gpu else ("cpu",):
            (folder / "models" / "nsmc" / "config.toml").write_text(f'device = "{device}"\n')
            rate, failed, most = requests_per_second(sullae, folder / "models", texts, 400, options.seconds)
            figures[f"LSTM, {device}, requests per second"] = rate
            figures.print(f"{device:24}{rate:>12.0f}{failed:>8}{most:>9.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--precisions", nargs="+", default=["float16", "bfloat16", "float32"])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=6)
    options = parser.parse_args()
    options.build = options.build.resolve()
    options.gpu = shutil.which("nvidia-smi") is not None
    with Figures("gpu") as figures:
        steps(options, figures)
        if shutil.which("wrk"):
            serving(options, figures)


if __name__ == "__main__":
    main()
