"""
A picture from half of its pixels
=================================

A photograph that scikit-learn ships, in grey and small, of which every second pixel is thrown
away, at random. A matrix UVᵀ of rank 10 that agrees with the rest fills them in. The blocks are the
rows of U and of V, and each is minimised over exactly.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_sample_image

from cyclade.decomposition import MatrixCompletion

picture = load_sample_image("china.jpg").mean(axis=2)[::4, ::4] / 255
seen = np.random.default_rng(0).random(picture.shape) < 1 / 2
mean = picture[seen].mean()
model = MatrixCompletion(rank=10, alpha=0.5, random_state=0)
U = model.fit_transform(np.where(seen, picture - mean, np.nan))
completed = np.clip(model.inverse_transform(U) + mean, 0, 1)

# %%
print(f"{seen.mean():.0%} of {picture.size} pixels seen; {model.n_iter_} cycles")
print(model.certificate_)
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
