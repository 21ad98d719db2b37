"""The estimators as scikit-learn's users know them: its own checks, and answers to bad input."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import NMF as SklearnNMF
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from cyclade.decomposition import CP, NMF, DictionaryLearning, MatrixCompletion


class Completion(MatrixCompletion):
    """Without `predict`, which takes rows and columns, not an X."""

    predict = property()


@pytest.mark.filterwarnings("default")
@parametrize_with_checks([NMF(), Completion(), DictionaryLearning(n_components=2)])
def test_estimators_keep_the_manners_of_scikit_learn(estimator, check):
    check(estimator)
