"""Plain PyTorch's step of ResNet-50, or of Transformers' GPT-2, as bench_gpu_step's: what lies on the GPU already, autocast with GradScaler,
channels last and SGD with momentum, or AdamW and clipping, as PyTorch has them by itself. Prints "samples_per_second X".

    python3 bench/gpu/peer.py resnet50 float16 256 50
"""

import sys
import time

import torch

name, precision, batch, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(1)
if name == "gpt":
    import transformers

    context = 1024 if device == "cuda" else 16
    config = transformers.GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, use_cache=False)
    model = transformers.GPT2LMHeadModel(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)
    texts = torch.randint(config.vocab_size, (batch, context), device=device)

    def loss_of():
        return model(texts, labels=texts).loss
else:
    import torchvision

    pixels = 224 if device == "cuda" else 32
    model = torchvision.models.resnet50().to(device).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    images = torch.randn(batch, 3, pixels, pixels, device=device).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(1000, (batch,), device=device)

    def loss_of():
        return torch.nn.functional.cross_entropy(model(images), labels)


scaler = torch.amp.GradScaler(device, enabled=precision == "float16")
warm_up = steps // 4 + 1
for step in range(warm_up + steps):
    if step == warm_up:
        start = time.perf_counter()
    optimizer.zero_grad()
    with torch.autocast(device, dtype=getattr(torch, precision), enabled=precision != "float32"):
        loss = loss_of()
    scaler.scale(loss).backward()
    if name == "gpt":
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    loss.item()  # as a trainer does that shows it
print("samples_per_second", batch * steps / (time.perf_counter() - start))
