"""How gradients travel."""

from typing import Any, Tuple

import torch

from ..errors import InputError


class Compressor:
    """A way to make a tensor smaller and back again; derive from it for one of your own."""

    #: The name by which buckets of gradients know it in C++ (sullae/compression.h); None where they do not.
    name = None

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        """What travels, and what decompress() needs to know."""
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Any) -> torch.Tensor:
        """What compress() was given, as it came back."""
        raise NotImplementedError


class NoneCompressor(Compressor):
    """As they are."""

    name = ""

    @staticmethod
    def compress(tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor, context):
        return tensor


class _CastCompressor(Compressor):
    """Floating-point values as ones of ``dtype``."""

    dtype: torch.dtype

    @classmethod
    def compress(cls, tensor):
        return (tensor.to(cls.dtype), tensor.dtype) if tensor.is_floating_point() else (tensor, None)

    @staticmethod
    def decompress(tensor, context):
        return tensor if context is None else tensor.to(context)


class FP16Compressor(_CastCompressor):
    """Floating-point values as float16; of gradients those of float32."""

    name = "float16"
    dtype = torch.float16


class BF16Compressor(_CastCompressor):
    """Floating-point values as bfloat16."""

    name = "bfloat16"
    dtype = torch.bfloat16


def checked(compression: Any) -> Any:
    """What collectives take, which compress by themselves. Raises InputError for another."""
    if hasattr(compression, "compress") and hasattr(compression, "decompress"):
        return compression
    raise InputError(f"compression: {compression!r}: expected Compression.none, .fp16 or .bf16; names are for DistributedOptimizer")


class Compression:
    """What the argument ``compression`` takes. Optimizers also take the names of sullae/compression.h, such as "topk:0.01"."""

    none = NoneCompressor
    fp16 = FP16Compressor
    bf16 = BF16Compressor
