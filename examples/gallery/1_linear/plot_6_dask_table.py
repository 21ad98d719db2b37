"""
A table larger than memory
==========================

X may be a Dask array (or dataframe): a fit reads it chunk after chunk and only sums come back.
Here is a table of 1 GiB on disk: two million digits, each one of the 1,797 of scikit-learn with
fresh noise on its 64 pixels. An l1 logistic regression tells whether it is an 8. The fit is done in
a process that may allocate 640 MiB, Python and libraries included; Linux refuses it any more.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from cyclade.linear import SparseLogisticRegression

try:
    import resource

    import dask
    import dask.array as da
except ImportError:
    sys.exit("skipped: this example needs Dask (pip install dask), and Linux")

ROWS, CHUNK, LIMIT = 2**21, 2**15, 640 * 2**20  # rows, rows of a chunk, bytes
images, labels = load_digits(return_X_y=True)
pick = np.random.default_rng(0).integers(0, len(images), ROWS, dtype=np.int16)

if len(sys.argv) > 1:  # the process with the limit
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    X = da.from_npy_stack(sys.argv[1], mmap_mode=None)  # read, not mapped: it counts
    try:
        np.empty(X.shape)
    except MemoryError:
        print("an array of the size of X: MemoryError")
    with dask.config.set(num_workers=2):  # two chunks at a time
        y = da.from_array(labels[pick] == 8, chunks=CHUNK)
        model = SparseLogisticRegression(alpha=0.003, tol=1e-4).fit(X, y)
    print(model.summary(limit=5))
    status = Path("/proc/self/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) / 2**10  # of this process alone, in MiB
    np.savez(f"{sys.argv[1]}/fit.npz", coef=model.coef_, peak=peak)
    sys.exit()

# %%
# The table is written chunk by chunk as well. Then this file is run again, as the other process.

shape = {"new_axis": 1, "chunks": (CHUNK, 64), "dtype": float}
digits = da.from_array(pick, chunks=CHUNK).map_blocks(lambda rows: images[rows] / 16, **shape)
table = digits + da.random.default_rng(0).normal(0, 0.1, (ROWS, 64), chunks=(CHUNK, 64))
with tempfile.TemporaryDirectory() as folder:
    da.to_npy_stack(folder, table)
    command = ["env", "OMP_NUM_THREADS=1", sys.executable, sys.argv[0], folder]
    print(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    fit = dict(np.load(f"{folder}/fit.npz"))
sizes = {"table": table.nbytes / 2**20, "limit": LIMIT / 2**20, "peak of the fit": fit["peak"]}
print(", ".join(f"{name}: {size:.0f} MiB" for name, size in sizes.items()))

# %%
# Where ink speaks for an 8 (red), and where against it (blue):

import matplotlib.pyplot as plt

figure, (left, *right) = plt.subplots(1, 3, figsize=(10, 3), width_ratios=(1.5, 1, 1))
bars = left.barh(list(sizes)[::-1], list(sizes.values())[::-1], color=["C1", "0.6", "C0"])
left.bar_label(bars, fmt="%.0f MiB", padding=4)
left.set(xlim=(0, 1300), xticks=[])
left.grid(False)
both = {"coefficients": fit["coef"], "the mean 8": images[labels == 8].mean(axis=0)}
for axis, (title, values) in zip(right, both.items(), strict=True):
    size = abs(values).max()
    axis.imshow(values.reshape(8, 8), cmap="RdBu_r", vmin=-size, vmax=size)
    axis.set(title=title, xticks=[], yticks=[])
    axis.grid(False)
plt.show()
