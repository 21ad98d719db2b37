"""Three or more classes: CPU time to accuracy, beside adelie (rows) and scikit-learn's saga (l1).

    python benchmarks/classes.py --data-dir FOLDER --peer-python .venv-bench-adelie/bin/python \\
        --out docs/benchmarks/classes.csv

    F(x, c) = (1/n) Σ_i (log Σ_t e^{z_it} − z_{i,y_i}) + r(x),  z = Xx + c

with r = λ Σ_j ‖x_j‖ over the rows of x ("rows") or λ Σ_jt |x_jt| ("l1"), at λ_max/10 and /100 and
along a path of 50 λ from λ_max to λ_max/100. Every solver has a process of its own, on one thread,
and goes from loose to tight tolerances until F is within 1e-6 of the lowest known, relatively; F is
computed here. iris, wine and digits come with scikit-learn and are standardised; "news20" are word
counts of twenty newsgroups (tf-idf), from the folder. Medians of up to five fits that take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from linear import HERE, Served
from measuring import command_line, seconds, timed
from tables import printed

ACCURACY = 1e-6
LADDERS = {
    "cyclade": [10.0**-k for k in range(3, 12)],
    "adelie": [10.0**-k for k in range(4, 17)],
    "saga": [10.0**-k for k in range(2, 10)],
}
PEERS = {"rows": "adelie", "l1": "saga"}
SMALL = ("iris", "wine", "digits")
PLACES = ("10", "100", "path")


def data(name: str, folder: Path | None) -> tuple[Any, Any]:
    """(X, y) with classes 0, …, T − 1."""
    from sklearn import datasets

    if name == "news20":
        from linear_peers.kinds import tfidf
        from linear_peers.problems import npz

        assert folder is not None
        X, y = npz(folder / "news20_counts.npz")
        X = tfidf(X).tocsc()
        return X[:, np.diff(X.indptr) > 0], y.astype(float)
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    X = X[:, X.std(axis=0) > 0]
    return np.asfortranarray((X - X.mean(axis=0)) / X.std(axis=0)), y.astype(float)


class Problem:
    """F, its λ_max and its λ."""

    def __init__(self, X: Any, y: Any, penalty: str, place: str) -> None:
        self.X, self.y, self.penalty, self.n = X, y, penalty, len(y)
        self.codes, self.T = y.astype(int), int(y.max()) + 1
        shares = np.bincount(self.codes) / self.n
        residual = np.tile(shares, (self.n, 1))
        residual[np.arange(self.n), self.codes] -= 1.0
        g = np.asarray(X.T @ residual) / self.n
        top = np.sqrt((g**2).sum(axis=1)).max() if penalty == "rows" else np.abs(g).max()
        ratios = np.geomspace(1.0, 0.01, 50) if place == "path" else [1.0 / float(place)]
        self.lams = float(top) * np.asarray(ratios)

    def objective(self, x: Any, c: Any, lam: float) -> float:
        """F."""
        z = np.asarray(self.X @ x) + c
        top = z.max(axis=1)
        loss = np.log(np.exp(z - top[:, None]).sum(axis=1)) + top - z[np.arange(self.n), self.codes]
        norms = np.sqrt((x**2).sum(axis=1)) if self.penalty == "rows" else np.abs(x)
        return float(loss.mean() + lam * norms.sum())


def solver(name: str, problem: Problem) -> Any:
    """A function from a tolerance to a list of (x, c), one per λ."""
    return {"cyclade": ours, "adelie": adelie, "saga": saga}[name](problem)


def ours(problem: Problem) -> Any:
    """`path`, or one `solve`."""
    from cyclade.linear import path, penalties, solve

    one = penalties.get(problem.penalty, float(problem.lams[-1]))

    def fits(tol: float) -> list[tuple[Any, Any]]:
        if problem.lams.size == 1:
            found = solve(problem.X, problem.y, "multinomial", one, tol=tol)
            return [(found.coef, found.intercept)]
        every = path(problem.X, problem.y, "multinomial", one, alphas=problem.lams, tol=tol)
        return [(every.coefs[..., k], every.intercepts[:, k]) for k in range(problem.lams.size)]

    return fits


def adelie(problem: Problem) -> Any:
    """grpnet on rows; its loss is divided by T."""
    import adelie as ad

    wrap = ad.matrix.dense if isinstance(problem.X, np.ndarray) else ad.matrix.sparse
    X = wrap(problem.X, method="naive", n_threads=1)
    glm = ad.glm.multinomial(y=np.asfortranarray(np.eye(problem.T)[problem.codes]))
    p, T = problem.X.shape[1], problem.T

    def fits(tol: float) -> list[tuple[Any, Any]]:
        state = ad.grpnet(
            X, glm, lmda_path=problem.lams / T, penalty=np.ones(p), alpha=1.0,
            intercept=True, early_exit=False, adev_tol=1.0, tol=tol, irls_tol=tol, n_threads=1,
            progress_bar=False, max_iters=10_000_000, irls_max_iters=10_000_000,
        )  # fmt: skip
        coefs = state.betas.toarray().reshape(-1, p, T)
        return list(zip(coefs, state.intercepts, strict=True))

    return fits


def saga(problem: Problem) -> Any:
    """scikit-learn's saga, warm along a path."""
    import warnings

    from sklearn.linear_model import LogisticRegression

    warnings.simplefilter("ignore")
    X = np.ascontiguousarray(problem.X) if isinstance(problem.X, np.ndarray) else problem.X.tocsr()

    def fits(tol: float) -> list[tuple[Any, Any]]:
        model = LogisticRegression(
            l1_ratio=1.0, solver="saga", tol=tol, max_iter=100_000, warm_start=True, random_state=0,
        )  # fmt: skip
        found = []
        for lam in problem.lams:
            model.set_params(C=1.0 / (lam * problem.n)).fit(X, problem.y)
            found.append((model.coef_.T.copy(), model.intercept_.copy()))
        return found

    return fits


def work(options: argparse.Namespace) -> None:
    """One solver on one line: climbs its ladder for the values it is told, then fits on request."""
    X, y = data(options.data, options.data_dir)
    problem = Problem(X, y, options.penalty, options.place)
    fits = solver(options.worker, problem)

    def values(found: list[tuple[Any, Any]]) -> list[float]:
        pairs = zip(found, problem.lams, strict=True)
        return [problem.objective(np.asarray(x), c, lam) for (x, c), lam in pairs]

    fits(LADDERS[options.worker][0])  # compiles
    best = options.best or values(fits(LADDERS["cyclade"][-1]))
    began, record = time.process_time(), {"status": "missed", "best": best}
    for tol in LADDERS[options.worker]:
        took, found = timed(partial(fits, tol))
        far = max((f - b) / b for f, b in zip(values(found), best, strict=True))
        record |= {"tol": tol, "far": far, "cpu_s": took}
        if far <= ACCURACY:
            record["status"] = "ok"
            break
        if time.process_time() - began > options.limit:
            record["status"] = "over"
            break
    print(json.dumps(record), flush=True)
    for _ in sys.stdin:
        print(seconds(partial(fits, record["tol"])), flush=True)


def worker(python: str, name: str, line: tuple[str, str, str], options: Any, *more: str) -> Served:
    """A process that fits when asked to."""
    where = ["--data-dir", str(options.data_dir)] if options.data_dir else []
    return Served([
        python, "-W", "ignore", str(HERE / "classes.py"), "--worker", name, "--data", line[0],
        "--penalty", line[1], "--place", line[2], "--limit", str(options.limit), *where, *more,
    ])  # fmt: skip


def compare(line: tuple[str, str, str], options: Any) -> dict[str, Any]:
    """Ours and the peer in turns."""
    python = {"adelie": options.peer_python or sys.executable}.get(PEERS[line[1]], sys.executable)
    us = worker(sys.executable, "cyclade", line, options)
    peer = worker(python, PEERS[line[1]], line, options, "--best", json.dumps(us.record["best"]))
    mine, other = us.record, peer.record
    times: tuple[list[float], list[float]] = ([mine["cpu_s"]], [other["cpu_s"]])
    if other["status"] == "ok":
        while len(times[0]) < options.rounds and sum(times[1]) < options.limit:
            for one, taken in zip((us, peer), times, strict=True):
                taken.append(one.fit())
    for one in (us, peer):
        one.end()
    ours_s, peer_s = (statistics.median(t) for t in times)
    return {
        "data": line[0], "penalty": line[1], "place": line[2], "ours_s": round(ours_s, 5),
        "peer": PEERS[line[1]], "peer_s": round(peer_s, 5), "peer_status": other["status"],
        "peer_over_ours": round(peer_s / ours_s, 2), "rounds": len(times[0]),
    }  # fmt: skip


def main() -> None:
    """Read the command line and run."""
    parser = command_line(__doc__, csv="")
    parser.add_argument("--data-dir", type=Path, help="a folder with news20_counts.npz")
    parser.add_argument("--peer-python", help="an interpreter that imports adelie")
    parser.add_argument("--only", nargs="*", default=[], help="as: digits rows 100")
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds of a solver")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--best", type=json.loads, help=argparse.SUPPRESS)
    for name in ("worker", "data", "penalty", "place"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
        return
    names = (*SMALL, "news20") if options.data_dir else SMALL
    lines = [(name, penalty, place) for name in names for penalty in PEERS for place in PLACES]
    chosen = (x for x in lines if all(set(w.split("|")) & set(x) for w in options.only))
    printed((compare(line, options) for line in chosen), options.out)


if __name__ == "__main__":
    main()
