"""
A sparse text classifier, beside liblinear
==========================================

Is a docstring NumPy's or SciPy's? The texts are those of the packages installed here: real prose,
thousands of words, and nothing to download. l1 picks the words that tell the two apart.
scikit-learn's ``liblinear`` minimises almost the same objective (it penalises the intercept too).
"""

import inspect
import time

import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.signal
import scipy.stats
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from cyclade.linear import SparseLogisticRegression


def texts(*modules):
    found = {name: inspect.getdoc(getattr(m, name)) for m in modules for name in m.__all__}
    return [text for text in found.values() if text and len(text) > 300]


numpys = texts(np, np.linalg, np.random, np.fft)
scipys = texts(scipy.linalg, scipy.optimize, scipy.signal, scipy.stats)
labels = np.repeat(["NumPy", "SciPy"], [len(numpys), len(scipys)])
words = TfidfVectorizer(token_pattern=r"[a-z]{3,}", min_df=3, stop_words=["numpy", "scipy"])
X = words.fit_transform(numpys + scipys)
train, test, y, y_test = train_test_split(X, labels, random_state=0, stratify=labels)
print(f"{X.shape[0]} docstrings, {X.shape[1]} words")

# %%
# The same penalty for both: liblinear's C is 1/(n alpha).

alpha = 0.001
ours = SparseLogisticRegression(alpha=alpha).fit(train, y)  # loads the compiled kernels
began = time.perf_counter()
ours = SparseLogisticRegression(alpha=alpha).fit(train, y)
seconds = time.perf_counter() - began
C = 1 / (train.shape[0] * alpha)
theirs = LogisticRegression(C=C, l1_ratio=1, solver="liblinear", tol=1e-6)
began = time.perf_counter()
theirs.fit(train, y)
print(
    f"cyclade   {ours.score(test, y_test):.3f} accuracy, {np.count_nonzero(ours.coef_)} words, "
    f"{1e3 * seconds:.0f} ms, certified: {ours.certificate_.reached}"
)
print(
    f"liblinear {theirs.score(test, y_test):.3f} accuracy, "
    f"{np.count_nonzero(theirs.coef_)} words, {1e3 * (time.perf_counter() - began):.0f} ms"
)

# %%
coef, vocabulary = ours.coef_.ravel(), words.get_feature_names_out()
order = np.argsort(coef)
shown = [j for j in np.r_[order[:12], order[-12:]] if coef[j] != 0]
plt.figure(figsize=(7.5, 5))
plt.barh(vocabulary[shown], coef[shown], color=np.where(coef[shown] > 0, "#d55e00", "#0072b2"))
plt.xlabel("← NumPy        weight        SciPy →")
plt.title("The words that tell two libraries apart")
plt.show()
