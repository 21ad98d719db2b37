"""
Structured pruning: fewer channels, and what they cost in accuracy
==================================================================

The group l2 norm over the rows of each hidden layer, as an exact prox, drives whole neurons to zero
while the net trains. ``prune`` then removes them: the outputs stay as they were and the net is
smaller.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from cyclade import GroupL2
from cyclade.optim import SCCD, CrossEntropy, prune

images, labels = load_digits(return_X_y=True)
images, labels = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
data = train_test_split(images, labels, random_state=0, test_size=0.3)
train, test, y, y_test = data
torch.set_num_threads(1)


def pruned(strength, epochs=30, batch=128):
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    )
    rows = GroupL2(strength, groups=0)
    opt = SCCD(
        model, CrossEntropy(), lr=0.2, blocks="layers", reg={"0.weight": rows, "2.weight": rows}
    )
    rng = torch.Generator().manual_seed(0)
    for _ in range(epochs):
        for batch_rows in torch.randperm(len(train), generator=rng).split(batch):
            opt.step(train[batch_rows], y[batch_rows])
    before = model(test)
    prune(model)
    change = (model(test) - before).abs().max().item()
    size = sum(p.numel() for p in model.parameters())
    accuracy = (model(test).argmax(1) == y_test).float().mean().item()
    return size, accuracy, change, [model[0].out_features, model[2].out_features]


# %%
strengths = [0.0, 0.01, 0.015, 0.02, 0.025, 0.03]
results = [pruned(s) for s in strengths]
for strength, (size, accuracy, change, widths) in zip(strengths, results, strict=True):
    print(
        f"{strength:6.4f}: {size:5d} parameters, layers of {widths[0]:2d} and {widths[1]:2d}, "
        f"accuracy {accuracy:.3f}; pruning moved outputs by {change:.0e}"
    )

# %%
sizes, accuracies = [r[0] for r in results], [r[1] for r in results]
plt.plot(sizes, accuracies, "o-")
for strength, size, accuracy in zip(strengths, sizes, accuracies, strict=True):
    plt.annotate(f"{strength:g}", (size, accuracy), textcoords="offset points", xytext=(5, -13))
plt.margins(y=0.12)
plt.xlim(0, 1.08 * max(sizes))
plt.xlabel("parameters after pruning")
plt.ylabel("test accuracy")
plt.title("Accuracy against size; numbers are the strength of the penalty")
plt.show()
