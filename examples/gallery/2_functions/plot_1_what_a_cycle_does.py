"""
What a cycle does
=================

A gradient step moves all coordinates at once, by one step that must suit the steepest direction. A
cycle moves one block after the other, each along its gradient *at the point that the blocks before
it have reached*, with a step of its own. Here are five of each on the same valley.
"""

import matplotlib.pyplot as plt
import numpy as np

from cyclade import minimize

H = np.array([[1.0, 2.5], [2.5, 10.0]])  # a narrow valley


def fun(x):
    return 0.5 * x @ H @ x + 0.05 * np.sum(1 - np.cos(3 * x))  # with ripples: not convex


def jac(x):
    return H @ x + 0.15 * np.sin(3 * x)


def trail(**options):
    points = [x0]
    minimize(
        fun,
        x0,
        jac=jac,
        tol=None,
        max_cycles=5,
        accelerate=False,
        callback=lambda report: points.append(report.x.copy()),
        **options,
    )
    return np.array(points)


x0 = np.array([-2.4, 1.1])
curvature = H + 0.45 * np.eye(2)  # no second derivative is larger
cyclic = trail(blocks="coordinates", L=list(np.diag(curvature)))
together = trail(blocks=1, L=float(np.linalg.eigvalsh(curvature)[-1]))
print(f"F after five cycles: {fun(cyclic[-1]):.4f}")
print(f"F after five gradient steps: {fun(together[-1]):.4f}")

# %%
# Between two points of the cyclic trail lies a corner: first one coordinate moves, then the other.

corners = np.stack([cyclic[1:, 0], cyclic[:-1, 1]], axis=1)
staircase = np.insert(cyclic, np.arange(1, len(cyclic)), corners, axis=0)
a, b = np.meshgrid(np.linspace(-2.7, 1.2, 200), np.linspace(-0.7, 1.4, 200))
values = np.array([fun(np.array(p)) for p in zip(a.ravel(), b.ravel(), strict=True)])
plt.figure(figsize=(7, 4))
plt.contour(a, b, np.log(values.reshape(a.shape) + 0.02), levels=14, cmap="Greys_r", linewidths=0.8)
plt.plot(*together.T, "s--", label="gradient steps")
plt.plot(*staircase.T, "-", color="#d55e00")
plt.plot(*cyclic.T, "o", color="#d55e00", label="cycles")
plt.grid(False)
plt.legend()
plt.xlabel("block 1")
plt.ylabel("block 2")
plt.show()
