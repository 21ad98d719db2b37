"""
A small convolutional net: SCCD against SGD
===========================================

The same engine, batches, schedule and start, on 8 x 8 digits; the only difference is that SCCD
moves layer after layer, each along its exact gradient at the partly updated net. A cycle costs more
than a step, so both pictures matter: by epochs, and by seconds. One run each shows what
happens; it does not decide which is better (the results page has ten seeds).
"""

import time

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from cyclade.optim import SCCD, SGD, CrossEntropy

images, labels = load_digits(return_X_y=True)
images = torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)
data = train_test_split(images, torch.tensor(labels), random_state=0, test_size=0.3)
train, test, y, y_test = data
torch.set_num_threads(1)


def net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Flatten(),
        nn.Linear(144, 48), nn.ReLU(), nn.Linear(48, 10),
    )  # fmt: skip


def trained(Optimizer, lr, epochs=25, batch=128):
    model, rng = net(), torch.Generator().manual_seed(0)
    opt = Optimizer(model, CrossEntropy(), lr=lr, blocks="layers" if Optimizer is SCCD else None)
    accuracy, seconds, spent = [], [], 0.0
    for _ in range(epochs):
        began = time.process_time()
        for rows in torch.randperm(len(train), generator=rng).split(batch):
            opt.step(train[rows], y[rows])
        spent += time.process_time() - began
        with torch.no_grad():
            accuracy.append((model(test).argmax(1) == y_test).float().mean().item())
        seconds.append(spent)
    return opt, accuracy, seconds


# %%
results = {"SGD": trained(SGD, lr=0.2), "SCCD": trained(SCCD, lr=0.2)}
print(results["SCCD"][0])  # the blocks, and what a cycle costs in SGD steps
for name, (_, accuracy, seconds) in results.items():
    print(f"{name}: test accuracy {accuracy[-1]:.3f} after {seconds[-1]:.1f} s of training")

# %%
figure, (left, right) = plt.subplots(1, 2, sharey=True)
for name, (_, accuracy, seconds) in results.items():
    left.plot(range(1, len(accuracy) + 1), accuracy, label=name)
    right.plot(seconds, accuracy)
left.set(xlabel="epoch", ylabel="test accuracy")
right.set(xlabel="CPU seconds of training")
left.legend()
plt.show()
