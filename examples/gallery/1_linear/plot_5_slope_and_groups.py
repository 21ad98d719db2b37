"""
Slope and groups: penalties that know which columns belong together
===================================================================

Left: each measurement of the diabetes data becomes a group of five spline columns, and the group
lasso takes or leaves the whole curve. Right: slope (the sorted l1 norm) finds groups by itself; it
draws the coefficients of correlated measurements together until they are exactly equal in size.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import SplineTransformer, StandardScaler

from cyclade.linear import GroupLassoCV, SlopeRegression

data = load_diabetes()
X, y = StandardScaler().fit_transform(data.data), data.target
splines = SplineTransformer(n_knots=4, degree=2, include_bias=False)
curves = StandardScaler(with_std=False).fit_transform(splines.fit_transform(X))
size = curves.shape[1] // X.shape[1]

groups = GroupLassoCV(groups=size, cv=5, n_alphas=30, rule="1se").fit(curves, y)
norms = np.linalg.norm(groups.coef_.reshape(-1, size), axis=1)
print("curves kept:", [name for name, norm in zip(data.feature_names, norms, strict=True) if norm])

slope = SlopeRegression(alpha=12.0, weights="oscar").fit(X, y)
for value in np.unique(abs(slope.coef_)):
    members = [n for n, c in zip(data.feature_names, slope.coef_, strict=True) if abs(c) == value]
    print(f"|coefficient| = {value:6.2f}: {', '.join(members)}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
for j in np.flatnonzero(norms):
    order = np.argsort(X[:, j])
    part = slice(j * size, (j + 1) * size)
    left.plot(X[order, j], curves[order, part] @ groups.coef_[part], label=data.feature_names[j])
left.set(title="Group lasso: whole curves", xlabel="measurement", ylabel="effect", xlim=(-2.5, 2.5))
left.legend()
right.bar(data.feature_names, slope.coef_, color="#009e73")
right.axhline(0, color="#444444", lw=1)
right.set(title="Slope: equal sizes for correlated columns", ylabel="coefficient")
plt.show()
