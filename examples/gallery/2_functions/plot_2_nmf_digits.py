"""
Parts of digits: a factorisation, beside scikit-learn's
=======================================================

1,797 handwritten digits of 8 x 8 pixels as sums of sixteen parts that are never negative. The
blocks are the columns of W and the rows of H, and a cycle minimises over every block exactly: the
method known as HALS.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF as SklearnNMF

from cyclade.decomposition import NMF

V = load_digits().data / 16
rng = np.random.default_rng(0)
W0, H0 = 0.2 * rng.random((len(V), 16)), 0.2 * rng.random((16, 64))
model = NMF(16, init="custom")
model.fit(V[:20], W=W0[:20], H=H0)  # compiles the kernels, once on a machine

began = time.perf_counter()
W = model.fit_transform(V, W=W0, H=H0)
ours = time.perf_counter() - began
H = model.components_

began = time.perf_counter()
theirs = SklearnNMF(16, init="custom", solver="cd", tol=1e-3, max_iter=400)
W_theirs = theirs.fit_transform(V, W=W0.copy(), H=H0.copy())
seconds = time.perf_counter() - began

# %%
# Both start from the same point. F is nonconvex, so they may end at different stationary points;
# only one of them says how stationary.

print(f"cyclade      ½‖V − WH‖² = {0.5 * np.sum((V - W @ H) ** 2):.1f} in {ours:.2f} s")
print(model.certificate_)
print(
    f"scikit-learn ½‖V − WH‖² = {0.5 * np.sum((V - W_theirs @ theirs.components_) ** 2):.1f} "
    f"in {seconds:.2f} s"
)

# %%
figure, axes = plt.subplots(3, 16, figsize=(10, 2.3))
for k in range(16):
    axes[0, k].imshow(H[k].reshape(8, 8), cmap="magma")
    axes[1, k].imshow(V[k].reshape(8, 8))
    axes[2, k].imshow((W[k] @ H).reshape(8, 8))
for axis in axes.ravel():
    axis.set(xticks=[], yticks=[])
    axis.spines[:].set_visible(False)
for axis, title in zip(axes[:, 0], ("parts", "digits", "W H"), strict=True):
    axis.set_ylabel(title)
plt.show()
