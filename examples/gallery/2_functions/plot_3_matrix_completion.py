"""
A picture from half of its pixels
=================================

A photograph that scikit-learn ships, in grey and small, of which every second pixel is thrown
away, at random. A matrix of rank 10 that agrees with the rest fills them in: two blocks, U and V,
each with its own diagonal Λ (rows seen often do not slow down rows seen seldom).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from cyclade.problems import MatrixCompletion

picture = load_sample_image("china.jpg").mean(axis=2)[::4, ::4] / 255
seen = np.random.default_rng(0).random(picture.shape) < 1 / 2
rows, columns = np.nonzero(seen)
mean = picture[seen].mean()
problem = MatrixCompletion(rows, columns, picture[seen] - mean, picture.shape, rank=10, lam=2e-4)
result = problem.minimize(rtol=5e-3, tol=None, max_cycles=300)
completed = np.clip(problem.matrix(result.x) + mean, 0, 1)

# %%
print(
    f"{seen.mean():.0%} of {picture.size} pixels seen; {result.cycles} cycles, "
    f"{result.seconds:.1f} s; {result.message}"
)
error = np.sqrt(np.mean((completed - picture)[~seen] ** 2))
flat = np.sqrt(np.mean((mean - picture)[~seen] ** 2))
print(f"root-mean-square error on pixels never seen: {error:.3f} (the mean as a guess: {flat:.3f})")

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 2.8))
for axis, image, title in zip(
    axes,
    (np.where(seen, picture, np.nan), completed, picture),
    ("what is known", "completed", "the picture"),
    strict=True,
):
    axis.imshow(image, vmin=0, vmax=1)
    axis.set(title=title, xticks=[], yticks=[])
    axis.grid(False)
plt.show()
