"""Inputs to try a model with before it is written, and what it gave."""

from typing import List, Tuple

import torch


def with_rows(examples: Tuple[torch.Tensor, ...], rows: int) -> Tuple[torch.Tensor, ...]:
    """As many rows: the first one, again and again."""
    return tuple(
        example[:1].expand(rows, *example.shape[1:]).clone() if example.dim() > 0 and example.shape[0] > 0 else example
        for example in examples
    )


def other_values(examples: Tuple[torch.Tensor, ...]) -> Tuple[torch.Tensor, ...]:
    """Inputs as those, with other values where any may be: of whole numbers, which may be places in a table, the same."""
    random = torch.Generator().manual_seed(1)
    return tuple(
        torch.randn(example.shape, generator=random).to(example) if example.is_floating_point() else example for example in examples
    )


def leaves(value) -> List[torch.Tensor]:
    """The tensors in what a model returns, in its order."""
    if isinstance(value, torch.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value
    return [leaf for item in values for leaf in leaves(item)] if isinstance(value, (list, tuple, dict)) else []
