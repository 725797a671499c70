"""What the ranks of bench/python.py and bench/beside_horovod.py measure."""

import time


def timed(call, iterations):
    """Microseconds a call."""
    for _ in range(max(3, iterations // 20)):
        call()
    start = time.perf_counter()
    for _ in range(iterations):
        call()
    return (time.perf_counter() - start) / iterations * 1e6


def linears(torch, layers=24, width=256):
    torch.manual_seed(1)
    return torch.nn.Sequential(*[layer for _ in range(layers) for layer in (torch.nn.Linear(width, width), torch.nn.Tanh())])


def step_time(model, optimizer, x, steps=60):
    def step():
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()

    return timed(step, steps)
