"""
Phase retrieval of an image
===========================

A detector sees intensities, (aᵢᵀx)², and not signs. From 450 of them we look for the 64 pixels of
a digit. f is a polynomial of degree four, neither convex nor of bounded curvature: P-CCD finds its
steps by a line search, block by block, from the spectral start.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from cyclade.problems import PhaseRetrieval

rng = np.random.default_rng(0)
digit = load_digits().images[13].ravel() / 16
A = rng.standard_normal((450, 64))
intensities = (A @ digit) ** 2

problem = PhaseRetrieval(A, intensities, blocks=8)  # eight pixels a block
start = problem.x0(0)
result = problem.minimize(start, rtol=1e-8, tol=None, max_cycles=2000)
found = result.x * np.sign(result.x @ digit)  # x and −x give the same intensities

# %%
print(result)
print(f"largest error of a pixel: {abs(found - digit).max():.1e}")

# %%
figure, axes = plt.subplots(1, 4, figsize=(10, 2.8), width_ratios=(1, 1, 1, 1.6))
for axis, image, title in zip(
    axes,
    (digit, start * np.sign(start @ digit), found),
    ("the digit", "start", "found"),
    strict=False,
):
    axis.imshow(image.reshape(8, 8), vmin=0, vmax=1)
    axis.set(title=title, xticks=[], yticks=[])
    axis.grid(False)
axes[3].semilogy(result.history["cycle"], result.history["dist"])
axes[3].set(title="dist(∂F, 0)", xlabel="cycle")
plt.show()
