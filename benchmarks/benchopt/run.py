"""Cyclade in benchopt's own benchmarks, beside the solvers that others wrote for them.

    python benchmarks/benchopt/run.py FOLDER --python VENV/bin/python --csv FILE
    python benchmarks/benchopt/run.py --write lasso > solvers/cyclade.py     # to send it upstream

FOLDER holds checkouts of github.com/benchopt/benchmark_NAME. Each is copied, given our solver, and
run by benchopt (1.7) in VENV with all its solvers that can be imported there. Times are processor
seconds of one thread. A row is one problem and one accuracy: the first run of each solver whose
objective is that near the best value of any solver, relative to that value (of NNLS and NMF, whose
best value is about zero, relative to the largest seen). The ratio is the fastest other solver's
seconds over ours. Of a nonconvex problem only solvers count that end at the lowest minimum found.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import tables  # noqa: E402
from measuring import parser_of  # noqa: E402

ACCURACIES = (1e-4, 1e-6)
# For each benchmark: its data sets and its objectives, in benchopt's words.
SIZES = "simulated[n_samples={},n_features={},rho={}]"
PROBLEMS: dict[str, tuple[list[str], list[str]]] = {
    "lasso": (
        [SIZES.format(100, 10_000, 0.6), SIZES.format(500, 600, 0.6)],
        ["*[fit_intercept=False,reg=0.05]"],
    ),
    "logreg_l1": (["simulated[n_samples=500,n_features=5000]"], ["*[reg=[0.1,0.05]]"]),
    "slope": (
        ["simulated[n_samples=200,n_features=20000,n_signals=20,rho=0.8]",
         "simulated[n_samples=500,n_features=200,n_signals=20,rho=0.8]"],
        ["*[q=0.1,reg=0.1]"],
    ),
    "mcp": (["simulated[n_samples=100,n_features=200,scale=True]"], ["*[reg=[0.5,0.1,0.01]]"]),
    "elastic_net": (
        [SIZES.format(500, 5000, 0.6)], ["*[fit_intercept=False,l1_ratio=0.5,reg=[0.1,0.01]]"],
    ),
    "huber_l2": ([SIZES.format(100, 5000, 0.6)], ["*"]),
    "quantile_regression": (
        [SIZES.format(500, 600, 0.6)],
        ["*[fit_intercept=True,quantile=[0.5,0.8],reg=0.1]"],
    ),
    "nnls": (["simulated[n_samples=100,n_features=5000,positive=[True,False]]"], ["*"]),
    "nmf": (["simulated"], ["*"]),
    "l1_cox": (
        ["simulated[n_samples=500,n_features=300,with_ties=False]"], ["*[l1_ratio=0.7]"],
    ),
}  # fmt: skip
# What benchopt 1.7 calls otherwise than the older benchmarks, and the name of their result.
RESULT = {"elastic_net": "beta", "mcp": "beta", "huber_l2": "params", "l1_cox": "w"}
MENDS = [
    (r"def compute\(", "def evaluate_result("),
    (r"def get_one_solution\(", "def get_one_result("),
    (r"\bstop(ping)?_strategy =", "sampling_strategy ="),
    (r"self\.solver( = ProxNewton| = LBFGS|\.max_iter|\.solve\()", r"self.method\1"),
    (r"'simplex', 'interior-point', 'revised simplex',\s+", ""),  # SciPy has them no more
    (r"return self\.n_features \+ 2, data", "return data"),
    (r"(def get_(?:one_)?result\(self\):\n(?:.*\n)*?\s+return )(?!dict)(.*)", r"\1dict(NAME=\2)"),
]
CLOCK = """import time
began, time.perf_counter = time.time(), time.process_time
time.time = lambda: began + time.process_time()
from benchopt.cli import benchopt
benchopt()"""


def solver(name: str) -> str:
    """Our solver of a benchmark in one file, as benchopt wants it."""
    base, own = ((HERE / "solvers" / f"{part}.py").read_text("utf-8") for part in ("base", name))
    title, own = own.split("\n", 1)
    own = re.sub(r"\nfrom base import .*\n+", "", own)
    return "\n".join([title, base.split("\n", 1)[1], "", own]).replace("  # noqa: RUF012", "")


def prepared(source: Path, name: str, target: Path) -> None:
    """A copy of a benchmark in the words of benchopt 1.7, with our solver in it."""
    left_out = shutil.ignore_patterns(".git")
    shutil.copytree(source / f"benchmark_{name}", target, ignore=left_out, dirs_exist_ok=True)
    for path in target.rglob("*.py"):
        text = path.read_text("utf-8")
        for old, new in MENDS:
            if name in RESULT or "NAME" not in new:
                text = re.sub(old, new.replace("NAME", RESULT.get(name, "")), text)
        if path.name == "objective.py" and "def get_one_result" not in text:
            text += "\n    get_one_result = None  # only benchopt's own tests call it\n"
        path.write_text(text, "utf-8")
    (target / "solvers" / "cyclade.py").write_text(solver(name), "utf-8")


def lacking(python: str, path: Path) -> bool:
    """Whether a solver imports what is not installed."""
    modules = set(re.findall(r"^\s*(?:from|import) (\w+)", path.read_text("utf-8"), re.MULTILINE))
    code = "import sys, importlib.util as i\nprint([m for m in sys.argv[1:] if not i.find_spec(m)])"
    return subprocess.check_output([python, "-c", code, *modules - {"cyclade"}]) != b"[]\n"


def measure(python: str, place: Path, name: str, timeout: float, only: list[str]) -> None:
    """Let benchopt run each solver in a process of its own; it writes tables into `place`."""
    words = [word for flag, some in zip("do", PROBLEMS[name], strict=True)
             for one in some for word in (f"-{flag}", one)]  # fmt: skip
    limits = ["--timeout", str(timeout), "--max-runs", "80", "--n-repetitions", "1"]
    source = os.pathsep.join([str(HERE.parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    for path in sorted((place / "solvers").glob("*.py")):
        if only and path.stem not in only:
            continue
        if (place / "outputs" / f"{path.stem}.parquet").exists() or lacking(python, path):
            continue
        called = re.search(r"^    name = [\"'](.*)[\"']", path.read_text("utf-8"), re.MULTILINE)
        shown = ["--no-plot", "--no-html", "--output", path.stem, "-s", called[1] if called else ""]
        done = subprocess.run(
            [python, "-c", CLOCK, "run", str(place), *words, *limits, *shown],
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": source}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        (place / f"{path.stem}.log").write_text(done.stdout, "utf-8")
        ran = (place / "outputs" / f"{path.stem}.parquet").exists()
        print(f"{name}, {path.stem}: {'ran' if ran else 'did not run'}", flush=True)


def compared(found: Any, name: str) -> Iterator[dict[str, Any]]:
    """The rows of a benchmark: for each problem and accuracy, our seconds and the best other's."""
    key = "objective_frobenius" if name == "nmf" else "objective_value"
    for (objective, data), curves in found.groupby(["objective_name", "data_name"]):
        best = curves[key].min()
        scale = curves[key].max() if name in ("nnls", "nmf") else abs(best)
        words = re.findall(r"[\w ]+=[^,\]]+", f"{data},{objective}")
        for accuracy in ACCURACIES:
            near = curves[curves[key] - best <= accuracy * scale]
            times = near.groupby("solver_name")["time"].min().to_dict()
            ours = times.pop("cyclade", None)
            peer = min(times, key=times.__getitem__, default=None)
            yield {
                "benchmark": name, "problem": ", ".join(words), "accuracy": f"{accuracy:.0e}",
                "seconds": "not reached" if ours is None else ours,
                "best peer": peer or "none", "peer seconds": times[peer] if peer else "",
                "peer / ours": times[peer] / ours if peer and ours else "",
                "peers": len(set(curves["solver_name"]) - {"cyclade"}),
                "reached": len(times),
            }  # fmt: skip


def main() -> None:
    """Copy, run, compare."""
    parser = parser_of(__doc__)
    parser.add_argument("--csv", type=Path, help="write the table")
    parser.add_argument("folder", type=Path, nargs="?", help="checkouts of the benchmarks")
    parser.add_argument("--python", default=sys.executable, help="where benchopt is installed")
    parser.add_argument("--only", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--solvers", nargs="+", default=[], help="their files; default: all")
    parser.add_argument(
        "--timeout",
        type=float,
        default=10.0,
        help="processor seconds of a solver and a problem",
    )
    parser.add_argument("--work", type=Path, help="keep what was measured here, and add to it")
    parser.add_argument("--write", choices=list(PROBLEMS), help="print our solver of a benchmark")
    options = parser.parse_args()
    if options.write:
        print(solver(options.write), end="")
        return
    import pandas as pd

    with tempfile.TemporaryDirectory() as scratch:
        rows = []
        for name in options.only:
            place = (options.work or Path(scratch)) / name
            if options.folder:
                prepared(options.folder, name, place)
                measure(options.python, place, name, options.timeout, options.solvers)
            files = sorted((place / "outputs").glob("*.parquet"))
            rows += compared(pd.concat([pd.read_parquet(file) for file in files]), name)
            tables.write_csv(options.csv, rows, digits=3)
        tables.printed(rows, digits=3)


if __name__ == "__main__":
    main()
