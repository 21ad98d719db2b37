"""
MCP and SCAD against the lasso
==============================

The lasso shrinks what it keeps, and to make up for that it keeps too much. MCP and SCAD leave large
coefficients alone. To see who is right we must know the truth, so the columns are real (442
diabetes patients, ten measurements, each with twenty shuffled copies of itself) and the target is
made from four of them, with noise. Whatever is chosen among the others is a false discovery.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from cyclade.linear import LassoCV, MCPRegressionCV, SCADRegressionCV

X, _ = load_diabetes(return_X_y=True)
rng = np.random.default_rng(0)
copies = np.hstack([rng.permutation(X) for _ in range(20)])  # rows shuffled
X = StandardScaler().fit_transform(np.hstack([X, copies]))
truth = np.zeros(X.shape[1])
truth[[2, 3, 6, 8]] = [3.0, 1.5, -2.0, 2.5]  # bmi, blood pressure, s3, s5
y = X @ truth + 2.0 * rng.standard_normal(len(X))

models = {"lasso": LassoCV, "MCP": MCPRegressionCV, "SCAD": SCADRegressionCV}
for name, Model in models.items():
    models[name] = Model(cv=5, n_alphas=30).fit(X, y)

# %%
# The models that cross-validation chooses:

for name, model in models.items():
    chosen = model.coef_ != 0
    print(
        f"{name:6s} {chosen[truth != 0].sum()} of 4 found, {chosen[truth == 0].sum():3d} false; "
        f"distance to the truth {np.linalg.norm(model.coef_ - truth):.2f}"
    )

# %%
figure, axes = plt.subplots(1, 3, sharey=True, figsize=(9, 3.2))
for axis, (name, model) in zip(axes, models.items(), strict=True):
    axis.plot(
        np.where(truth != 0, truth, np.nan), "o", mfc="none", ms=10, color="#444444", label="truth"
    )
    axis.plot(np.where(model.coef_ != 0, model.coef_, np.nan), ".", label="chosen")
    axis.set(title=name, xlabel="column")
axes[0].set_ylabel("coefficient")
axes[0].legend()
plt.show()
