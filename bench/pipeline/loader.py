"""torchvision's DataLoader on a folder of images: the transforms of ImageNet training.

    loader.py FOLDER BATCHES BATCH_SIZE WORKERS [EPOCHS]

Prints images a second.
"""
import sys
import time

import torch
from torchvision import datasets, transforms

folder, batch_size, workers, epochs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
torch.set_num_threads(1)
dataset = datasets.ImageFolder(folder, transforms.Compose([
    transforms.RandomResizedCrop(224),
    transforms.RandomHorizontalFlip(),
    transforms.ToTensor(),
    transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
]))
loader = torch.utils.data.DataLoader(dataset, batch_size=batch_size, shuffle=True, num_workers=workers,
                                     persistent_workers=True, prefetch_factor=2)
images = 0
for epoch in range(epochs + 1):
    if epoch == 1:  # the workers have started, and the files are in memory
        start = time.perf_counter()
    for batch, labels in loader:
        if epoch > 0:
            images += len(labels)
print(images / (time.perf_counter() - start))
