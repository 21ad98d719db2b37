"""
MCP and SCAD against the lasso
==============================

The lasso shrinks what it keeps, and to make up for that it keeps too much. MCP and SCAD leave large
coefficients alone. To see it on real data we need columns that are known to be useless: here every
measurement of 442 diabetes patients comes with thirty shuffled copies of itself. Whatever is
chosen among the copies is a false discovery.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from cyclade.linear import LassoCV, MCPRegressionCV, SCADRegressionCV

X, y = load_diabetes(return_X_y=True)
rng = np.random.default_rng(0)
copies = np.hstack([rng.permutation(X) for _ in range(30)])  # rows shuffled: no link to y is left
X = StandardScaler().fit_transform(np.hstack([X, copies]))
print(f"{X.shape[0]} rows, 10 real columns, {X.shape[1] - 10} shuffled ones")

models = {"lasso": LassoCV, "MCP": MCPRegressionCV, "SCAD": SCADRegressionCV}
for name, Model in models.items():
    models[name] = Model(cv=5, n_alphas=40, rule="1se").fit(X, y)

# %%
# The models chosen by cross-validation: what is real, what is not.

for name, model in models.items():
    real, false = np.count_nonzero(model.coef_[:10]), np.count_nonzero(model.coef_[10:])
    print(
        f"{name:6s} {real:2d} real columns, {false:3d} shuffled ones; "
        f"held-out mean squared error {model.mse_path_.mean(-1).min():.0f}"
    )

# %%
figure, axes = plt.subplots(1, 3, sharey=True, figsize=(9, 3.2))
for axis, (name, model) in zip(axes, models.items(), strict=True):
    for part, colour, label in (
        (slice(10, None), "#999999", "shuffled"),
        (slice(10), "#d55e00", "real"),
    ):
        coef = model.coef_[part]
        axis.scatter(
            np.arange(len(coef)) * (10 if label == "real" else 1 / 3),
            coef,
            s=14,
            color=colour,
            label=label,
        )
    axis.set(title=name, xticks=[], xlabel="columns")
axes[0].set_ylabel("coefficient")
axes[0].legend()
plt.show()
