"""Factorisations of matrices and tensors by exact cyclic block minimisation.

`NMF` and `MatrixCompletion` take missing and weighted entries, `CP` takes tensors, and
`DictionaryLearning` finds sparse codes. Each says in `certificate_` how far 0 is from the
subdifferential at the factors it returns. Estimators, numba and SciPy are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cyclade._extras import needs

if TYPE_CHECKING:  # type checkers and editors read these imports, and nothing else does
    from cyclade.decomposition.completion import MatrixCompletion
    from cyclade.decomposition.cp import CP
    from cyclade.decomposition.dictionary import DictionaryLearning
    from cyclade.decomposition.nmf import NMF

__all__ = ["CP", "NMF", "DictionaryLearning", "MatrixCompletion"]
WHERE = {"CP": "cp", "NMF": "nmf", "DictionaryLearning": "dictionary",
         "MatrixCompletion": "completion"}  # fmt: skip


def __getattr__(name: str) -> Any:
    """An estimator, from its module."""
    if name not in WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs("cyclade.decomposition", "linear"):
        return getattr(import_module(f"cyclade.decomposition.{WHERE[name]}"), name)
