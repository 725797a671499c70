"""Batch normalisation over the batches of all ranks, on any device."""

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ..errors import InputError
from .collectives import allgather, allreduce_
from .process_sets import ProcessSet, global_process_set
from .reduce_ops import Sum


class _Normalise(torch.autograd.Function):
    """With the mean and variance of all ranks' values (T. Chan et al.: Updating formulae and a pairwise algorithm, 1979)."""

    @staticmethod
    def forward(ctx, input, weight, bias, running_mean, running_var, eps, momentum, process_set):
        channels = input.shape[1]
        rows = input.transpose(0, 1).reshape(channels, -1).to(torch.float32 if input.dtype != torch.float64 else input.dtype)
        count = rows.shape[1]
        mean = rows.mean(1) if count else rows.new_zeros(channels)
        squares = ((rows - mean[:, None]) ** 2).sum(1)
        own = torch.cat([mean, squares, rows.new_tensor([count])])
        parts = allgather(own[None], process_set=process_set)
        means, all_squares, counts = parts[:, :channels], parts[:, channels:-1], parts[:, -1:]
        total = counts.sum()
        if total.item() <= 1:
            raise InputError(f"SyncBatchNorm: {int(total)} values a channel on all ranks: expected more than one")
        mean = (means * counts).sum(0) / total
        variance = (all_squares + counts * (means - mean) ** 2).sum(0) / total
        if running_mean is not None:
            unbiased = variance * (total / (total - 1))
            running_mean.mul_(1 - momentum).add_(mean.to(running_mean.dtype), alpha=momentum)
            running_var.mul_(1 - momentum).add_(unbiased.to(running_var.dtype), alpha=momentum)
        inverse = torch.rsqrt(variance + eps)
        shape = (1, channels) + (1,) * (input.dim() - 2)
        # In the type of the sums, also where the input is in 16 bits.
        normal = (input - mean.view(shape)) * inverse.view(shape)
        ctx.save_for_backward(input, mean, inverse, weight)
        ctx.total, ctx.process_set, ctx.shape = total, process_set, shape
        if weight is not None:
            normal = normal * weight.view(shape) + bias.view(shape)
        return normal.to(input.dtype)

    @staticmethod
    def backward(ctx, gradient):
        input, mean, inverse, weight = ctx.saved_tensors
        over = [0, *range(2, gradient.dim())]
        wide = gradient.to(inverse.dtype)
        normal = (input - mean.view(ctx.shape)) * inverse.view(ctx.shape)
        sum_of = wide.sum(over)
        sum_with = (wide * normal).sum(over)
        sums = torch.stack([sum_of, sum_with])
        grad_weight = sum_with.to(weight.dtype) if weight is not None else None
        grad_bias = sum_of.to(weight.dtype) if weight is not None else None
        allreduce_(sums, op=Sum, process_set=ctx.process_set)
        mean_of, mean_with = (part.view(ctx.shape) for part in sums / ctx.total)
        factor = inverse if weight is None else inverse * weight
        grad_input = ((wide - mean_of - normal * mean_with) * factor.view(ctx.shape)).to(gradient.dtype)
        return grad_input, grad_weight, grad_bias, None, None, None, None, None


class SyncBatchNorm(_BatchNorm):
    """torch.nn.SyncBatchNorm, also on CPUs: normalises [N, C, …] over the batches of all ranks of ``process_set``, of
    whatever sizes, while it trains. In evaluation it is torch.nn.BatchNorm."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_set: ProcessSet = global_process_set,
    ):
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.process_set = process_set

    def _check_input_dim(self, input):
        if input.dim() < 2:
            raise InputError(f"SyncBatchNorm: a tensor of {input.dim()} dimensions: expected at least 2, [N, C, …]")

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self._check_input_dim(input)
        if not self.training and self.track_running_stats:
            return torch.nn.functional.batch_norm(
                input, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps
            )
        momentum = self.momentum
        if self.training and self.track_running_stats:
            self.num_batches_tracked.add_(1)
            if momentum is None:
                momentum = 1.0 / self.num_batches_tracked.item()
        if self.process_set.size() == 1 or not self.training:
            return torch.nn.functional.batch_norm(
                input,
                self.running_mean if self.training else None,
                self.running_var if self.training else None,
                self.weight,
                self.bias,
                True,
                momentum or 0.0,
                self.eps,
            )
        return _Normalise.apply(
            input, self.weight, self.bias, self.running_mean, self.running_var, self.eps, momentum or 0.0, self.process_set
        )

    @classmethod
    def convert_sync_batchnorm(
        cls, module: torch.nn.Module, process_set: ProcessSet = global_process_set
    ) -> torch.nn.Module:
        """``module`` with all its batch norms synchronized, with their parameters and statistics."""
        result = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            result = cls(
                module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats, process_set
            )
            if module.affine:
                result.weight, result.bias = module.weight, module.bias
            result.running_mean, result.running_var = module.running_mean, module.running_var
            result.num_batches_tracked = module.num_batches_tracked
            result.training = module.training
        for name, child in module.named_children():
            setattr(result, name, cls.convert_sync_batchnorm(child, process_set))
        return result


convert_sync_batchnorm = SyncBatchNorm.convert_sync_batchnorm
