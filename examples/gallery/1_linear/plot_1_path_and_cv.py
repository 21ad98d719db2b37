"""
A path, and the cross-validation that chooses on it
===================================================

442 diabetes patients, ten measurements, and all their products: 65 columns. The path shows how
coefficients enter as the penalty falls. Cross-validation chooses where to stop; the
one-standard-error rule takes the sparsest model that is not worse than the best by more than noise.
"""

from dataclasses import replace

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from cyclade.linear import Lasso, LassoCV, plot_cv, plot_path

data = load_diabetes()
products = PolynomialFeatures(2, include_bias=False)
X = StandardScaler().fit_transform(products.fit_transform(data.data))
y = data.target
names = products.get_feature_names_out(data.feature_names)

model = LassoCV(n_alphas=50, cv=5, rule="1se").fit(X, y)
path = replace(Lasso().path(X, y, n_alphas=50), feature_names=names)

# %%
# Every point of the path ends with a certificate, here a duality gap: F − min F is at most that.

print(f"{len(path.alphas)} fits, all certified: {all(c.reached for c in path.certificates)}")
print(f"alpha, smallest error: {model.alpha_min_:.2f}; one standard error: {model.alpha_1se_:.2f}")
for j in model.coef_.nonzero()[0]:
    print(f"  {names[j]:8s} {model.coef_[j]:7.2f}")

# %%
figure, (left, right) = plt.subplots(1, 2)
plot_path(path, ax=left, alpha=model.alpha_, label=5)
plot_cv(model, ax=right)
left.set_title("Coefficients")
right.set_title("Held-out error")
plt.show()
