"""
A table that memory need not hold
=================================

X may be a Dask array (or dataframe): a fit reads it chunk after chunk and only sums come back, so
the table can be larger than memory. Here it lies in a file: 150,000 digits, each one of the 1,797
of scikit-learn with fresh noise on its 64 pixels. An l1 logistic regression tells whether it is an
8. The file is small enough to be fitted in memory, too, which shows that both ways end in the same
model, and what each holds at most.
"""

import sys
import tempfile
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from cyclade.linear import SparseLogisticRegression

try:
    import dask.array as da
except ImportError:
    sys.exit("skipped: this example needs Dask (pip install dask)")

ROWS, CHUNK = 150_000, 10_000
folder = tempfile.TemporaryDirectory()
file = Path(folder.name) / "X.npy"
images, labels = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
pick = rng.integers(0, len(images), ROWS)
y = labels[pick] == 8
X = np.lib.format.open_memmap(file, "w+", np.float64, (ROWS, 64))
for first in range(0, ROWS, CHUNK):  # written chunk by chunk, as it is read below
    rows = slice(first, first + CHUNK)
    X[rows] = images[pick[rows]] / 16 + 0.1 * rng.standard_normal((CHUNK, 64))
X.flush()

# %%
# The same estimator, given the Dask array and the array; allocations are traced meanwhile.


def fitted(X, y):
    tracemalloc.start()
    model = SparseLogisticRegression(alpha=0.003, tol=1e-6).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return model, peak


table = da.from_array(np.load(file, mmap_mode="r"), chunks=(CHUNK, 64))
chunked, held = fitted(table, da.from_array(y, chunks=CHUNK))
print(f"X: {table.nbytes / 2**20:.0f} MiB in {table.npartitions} chunks")
print(f"in chunks: at most {held:.0f} MiB held")
print(chunked.summary(limit=5))
whole, held = fitted(np.load(file), y)
print(f"in memory: X and at most {held:.0f} MiB beside it")
print(f"largest difference of a coefficient: {abs(chunked.coef_ - whole.coef_).max():.1e}")

# %%
# The pixels that speak for an 8, and against it:

size = abs(chunked.coef_).max()
for axis, values, title in zip(
    plt.subplots(1, 3, figsize=(9, 3))[1],
    (chunked.coef_, whole.coef_, images[labels == 8].mean(axis=0) * size / 16),
    ("in chunks", "in memory", "the mean 8"),
    strict=True,
):
    axis.imshow(values.reshape(8, 8), cmap="RdBu_r", vmin=-size, vmax=size)
    axis.set(title=title, xticks=[], yticks=[])
    axis.grid(False)
plt.show()
