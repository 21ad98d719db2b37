"""
Regression with outliers
========================

One value in eight of the training targets is written down ten times too large, as happens when a
decimal point is lost. Squares chase such rows; Huber's loss still leans towards them; the nonconvex
losses of Cauchy and Tukey let go of them altogether. The test rows are clean.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from cyclade.linear import Lasso, RobustRegression

X, y = load_diabetes(return_X_y=True)
X, X_test, y, y_test = train_test_split(StandardScaler().fit_transform(X), y, random_state=0)
rng = np.random.default_rng(0)
wrong = rng.choice(len(y), len(y) // 8, replace=False)
y[wrong] *= 10

models = {
    "squared": Lasso(alpha=1.0),
    "huber": RobustRegression(loss="huber", alpha=1.0),
    "cauchy": RobustRegression(loss="cauchy", alpha=1.0),
    "tukey": RobustRegression(loss="tukey", alpha=1.0),
}
for name, model in models.items():
    error = np.mean(abs(model.fit(X, y).predict(X_test) - y_test))
    print(
        f"{name:8s} mean absolute error on clean rows {error:6.1f}; "
        f"stationary to tolerance: {model.certificate_.reached}"
    )

# %%
figure, axes = plt.subplots(1, 4, sharex=True, sharey=True, figsize=(10, 3))
for axis, (name, model) in zip(axes, models.items(), strict=True):
    axis.scatter(y_test, model.predict(X_test), s=12, alpha=0.6)
    axis.axline((150, 150), slope=1, color="#444444", lw=1)
    axis.set(title=name, xlabel="true")
axes[0].set_ylabel("predicted")
plt.show()
