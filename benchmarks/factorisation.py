"""`cyclade.decomposition` beside scikit-learn, tensorly and nimfa, at equal objective.

Every problem is drawn from a seed, for the settings (`tuned`) and anew (`held out`, run once). All
solvers start at the same factors.
Each peer runs with its settings for a good fit. The objective where it ends is the target: ours is
stopped at the first cycle (of 1, 2, … 6, then each a fifth more than the last) within 1e-4 of it.
Where a peer ends lower than ours ever does, as F has many minima, ours is "not reached". Times are
processor seconds of one thread, medians of `--repeats` turns; the ratio is the peer's over ours.
Peers that are not installed are left out (`pip install tensorly nimfa`).

    python benchmarks/factorisation.py [--repeats 3] [--half tuned] [--csv FILE]
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from cyclade.decomposition import CP, NMF, DictionaryLearning
from cyclade.decomposition.cp import outer
from measuring import arguments, in_turns, medians
from tables import printed

Array = np.ndarray[Any, Any]
MOST = 3000  # cycles of ours
CLOSE = 1e-4
SEEDS = {"tuned": 0, "held out": 20_270}


@dataclass
class Line:
    """A problem: its objective of factors, ours for so many cycles, and peers."""

    name: str
    objective: Callable[[Any], float]
    ours: Callable[..., Any]  # of cycles, and of factors to go on from
    peers: dict[str, Callable[[], Any]]
    again: bool = False  # whether ours has to begin anew for more cycles


# ------------------------------------------------------------------------------- factorisations


def nmf(name: str, X: Any, k: int, rng: np.random.Generator, weights: Array | None = None) -> Line:
    """X ≈ WH, all of X or the entries where `weights` is 1."""
    from sklearn.decomposition import NMF as Theirs

    n, p = X.shape
    scale = np.sqrt(X.mean() / k)
    W, H = scale * abs(rng.standard_normal((n, k))), scale * abs(rng.standard_normal((k, p)))
    dense = X.toarray() if sparse.issparse(X) else X
    S = 1.0 if weights is None else weights

    def ours(cycles: int, start: Any = (W, H)) -> Any:
        model, (A, B) = NMF(k, init="custom", tol=0.0, max_iter=cycles), start
        return model.fit_transform(X, weights=weights, W=A, H=B), model.components_

    def scikit() -> Any:
        model = Theirs(k, init="custom", max_iter=2000)
        return model.fit_transform(X, W=W.copy(), H=H.copy()), model.components_

    def tensorly() -> Any:
        from tensorly import decomposition

        options: dict[str, Any] = {"init": (np.ones(k), [W.copy(), H.T.copy()])}
        call = decomposition.non_negative_parafac_hals
        if weights is not None:
            call, options["mask"] = decomposition.non_negative_parafac, weights
        scales, factors = call(S * X, k, n_iter_max=500, tol=1e-7, **options)
        return factors[0] * scales, factors[1].T

    def nimfa() -> Any:
        vars(np).setdefault("mat", np.asmatrix)  # which NumPy 2 has no more
        import nimfa as package

        fit = package.Lsnmf(X, seed=None, W=W.copy(), H=H.copy(), rank=k, max_iter=50)().fit
        return np.asarray(fit.basis()), np.asarray(fit.coef())

    def updates(cycles: int = 500) -> Any:
        """The multiplicative updates with weights that users write by hand."""
        A, B, known = W.copy(), H.copy(), S * X
        for _ in range(cycles):
            A *= (known @ B.T) / ((S * (A @ B)) @ B.T + 1e-12)
            B *= (A.T @ known) / (A.T @ (S * (A @ B)) + 1e-12)
        return A, B

    if weights is not None:
        peers: dict[str, Callable[[], Any]] = {"multiplicative, by hand": updates}
        if find_spec("tensorly"):
            peers["tensorly, mask"] = tensorly
    else:
        peers = {"scikit-learn cd": scikit}
        if find_spec("tensorly") and not sparse.issparse(X):
            peers["tensorly hals"] = tensorly
        if find_spec("nimfa") and not sparse.issparse(X):
            peers["nimfa lsnmf"] = nimfa
    return Line(name, lambda x: 0.5 * float(np.sum(S * (dense - x[0] @ x[1]) ** 2)), ours, peers)


def cp(name: str, X: Array, k: int, rng: np.random.Generator, nonnegative: bool) -> Line:
    """A tensor as a sum of outer products."""
    start = [rng.random((size, k)) for size in X.shape]
    peers: dict[str, Callable[[], Any]] = {}

    def ours(cycles: int, first: Any = start) -> Any:
        return CP(k, nonnegative=nonnegative, init=first, tol=0.0, max_iter=cycles).fit(X).factors_

    def tensorly() -> Any:
        from tensorly import decomposition

        call = decomposition.non_negative_parafac_hals if nonnegative else decomposition.parafac
        init = (np.ones(k), [A.copy() for A in start])
        weights, factors = call(X, k, n_iter_max=500, init=init, tol=1e-7)
        return [factors[0] * weights, *factors[1:]]

    if find_spec("tensorly"):
        peers["tensorly"] = tensorly
    return Line(name, lambda x: 0.5 * float(np.sum((X - outer(x)) ** 2)), ours, peers)


def dictionary(name: str, X: Array, k: int, alpha: float, rng: np.random.Generator) -> Line:
    """Sparse codes on atoms of length one."""
    from sklearn.decomposition import DictionaryLearning as Theirs

    V = X[rng.permutation(len(X))[:k]]
    V = V / np.linalg.norm(V, axis=1, keepdims=True)

    def ours(cycles: int, start: Any = None) -> Any:
        model = DictionaryLearning(k, alpha=alpha, dict_init=V, tol=0.0, max_iter=cycles)
        return model.fit_transform(X), model.components_

    def scikit() -> Any:
        start = {"dict_init": V, "code_init": np.zeros((len(X), k))}
        model = Theirs(k, alpha=alpha, fit_algorithm="cd", max_iter=100, tol=1e-5, **start)
        model.set_params(transform_algorithm="lasso_cd", transform_alpha=alpha).fit(X)
        return model.transform(X), model.components_

    def objective(x: Any) -> float:
        return 0.5 * float(np.sum((X - x[0] @ x[1]) ** 2)) + alpha * float(abs(x[0]).sum())

    return Line(name, objective, ours, {"scikit-learn cd": scikit}, again=True)


def problems(half: str) -> Iterator[Line]:
    """The lines of one half."""
    seed = SEEDS[half]
    rng = np.random.default_rng(seed)
    digits = load_digits().data / 16.0
    yield nmf("NMF digits 1797 x 64, rank 16", digits, 16, rng)
    V = rng.random((300, 10)) @ rng.random((10, 200)) + 0.1 * rng.random((300, 200))
    yield nmf("NMF 300 x 200, rank 10", V, 10, rng)
    V = rng.random((1000, 15)) @ rng.random((15, 600)) + 0.1 * rng.random((1000, 600))
    yield nmf("NMF 1000 x 600, rank 15", V, 15, rng)
    V = rng.random((40, 3)) @ rng.random((3, 40)) + 0.01 * rng.random((40, 40))
    yield nmf("NMF 40 x 40, rank 3", V, 3, rng)
    topics = rng.dirichlet(np.full(10, 0.1), 4000) @ rng.dirichlet(np.full(2000, 0.05), 10)
    counts = sparse.csr_matrix(rng.poisson(60.0 * topics).astype(float))
    yield nmf("NMF counts 4000 x 2000, sparse, rank 10", counts, 10, rng)
    seen = (rng.random(digits.shape) > 0.3).astype(float)
    yield nmf("NMF digits, 30 % missing, rank 16", digits, 16, rng, seen)
    for ways, k in (((60, 50, 40), 8), ((20, 18, 16, 14), 5)):
        T = outer([rng.random((size, k)) for size in ways])
        T += 0.1 * T.mean() * rng.standard_normal(ways)
        shape = " x ".join(map(str, ways))
        yield cp(f"CP {shape}, rank {k}", T, k, rng, False)
        yield cp(f"CP {shape}, rank {k}, signs", np.maximum(T, 0), k, rng, True)
    yield dictionary("dictionary digits, 30 atoms", digits, 30, 0.3, rng)


def compared(line: Line, repeats: int) -> Iterator[dict[str, Any]]:
    """A row for each peer: its seconds, and ours to its objective."""
    for name, peer in line.peers.items():
        try:
            target = line.objective(peer())
        except Exception as error:  # a peer that fails on this problem
            print(f"{line.name}: {name} fails: {error!r}"[:200], flush=True)
            continue
        cycles, calls = first_below(line, target), {name: peer}
        if cycles is not None:
            calls["ours"] = partial(line.ours, cycles)
        times = medians(in_turns(calls, repeats, warm=0))
        own = times.get("ours")
        yield {
            "problem": line.name, "peer": name, "objective": target,
            "peer seconds": times[name], "seconds": "not reached" if own is None else own,
            "cycles": cycles or "", "peer / ours": "" if own is None else times[name] / own,
        }  # fmt: skip


def first_below(line: Line, target: float) -> int | None:
    """The fewest cycles to the target, of those tried: each a fifth more than the last."""
    cycles = more = 1
    found = line.ours(1)
    while line.objective(found) > target * (1 + CLOSE):
        more = max(1, cycles // 5)
        cycles += more
        if cycles > MOST:
            return None
        found = line.ours(cycles) if line.again else line.ours(more, found)
    return cycles


def main() -> None:
    """Print and write the tables."""
    given = arguments(__doc__, repeats=3, half=tuple(SEEDS), only="", csv=Path)

    def rows() -> Iterator[dict[str, Any]]:
        for half in given.half:
            for line in problems(half):
                if given.only in line.name:
                    line.ours(1)  # compiles
                    for row in compared(line, given.repeats):
                        yield {"half": half, **row}

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        printed(rows(), given.csv, digits=3)


if __name__ == "__main__":
    main()
