"""Models from Python into service:

    import sullae.serve

    sullae.serve.export(model, "models", "mine", example_inputs=torch.zeros(1, 10))

writes the next version of a model in a repository, from which ``sullae serve models`` answers; then

    client = sullae.serve.Client("localhost:8000")
    client.infer("mine", {"input": numpy.zeros((3, 10), "float32")})
"""

from .client import Client, RequestError
from .export import Images, TensorSpec, Texts, export

__all__ = ["Client", "Images", "RequestError", "TensorSpec", "Texts", "export"]
