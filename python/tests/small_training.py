"""A small training, alike on any number of ranks."""

import torch

import sullae.torch as hvd

ROWS = 12


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3)).double()


def batches(count):
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(ROWS, 6, generator=generator, dtype=torch.float64) for _ in range(count)]


def own(batch):
    rows = ROWS // hvd.size()
    return batch[hvd.rank() * rows : (hvd.rank() + 1) * rows]


def loss_of(model, batch):
    return model(batch).pow(2).mean()


def expect_same(model, reference, limit=1e-5):
    for p, q in zip(model.parameters(), reference.parameters()):
        assert (p - q).abs().max() < limit


def expect_equal_on_ranks(model):
    for p in model.parameters():
        assert torch.equal(hvd.broadcast(p.detach(), root_rank=0), p)


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
}
