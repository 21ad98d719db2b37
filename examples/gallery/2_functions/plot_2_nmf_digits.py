"""
Parts of digits: a factorisation, beside scikit-learn's
=======================================================

1,797 handwritten digits of 8 x 8 pixels as sums of sixteen parts that are never negative. The
blocks are the columns of W and the rows of H; f is quadratic in each, with a curvature that is
known, so a cycle minimises over every block exactly: the method known as HALS, out of the box.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import NMF as SklearnNMF

from cyclade.problems import NMF

V = load_digits().data / 16
problem = NMF(V, rank=16, blocks="components")
W0, H0 = problem.factors(problem.x0(0))

began = time.perf_counter()
result = problem.minimize(rtol=1e-3, tol=None, max_cycles=400)
ours = time.perf_counter() - began
W, H = problem.factors(result.x)

began = time.perf_counter()
theirs = SklearnNMF(16, init="custom", solver="cd", tol=1e-3, max_iter=400)
W_theirs = theirs.fit_transform(V, W=W0.copy(), H=H0.copy())
seconds = time.perf_counter() - began

# %%
# Both start from the same point. F is nonconvex, so they may end at different stationary points;
# only one of them says how stationary.

print(f"cyclade      ½‖V − WH‖² = {0.5 * np.sum((V - W @ H) ** 2):.1f} in {ours:.2f} s")
print(result.message)
print(
    f"scikit-learn ½‖V − WH‖² = {0.5 * np.sum((V - W_theirs @ theirs.components_) ** 2):.1f} "
    f"in {seconds:.2f} s"
)
print(f"dist(∂F, 0) fell to {result.relative:.1e} of where it began")

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
