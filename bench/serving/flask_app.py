"""The service that users would otherwise write: Flask around a TorchScript module.

MODEL_DIR has model.pt and vocabulary.txt; TORCH_THREADS bounds libtorch's threads."""
import os
import pathlib

import torch
from flask import Flask, jsonify, request

directory = pathlib.Path(os.environ["MODEL_DIR"])
torch.set_num_threads(int(os.environ.get("TORCH_THREADS", "1")))
model = torch.jit.freeze(torch.jit.load(str(directory / "model.pt")).eval())
vocabulary = {word: number + 2 for number, word in enumerate((directory / "vocabulary.txt").read_text().split("\n")[:-1])}
app = Flask(__name__)


@app.route("/predict", methods=["POST"])
def predict():
    texts = [[vocabulary.get(word, 1) for word in text.split()[:64]] or [1] for text in request.get_json()["instances"]]
    longest = max(map(len, texts))
    words = torch.tensor([text + [0] * (longest - len(text)) for text in texts])
    with torch.inference_mode():
        probabilities = torch.softmax(model(words, torch.tensor([len(text) for text in texts])), 1)
    best, labels = probabilities.max(1)
    return jsonify(predictions=[{"label": str(label), "probability": p, "probabilities": row}
                                for label, p, row in zip(labels.tolist(), best.tolist(), probabilities.tolist())])


if __name__ == "__main__":
    app.run(port=int(os.environ["PORT"]), threaded=True)
