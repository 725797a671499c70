"""The same model behind LitServe, with its own dynamic batching: as many rows as `sullae serve` puts together by default.

MODEL_DIR has model.pt and vocabulary.txt, PORT is where to listen. WORKERS compute, API_SERVERS speak HTTP, and BATCH_SECONDS is
how long a request waits for others."""
import os
import pathlib

import litserve
import torch

directory = pathlib.Path(os.environ["MODEL_DIR"])


class Reviews(litserve.LitAPI):
    def setup(self, device):
        torch.set_num_threads(1)  # a worker a processor: more threads would compete with the other workers
        self.model = torch.jit.freeze(torch.jit.load(str(directory / "model.pt")).eval())
        words = (directory / "vocabulary.txt").read_text().split("\n")[:-1]
        self.vocabulary = {word: number + 2 for number, word in enumerate(words)}

    def decode_request(self, request):
        return [[self.vocabulary.get(word, 1) for word in text.split()[:64]] or [1] for text in request["instances"]]

    def batch(self, inputs):
        return inputs  # a request may have several texts, and predict needs to know whose they are

    def predict(self, requests):
        texts = [text for request in requests for text in request]
        longest = max(map(len, texts))
        words = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
        with torch.inference_mode():
            probabilities = torch.softmax(self.model(words, torch.tensor([len(text) for text in texts])), 1)
        best, labels = probabilities.max(1)
        rows = iter(zip(labels.tolist(), best.tolist(), probabilities.tolist()))
        return [[next(rows) for _ in request] for request in requests]

    def unbatch(self, output):
        return output

    def encode_response(self, output):
        return {"predictions": [{"label": str(label), "probability": p, "probabilities": row} for label, p, row in output]}


if __name__ == "__main__":
    workers = int(os.environ.get("WORKERS", os.cpu_count()))
    api = Reviews(max_batch_size=64, batch_timeout=float(os.environ.get("BATCH_SECONDS", "0.01")))
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=workers, fast_queue=True)
    server.run(host="127.0.0.1", port=int(os.environ["PORT"]), num_api_servers=int(os.environ.get("API_SERVERS", workers)),
               log_level="warning", generate_client_file=False)
