"""
A table larger than memory
==========================

X may be a Dask array (or dataframe): a fit reads it chunk after chunk and only sums come back.
Here is a table of 1 GiB on disk: two million digits, each one of the 1,797 of scikit-learn with
fresh noise on its 64 pixels. An l1 logistic regression tells whether it is an 8. The fit is done by
a process that may allocate 512 MiB and no more: the system refuses it the rest (this needs Linux).
"""

import subprocess
import sys
import tempfile

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from cyclade.linear import SparseLogisticRegression

try:
    import resource

    import dask.array as da
except ImportError:
    sys.exit("skipped: this example needs Dask (pip install dask), and Linux")

ROWS, CHUNK, LIMIT = 2**21, 2**14, 512  # rows, rows, MiB
images, labels = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
pick = rng.integers(0, len(images), ROWS)

if len(sys.argv) > 1:  # the process with the limit
    folder = sys.argv[1]
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT * 2**20, LIMIT * 2**20))
    X = da.from_npy_stack(folder, mmap_mode=None)
    y = da.from_array(labels[pick] == 8, chunks=CHUNK)
    try:
        np.asarray(X)
        print("all of X fits in memory")
    except MemoryError:
        print("all of X at once: MemoryError")
    model = SparseLogisticRegression(alpha=0.003, tol=1e-6).fit(X, y)
    print(model.summary(limit=5))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    np.savez(f"{folder}/fit.npz", coef=model.coef_.ravel(), peak=peak)
    sys.exit()

# %%
# The table is written chunk by chunk as well. Then this file is run again, as the other process.

digits = da.from_array(pick, chunks=CHUNK).map_blocks(
    lambda rows: images[rows] / 16, new_axis=1, chunks=(CHUNK, 64), dtype=float
)
noise = da.random.default_rng(0).standard_normal((ROWS, 64), chunks=(CHUNK, 64))
table = digits + 0.1 * noise
with tempfile.TemporaryDirectory() as folder:
    da.to_npy_stack(folder, table)
    command = [sys.executable, sys.argv[0], folder]
    print(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    fit = np.load(f"{folder}/fit.npz")
    coef, peak = fit["coef"], float(fit["peak"])
sizes = {"the table": table.nbytes / 2**20, "the limit": LIMIT, "the fit's peak": peak}
print(", ".join(f"{name}: {size:.0f} MiB" for name, size in sizes.items()))

# %%
# The pixels that speak for an 8 (red), and against it (blue):

figure, (left, *rest) = plt.subplots(1, 3, figsize=(10, 3), width_ratios=(1.6, 1, 1))
left.bar(sizes.keys(), sizes.values(), color=["#0072b2", "#999999", "#d55e00"])
left.set(title="MiB")
for axis, values, title in zip(
    rest, (coef, images[labels == 8].mean(axis=0)), ("coefficients", "the mean 8"), strict=True
):
    size = abs(values).max()
    axis.imshow(values.reshape(8, 8), cmap="RdBu_r", vmin=-size, vmax=size)
    axis.set(title=title, xticks=[], yticks=[])
    axis.grid(False)
plt.show()
