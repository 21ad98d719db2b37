"""One table (CSV and Markdown) and one picture from the records of a run."""

from __future__ import annotations

import csv
import math
import statistics
from pathlib import Path
from typing import Any

US = "cyclade"
COLUMNS = (
    "line", "solver", "status", "cpu_s", "fastest_s", "repeats", "tol", "far", "fun", "nonzero",
    "import_s", "first_s", "bytes", "limit_s",
)  # fmt: skip
Records = list[dict[str, Any]]


def write_csv(records: Records, path: Path) -> None:
    """Every record, one row each."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for record in records:
            if record["status"] != "cannot":
                writer.writerow([_short(record.get(name, "")) for name in COLUMNS])


def lines_of(records: Records) -> list[str]:
    """The lines, in the order they were first met."""
    return list(dict.fromkeys(record["line"] for record in records))


def compare(records: Records, line: str) -> dict[str, Any]:
    """Ours, the best peer, and the ratio of their times (infinite where no peer got there)."""
    here = [r for r in records if r["line"] == line]
    ours = next((r for r in here if r["solver"] == US), None)
    reached = [r for r in here if r["solver"] != US and r["status"] == "ok"]
    best = min(reached, key=lambda r: r["cpu_s"], default=None)
    ratio = math.nan
    if ours is not None and ours["status"] == "ok":
        ratio = best["cpu_s"] / ours["cpu_s"] if best else math.inf
    elif best:
        ratio = 0.0
    return {"ours": ours, "best": best, "ratio": ratio, "all": here}


def summary(records: Records) -> str:
    """All lines in one sentence."""
    ratios = [compare(records, line)["ratio"] for line in lines_of(records)]
    ahead, well = sum(r > 1 for r in ratios), sum(r >= 1.5 for r in ratios)
    alone = sum(r == math.inf for r in ratios)
    return (
        f"Of {len(ratios)} lines cyclade is ahead on {ahead}, by 1.5 times or more on {well} "
        f"({alone} finished by no peer); the median ratio is {statistics.median(ratios):.2f}."
    )


def write_markdown(records: Records, path: Path, about: dict[str, Any]) -> None:
    """The table people read."""
    out = [
        "# Linear models beside their peers",
        "",
        f"{about['machine']}; one thread; CPU seconds of a fit, the data in memory, to relative "
        "suboptimality 1e-6 (MCP, Cauchy: dist(∂F, 0) ≤ 1e-4 λ), every solver at the loosest of "
        "its own tolerances that gets there, median of repeats. `ratio` is best peer / cyclade. "
        "`over` did not get there within the limit, `missed` not at any tolerance. "
        "`x limit` is our time over what reading the bytes of our passes takes at the "
        f"{about['bandwidth'] / 1e9:.1f} GB/s measured here.",
        "",
        summary(records),
        "",
        "| line | cyclade | best peer | ratio | x limit | F ours / best | others |",
        "|---|---|---|---|---|---|---|",
    ]
    for line in lines_of(records):
        found = compare(records, line)
        ours, best = found["ours"], found["best"]
        others = ", ".join(
            f"{r['solver']} {_time(r)}" for r in sorted(found["all"], key=_order)
            if r["solver"] != US and r is not best and r["status"] != "cannot"
        )  # fmt: skip
        limit = ""
        if ours and ours.get("bytes") and ours["status"] == "ok":
            limit = f"{ours['cpu_s'] / (ours['bytes'] / about['bandwidth']):.1f}"
        funs = "/".join(f"{r['fun']:.8g}" for r in (ours, best) if r and "fun" in r)
        out.append(
            f"| {line} | {_time(ours)} | {best['solver'] + ' ' + _time(best) if best else 'none'} "
            f"| {found['ratio']:.2f} | {limit} | {funs} | {others} |"
        )
    out += [
        "",
        "The bytes are a model (a read of X for every check of all columns, and of the working set "
        "for every cycle; of a path the least of it: one check a λ, and the support), not a "
        "measurement: cycles that stay in the cache or in single precision, and checks on a path "
        "that leave out columns proven to rest, read less, so `x limit` can be below 1. The limit "
        "of each record is in the CSV (`limit_s`; paths get three times that).",
    ]
    if about["note"]:
        out += ["", "## About this run", "", about["note"]]
    out += [
        "",
        "## First call in a fresh process (seconds, wall)",
        "",
        "Wall time, so it shows the load of the machine; it contains the fit itself at the loosest "
        "tolerance, which for slow solvers is most of it.",
        "",
    ]
    out += ["| solver | import | first fit, median over lines | largest |", "|---|---|---|---|"]
    for solver in dict.fromkeys(r["solver"] for r in records):
        own = [r for r in records if r["solver"] == solver]
        firsts = sorted(r["first_s"] for r in own if "first_s" in r)
        imports = sorted(r["import_s"] for r in own if "import_s" in r)
        if firsts:
            middle = firsts[len(firsts) // 2]
            out.append(
                f"| {solver} | {imports[len(imports) // 2]:.2f} | {middle:.3f} | {firsts[-1]:.2f} |"
            )
    out += ["", "Versions: " + ", ".join(f"{k} {v}" for k, v in about["versions"].items()) + "."]
    path.write_text("\n".join(out) + "\n")


def draw(records: Records, path: Path) -> None:
    """Times of all solvers, line by line, on a log scale."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    lines = [line for line in lines_of(records) if compare(records, line)["ours"]]
    solvers = list(dict.fromkeys(r["solver"] for r in records))
    figure, axes = plt.subplots(figsize=(9, 0.26 * len(lines) + 1.5))
    colours = plt.get_cmap("tab20")
    for i, solver in enumerate(solvers):
        mine = {r["line"]: r for r in records if r["solver"] == solver and r["status"] == "ok"}
        at = [(mine[line]["cpu_s"], k) for k, line in enumerate(lines) if line in mine]
        if at:
            ours = solver == US
            axes.scatter(
                *zip(*at, strict=True), s=60 if ours else 22, marker="|" if ours else "o",
                color="black" if ours else colours(i % 20), label=solver, linewidths=2, zorder=3,
            )  # fmt: skip
    axes.set_xscale("log")
    axes.set_yticks(range(len(lines)), lines, fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("CPU seconds to the accuracy")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.tight_layout()
    figure.savefig(path, dpi=140)


def _short(value: Any) -> Any:
    return f"{value:.10g}" if isinstance(value, float) else value


def _order(record: dict[str, Any]) -> tuple[bool, float]:
    return record["status"] != "ok", float(record.get("cpu_s", math.inf))


def _time(record: dict[str, Any] | None) -> str:
    if record is None:
        return "not run"
    if record["status"] == "ok":
        return f"{record['cpu_s']:.3g}"
    return str(record["status"])
