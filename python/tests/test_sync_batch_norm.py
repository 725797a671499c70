"""Batch norms over all ranks: what one process computes of the whole batch."""

import copy

import torch
from ranks import on_ranks

import sullae.torch as hvd

ROWS = 12


@on_ranks(1, 2, 3)
def test_batch_norm_over_ranks():
    hvd.init()
    for shape in ((ROWS, 5), (ROWS, 5, 3, 2)):
        torch.manual_seed(3)
        whole = torch.randn(shape, dtype=torch.float64)
        reference = torch.nn.BatchNorm1d(5) if whole.dim() == 2 else torch.nn.BatchNorm2d(5)
        reference = torch.nn.Sequential(reference).double()
        model = hvd.convert_sync_batchnorm(copy.deepcopy(reference))
        assert isinstance(model[0], hvd.SyncBatchNorm)
        rows = ROWS // hvd.size()
        start = hvd.rank() * rows
        x, y = whole.clone().requires_grad_(), whole[start : start + rows].clone().requires_grad_()
        weights = torch.linspace(-1, 1, whole.numel(), dtype=torch.float64).view(shape)
        (reference(x) * weights).sum().backward()
        (model(y) * weights[start : start + rows]).sum().backward()
        assert (x.grad[start : start + rows] - y.grad).abs().max() < 1e-10
        weight_gradient = hvd.allreduce(model[0].weight.grad, op=hvd.Sum)
        assert (reference[0].weight.grad - weight_gradient).abs().max() < 1e-10
        assert (reference[0].running_var - model[0].running_var).abs().max() < 1e-10
        reference.eval(), model.eval()
        assert (reference(whole) - model(whole)).abs().max() < 1e-10


@on_ranks(2)
def test_batch_norm_in_16_bits_sums_in_32():
    hvd.init()
    torch.manual_seed(hvd.rank())
    x = (torch.randn(512, 8) + 20).to(torch.bfloat16).requires_grad_()
    norm = hvd.SyncBatchNorm(8)
    y = norm(x)
    assert y.dtype == torch.bfloat16
    whole = hvd.allgather(x.detach().double())
    expected = (x.detach().double() - whole.mean(0)) / (whole.var(0, unbiased=False) + norm.eps).sqrt()
    assert (y.detach().double() - expected).mean(0).abs().max() < 2e-3
    (y.float() * torch.linspace(-1, 1, 8)).sum().backward()
    assert x.grad.dtype == torch.bfloat16 and x.grad.double().sum(0).abs().max() < 1e-2
