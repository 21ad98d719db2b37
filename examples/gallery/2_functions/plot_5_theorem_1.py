"""
Theorem 1's bound over the measured certificate
===============================================

Theorem 1 of the paper says of P-CCD: among the first K iterates, one has
dist²(∂F(x), 0) ≤ 4 (L̂ + 1) (F(x₀) − F*) / K. For least squares with an l1 norm every constant in it
can be computed, so the bound can be drawn over a run. It must never be crossed.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from cyclade import L1, minimize
from cyclade.theory import quadratic_constants, theorem1_bound

X, y = load_diabetes(return_X_y=True)
X, y = StandardScaler().fit_transform(X), (y - y.mean()) / y.std()
hessian, sizes = X.T @ X / len(y), [2] * 5  # ten measurements, two a block


def fun(x):
    return 0.5 * np.mean((X @ x - y) ** 2)


def jac(x):
    return X.T @ (X @ x - y) / len(y)


blocks = [slice(2 * j, 2 * j + 2) for j in range(5)]
L = [np.linalg.norm(hessian[b, b], 2) for b in blocks]  # block smoothness, exactly
options = {"jac": jac, "blocks": sizes, "L": L, "reg": L1(0.01), "returns": "last", "every": 1}
least = minimize(fun, np.zeros(10), tol=1e-12, max_cycles=5000, **options).fun
run = minimize(fun, np.zeros(10), tol=None, max_cycles=300, **options)

# %%
constants = quadratic_constants(hessian, L, sizes)
gap = fun(np.zeros(10)) - least
K = np.array(run.history["cycle"])[1:]
measured = np.minimum.accumulate(run.history["squared_distance"][1:])
bound = np.array([theorem1_bound(constants.L_hat, gap, int(k)) for k in K])
print(f"L̂ = {constants.L_hat:.2f}, F(x₀) − F* = {gap:.3f}")
print(f"the bound holds at all {len(K)} cycles: {bool(np.all(measured <= bound))}")

# %%
plt.loglog(K, bound, "--", label="Theorem 1")
plt.loglog(K, np.maximum(measured, 1e-32), label="smallest certificate so far")
plt.xlabel("cycle K")
plt.ylabel("dist²(∂F(x), 0)")
plt.legend()
plt.show()
