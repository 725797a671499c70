"""Plain PyTorch's step of ResNet-50, as bench_gpu_step's: images that lie on the GPU already, channels last, autocast with GradScaler,
SGD with momentum. Prints "samples_per_second X".

    python3 bench/gpu/peer.py float16 256 50
"""

import sys
import time

import torch
import torchvision

precision, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
device = "cuda" if torch.cuda.is_available() else "cpu"
pixels = 224 if device == "cuda" else 32
torch.manual_seed(1)
model = torchvision.models.resnet50().to(device).to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
scaler = torch.amp.GradScaler(device, enabled=precision == "float16")
images = torch.randn(batch, 3, pixels, pixels, device=device).contiguous(memory_format=torch.channels_last)
labels = torch.randint(1000, (batch,), device=device)
warm_up = steps // 4 + 1
for step in range(warm_up + steps):
    if step == warm_up:
        start = time.perf_counter()
    optimizer.zero_grad()
    with torch.autocast(device, dtype=getattr(torch, precision), enabled=precision != "float32"):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    loss.item()  # as a trainer does that shows it
print("samples_per_second", batch * steps / (time.perf_counter() - start))
