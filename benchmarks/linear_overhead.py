"""What a fit of a small table costs: beyond scikit-learn's validation, and in a new process.

    python benchmarks/linear_overhead.py [--repeats 200] [--csv out/linear_overhead.csv]

Three tables are printed.

- Fits of a 500 x 30 table with default parameters, ours and scikit-learn's in turns; and ours less
  the time of `validate_data` on the same table and the check of the target, which every estimator
  in scikit-learn's manner makes.
- Estimators with cross-validation, 100 alphas and 5 folds: on tables of scikit-learn, and on a tall
  one.
- CPU seconds of a new Python that imports an estimator and fits once, with kernels cached on disk;
  beside it, what scikit-learn's `Lasso` takes for the same, and what a first fit takes with no
  kernel cached (``--cold``), as after an installation.

Times are medians of the CPU time of this process, on one thread.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.linear_model as theirs
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import scale
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import cyclade.linear as ours
from measuring import arguments, in_turns, medians
from tables import printed

Row = dict[str, Any]
HERE = Path(__file__).resolve().parent
PROGRAM = """
import numpy as np
from {module} import Lasso
X = np.random.default_rng(0).standard_normal((500, 30))
Lasso(alpha=0.1).fit(X, X[:, 0] + 1.0)
"""


def single(repeats: int) -> Iterator[Row]:
    """Fits of 500 x 30."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 30))
    y = X[:, :5].sum(axis=1) + rng.standard_normal(500)
    labels = (y > 0).astype(int)
    logistic = theirs.LogisticRegression(l1_ratio=1.0, C=0.1, solver="liblinear")
    cases = [
        ("Lasso", ours.Lasso(), theirs.Lasso(), y),
        ("ElasticNet", ours.ElasticNet(), theirs.ElasticNet(), y),
        ("SparseLogisticRegression", ours.SparseLogisticRegression(), logistic, labels),
    ]
    for name, mine, other, target in cases:

        def validation(model: Any = mine, target: Any = target, name: str = name) -> None:
            dtypes = (np.float64, np.float32)
            _, y = validate_data(
                model, X, target, dtype=dtypes, multi_output=True, accept_sparse=("csr", "csc")
            )
            if "Logistic" in name:
                check_classification_targets(y)
                np.unique(y, return_inverse=True)

        calls = [*(partial(m.fit, X, target) for m in (mine, other)), validation]
        own, peer, checks = medians(in_turns(dict(enumerate(calls)), repeats)).values()
        yield {
            "what": f"{name} 500 x 30", "cyclade_ms": 1e3 * own, "scikit_learn_ms": 1e3 * peer,
            "ratio": peer / own, "beyond_validation_ms": 1e3 * (own - checks),
        }  # fmt: skip


def cross_validated(repeats: int) -> Iterator[Row]:
    """Estimators that choose alpha."""
    X, y = load_diabetes(return_X_y=True)
    XB, yB = load_breast_cancer(return_X_y=True)
    XB = scale(XB)
    classes = ours.SparseLogisticRegressionCV().fit(XB, yB)
    liblinear = theirs.LogisticRegressionCV(  # on the same grid
        Cs=1.0 / (len(yB) * classes.alphas_), cv=5, solver="liblinear", l1_ratios=(1.0,),
        use_legacy_attributes=False, scoring="neg_log_loss",
    )  # fmt: skip
    rng = np.random.default_rng(0)
    tall = rng.standard_normal((100_000, 200))
    answer = tall[:, :20].sum(axis=1) + rng.standard_normal(100_000)
    cases = [
        ("LassoCV 100,000 x 200", ours.LassoCV(), theirs.LassoCV(), tall, answer),
        ("LassoCV 442 x 10", ours.LassoCV(), theirs.LassoCV(), X, y),
        ("ElasticNetCV 442 x 10", ours.ElasticNetCV(), theirs.ElasticNetCV(), X, y),
        ("SparseLogisticRegressionCV 569 x 30", classes, liblinear, XB, yB),
    ]
    for name, mine, other, data, target in cases:
        few = 3 if other is liblinear or data is tall else max(repeats // 10, 3)
        fits = {model: partial(model.fit, data, target) for model in (mine, other)}
        own, peer = medians(in_turns(fits, few)).values()
        yield {
            "what": name, "cyclade_ms": 1e3 * own, "scikit_learn_ms": 1e3 * peer,
            "ratio": peer / own,
        }  # fmt: skip


def child_seconds(module: str, **environment: str) -> float:
    """CPU seconds of a new Python that imports a Lasso and fits it."""
    path = os.pathsep.join([str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")])
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code, own = PROGRAM.format(module=module), {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    env = {**os.environ, **own, **environment}
    env.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have theirs
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def processes(cold: bool) -> Iterator[Row]:
    """A first fit in a new process."""
    child_seconds("cyclade.linear")  # caches what is missing
    pairs = [
        (child_seconds("cyclade.linear"), child_seconds("sklearn.linear_model")) for _ in range(5)
    ]
    own, peer = (statistics.median(column) for column in zip(*pairs, strict=True))
    yield {
        "what": "imports and a first fit, cached kernels", "cyclade_ms": 1e3 * own,
        "scikit_learn_ms": 1e3 * peer, "ratio": peer / own,
    }  # fmt: skip
    if cold:
        with tempfile.TemporaryDirectory() as folder:
            first = child_seconds("cyclade.linear", NUMBA_CACHE_DIR=folder)
        yield {"what": "the same with no kernel cached", "cyclade_ms": 1e3 * first}


def main() -> None:
    """Read the command line, measure and print."""
    given = arguments(__doc__, repeats=200, cold=False, csv=Path)
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", FutureWarning)
    fields = ("what", "cyclade_ms", "scikit_learn_ms", "ratio", "beyond_validation_ms")
    with threadpool_limits(1):
        rows = chain(single(given.repeats), cross_validated(given.repeats), processes(given.cold))
        printed(rows, given.csv, fields)


if __name__ == "__main__":
    main()
