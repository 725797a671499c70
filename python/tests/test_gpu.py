"""On a GPU: what CUDA tensors give is what tensors in host memory give, and they stay where they are."""

import copy
import datetime
import functools

import pytest
import torch
from ranks import THROUGH_NCCL, on_ranks
from server import Server

import sullae.torch as hvd
from sullae import serve

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU, or a torch without CUDA")


def on_gpus(test):
    """On one rank, on two that share a GPU through host memory, and on two that do through NCCL."""
    test = on_ranks(1, 2)(test)
    through_nccl = on_ranks(2, env=THROUGH_NCCL)(test.on_a_rank)

    @functools.wraps(test)
    def start():
        test()
        through_nccl()

    return start


def device():
    return torch.device("cuda", hvd.local_rank() % torch.cuda.device_count())


def network():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))


def rows():
    return torch.randn(12, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def own(batch):
    count = len(batch) // hvd.size()
    return batch[hvd.rank() * count : (hvd.rank() + 1) * count].to(device())


@on_gpus
def test_collectives():
    hvd.init()
    size, rank = hvd.size(), hvd.rank()
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64):
        tensor = (torch.arange(1000, device=device()) % 50).to(dtype) * (rank + 1)
        expected = torch.arange(1000) % 50 * sum(range(1, size + 1))
        total = hvd.allreduce(tensor, op=hvd.Sum)
        assert total.device == tensor.device and torch.equal(total.cpu().long(), expected)
        handle = hvd.allreduce_async(tensor, op=hvd.Sum)
        assert torch.equal(hvd.synchronize(handle).cpu().long(), expected)
        hvd.allreduce_(tensor, op=hvd.Sum)
        assert torch.equal(tensor.cpu().long(), expected)
    tensor = torch.full((rank + 1, 2), float(rank), device=device())
    assert hvd.allgather(tensor).tolist() == [[float(r)] * 2 for r in range(size) for _ in range(r + 1)]
    tensor = torch.full((3,), float(rank), device=device())
    assert hvd.broadcast(tensor, root_rank=size - 1).tolist() == [size - 1.0] * 3
    received = hvd.alltoall(torch.full((size,), float(rank), device=device()))
    assert received.device.type == "cuda" and received.tolist() == [float(r) for r in range(size)]
    tensors = [torch.full((n,), rank + 1.0, device=device()) for n in (1, 17, 70000)]
    for total in hvd.grouped_allreduce(tensors, op=hvd.Average):
        assert total.device.type == "cuda" and (total == (size + 1) / 2).all()


@on_gpus
def test_training_equals_one_process():
    hvd.init()
    reference = network().double()
    model = copy.deepcopy(reference).to(device())
    single = torch.optim.SGD(reference.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model.named_parameters(), bucket_bytes=256
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for _ in range(20):
        for m, o, batch in ((reference, single, rows()), (model, optimizer, own(rows()))):
            o.zero_grad()
            m(batch).pow(2).mean().backward()
            torch.nn.utils.clip_grad_norm_(m.parameters(), 0.05)
            o.step()
    for p, q in zip(model.parameters(), reference.parameters()):
        assert (p.cpu() - q).abs().max() < 1e-8


@on_gpus
def test_scaler_and_autocast():
    hvd.init()
    model = network().to(device())
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.01), model.named_parameters())
    scaler = torch.amp.GradScaler("cuda")
    losses = []
    for _ in range(30):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(own(rows()).float()).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2
    for p in model.parameters():
        assert torch.equal(hvd.broadcast(p.detach(), root_rank=0), p)


@on_ranks(2, env={**THROUGH_NCCL, "SULLAE_HIERARCHICAL_NCCL": "1"})
def test_hierarchical_nccl():
    hvd.init()
    tensor = torch.arange(100000, device=device(), dtype=torch.float32) * (hvd.rank() + 1)
    expected = torch.arange(100000, dtype=torch.float32) * 3
    assert torch.equal(hvd.allreduce(tensor, op=hvd.Sum).cpu(), expected)
    # Whose sum is more than float16 has.
    half = torch.full((1001,), 40000.0, device=device(), dtype=torch.float16)
    assert hvd.allreduce(half, op=hvd.Average).tolist() == [40000.0] * 1001
    assert hvd.allgather(tensor[: hvd.rank() + 1]).tolist() == [0.0, 0.0, 2.0]


@on_gpus
def test_sync_batch_norm():
    hvd.init()
    reference = torch.nn.BatchNorm1d(6).double()
    norm = hvd.SyncBatchNorm(6).double().to(device())
    whole = rows().requires_grad_()
    expected = reference(whole)
    expected.pow(3).sum().backward()
    mine = own(rows()).requires_grad_()
    found = norm(mine)
    found.pow(3).sum().backward()
    assert torch.allclose(hvd.allgather(mine.grad).cpu(), whole.grad, atol=1e-8)
    assert torch.allclose(hvd.allgather(found.detach()).cpu(), expected, atol=1e-10)
    assert torch.allclose(norm.running_var.cpu(), reference.running_var, atol=1e-10)


@on_ranks(1, 2)
def test_tensors_of_processors_beside_nccl():
    import torch.distributed as dist

    import sullae.c10d  # noqa: F401

    # Two ranks with one GPU are none for NCCL, which only makes its communicator when it is used.
    dist.init_process_group("cpu:sullae,cuda:nccl", timeout=datetime.timedelta(seconds=60))
    tensor = torch.full((5,), dist.get_rank() + 1.0)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [sum(range(1, dist.get_world_size() + 1))] * 5
    if dist.get_world_size() <= torch.cuda.device_count():
        torch.cuda.set_device(dist.get_rank())
        tensor = torch.full((5,), 2.0, device="cuda")
        dist.all_reduce(tensor)
        assert tensor.tolist() == [2.0 * dist.get_world_size()] * 5
    dist.destroy_process_group()


@on_ranks(2)
def test_a_tensor_on_a_gpu_is_refused():
    import torch.distributed as dist

    import sullae.c10d  # noqa: F401

    dist.init_process_group("sullae", timeout=datetime.timedelta(seconds=60))
    with pytest.raises(RuntimeError, match="cuda"):
        dist.all_reduce(torch.ones(3, device="cuda"))
    dist.barrier()
    dist.destroy_process_group()


def test_a_package_is_served_on_the_gpu(tmp_path):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 6 * 6, 2)).cuda()
    folder = serve.export(model, tmp_path / "models", "m", example_inputs=torch.zeros(2, 1, 8, 8), format="aot_inductor")
    config = folder.parent / "config.toml"
    with Server(tmp_path / "models") as server:
        assert "was compiled for the device 'cuda', and config.toml says device = \"cpu\"" in server.said
    config.write_text('device = "cuda"\n' + config.read_text())
    rows = torch.randn(64, 1, 8, 8)
    with Server(tmp_path / "models") as server, serve.Client(server.address) as client:
        for count in (1, 3, 64):
            answer = client.infer("m", {"input": rows[:count].numpy()})["output"]
            assert torch.allclose(torch.from_numpy(answer), model(rows[:count].cuda()).cpu(), atol=1e-3)
