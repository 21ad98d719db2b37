"""
Phase retrieval of a photograph
===============================

A detector behind a lens sees intensities, \\|z\\|², where z is the Fourier transform of the light:
the phases are lost. So a photograph is taken six times, each time behind a plate that turns the
sign of every pixel at random. From these intensities alone, and from a start that is pure noise,
we look for the picture whose intensities they are: coded diffraction. The detector is simulated,
and free of noise; the photograph is one that scikit-learn ships, at a third of its size.

f is a polynomial of degree four in 90,738 unknowns, neither convex nor of bounded curvature. P-CCD
goes through the picture in four bands, from top to bottom, and finds its steps by a line search.
Brightness lies in [0, 1], which is the r of f + r, and which tells x from −x.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.fft import fft2, ifft2
from sklearn.datasets import load_sample_image

from cyclade import Box, minimize

flower = load_sample_image("flower.jpg")[:426, :639] / 255
flower = flower.reshape(142, 3, 213, 3, 3).mean(axis=(1, 3))  # rows, columns, colours
rng = np.random.default_rng(0)
signs = rng.choice([-1.0, 1.0], (6, *flower.shape[:2], 1))  # a plate for each exposure


def light(x):
    return fft2(signs * x, axes=(1, 2), norm="ortho")


seen = abs(light(flower)) ** 2  # all that is known of the flower from here on


def misfit(x):  # f = Σ ¼ (|z|² − seen)² / 6, and its gradient
    z = light(x)
    apart = abs(z) ** 2 - seen
    back = signs * ifft2(apart * z, axes=(1, 2), norm="ortho").real
    return np.sum(apart**2) / 24, back.sum(axis=0) / 6


noise = rng.random(flower.shape)
pictures = [noise]
result = minimize(
    misfit,
    noise,
    jac=True,
    blocks=4,
    reg=Box(0, 1),
    rtol=1e-4,
    tol=None,
    callback=lambda report: pictures.append(report.x.copy()),
)

# %%
# The flower itself serves only to measure the error.

errors = [np.sqrt(np.mean((picture - flower) ** 2)) for picture in pictures]
print(result)
print(f"{seen.size / 2 / flower.size:.0f} intensities an unknown (half of them are mirror images)")
print(f"root-mean-square error: {errors[-1]:.1e} (one step of a byte is {1 / 255:.1e})")

# %%
figure, axes = plt.subplots(2, 3, figsize=(10, 4.8))
shown = np.clip(np.log10(seen[0] + 1e-4) / 5 + 0.8, 0, 1)
for axis, image, title in zip(
    axes.flat,
    (flower, shown, noise, pictures[5], result.x),
    ("the photograph", "seen in one exposure (log)", "start", "after 5 cycles", "found"),
    strict=False,
):
    axis.imshow(image)
    axis.set(title=title, xticks=[], yticks=[])
    axis.grid(False)
    axis.spines[:].set_visible(False)
axes[1, 2].semilogy(errors)
axes[1, 2].set(title="root-mean-square error", xlabel="cycle")
plt.show()
