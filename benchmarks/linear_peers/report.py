"""Tables and one picture from the records of a run."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Any

import tables
from tables import table

US = "cyclade"
COLUMNS = (
    "line", "solver", "status", "cpu_s", "fastest_s", "repeats", "tol", "far", "fun", "nonzero",
    "import_s", "first_s", "bytes", "limit_s",
)  # fmt: skip
Records = list[dict[str, Any]]
Notes = dict[str, dict[str, str]]
"""By line what its record does not say: `engine` is "earlier" where it was measured before the
engine's last change; `least` and `most` are the ratios of single repeats, where there were some."""
BAR = 1.5


def write_records(records: Records, path: Path) -> None:
    """Every record, one row each."""
    tables.write_csv(path, (r for r in records if r["status"] != "cannot"), COLUMNS, digits=10)


def read_records(path: Path) -> Records:
    """The records of a table."""
    words = ("line", "solver", "status")
    return [
        {k: v if k in words else float(v) for k, v in row.items() if v != ""}
        for row in tables.read_csv(path)
    ]


def read_notes(path: Path) -> Notes:
    """What is to be said of single lines; nothing without the file."""
    return {row["line"]: row for row in tables.read_csv(path)}


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


def measured(records: Records, notes: Notes) -> dict[str, Any]:
    """All lines in numbers. Those that no peer finished are no victories: they count apart."""
    ratios = {line: compare(records, line)["ratio"] for line in lines_of(records)}
    beside = {line: ratio for line, ratio in ratios.items() if math.isfinite(ratio)}
    robust = [ratio for line, ratio in beside.items() if line.startswith("cauchy")]
    repeats = [float(note["least"]) for note in notes.values() if note.get("least")]
    return {
        "lines": len(ratios),
        "beside": len(beside),
        "alone": len(ratios) - len(beside),
        "ahead": sum(ratio > 1 for ratio in beside.values()),
        "well": sum(ratio >= BAR for ratio in beside.values()),
        "median": statistics.median(beside.values()),
        "least": min(beside.values()),
        "robust": f"{min(robust):.1f} to {max(robust):.0f}" if robust else "",
        "earlier": sum(notes.get(line, {}).get("engine") == "earlier" for line in ratios),
        "repeated": len(repeats),
        "repeat": min(repeats, default=math.nan),
    }


def summary(records: Records, notes: Notes | None = None) -> str:
    """All lines in a few sentences."""
    found = measured(records, notes or {})
    text = (
        f"Of {found['lines']} lines {found['beside']} were finished by some peer. On these cyclade "
        f"is ahead on {found['ahead']}, by {BAR:g} times or more on {found['well']}; the median "
        f"ratio is {found['median']:.2f}, the least {found['least']:.2f}. {found['alone']} lines "
        "that no peer finished within its limit are counted apart."
    )
    if found["earlier"]:
        text += f" {found['earlier']} lines (†) were measured with an earlier engine."
    if found["repeated"]:
        text += (
            f" {found['repeated']} lines near the bar were measured again: single repeats went "
            f"down to {found['repeat']:.2f}."
        )
    return text


def first_calls(records: Records) -> str:
    """The first call in a fresh process, by the clock: it shows the load of the machine.

    It contains the fit itself at the loosest tolerance, which for slow solvers is most of it.
    """
    rows = []
    for solver in dict.fromkeys(r["solver"] for r in records):
        own = [r for r in records if r["solver"] == solver]
        firsts = sorted(r["first_s"] for r in own if "first_s" in r)
        imports = sorted(r["import_s"] for r in own if "import_s" in r)
        if firsts:
            middle = firsts[len(firsts) // 2]
            found = (imports[len(imports) // 2], middle, firsts[-1])
            rows.append([solver, *(f"{x:.{n}f}" for x, n in zip(found, (2, 3, 2), strict=True))])
    return table(("solver", "import", "first fit, median over lines", "largest"), rows)


def markdown_table(records: Records, gigabytes: float, notes: Notes) -> str:
    """The table, where so many GB can be read in a second; † marks lines of an earlier engine."""
    head = ("line", "cyclade", "best peer", "ratio", "x limit", "F ours / best", "others")
    rows = []
    for line in lines_of(records):
        found = compare(records, line)
        ours, best = found["ours"], found["best"]
        others = ", ".join(
            f"{r['solver']} {_time(r)}" for r in sorted(found["all"], key=_order)
            if r["solver"] != US and r is not best and r["status"] != "cannot"
        )  # fmt: skip
        limit = ""
        if ours and ours.get("bytes") and ours["status"] == "ok":
            limit = f"{ours['cpu_s'] / (ours['bytes'] / (1e9 * gigabytes)):.1f}"
        funs = "/".join(f"{r['fun']:.8g}" for r in (ours, best) if r and "fun" in r)
        peer = f"{best['solver']} {_time(best)}" if best else "none"
        mark = " †" if notes.get(line, {}).get("engine") == "earlier" else ""
        ratio = "–" if math.isinf(found["ratio"]) else f"{found['ratio']:.2f}"
        rows.append([line + mark, _time(ours), peer, ratio, limit, funs, others])
    return table(head, rows)


PLACES = ("/10", "/100", "path")
PEERS = {
    "skglm": "#AD361E", "celer": "#03A75E", "scikit-learn": "#8883FF", "adelie": "#C08105",
}  # fmt: skip
"""The peers that ran on all lines that they can; the others are grey."""


def draw(records: Records, path: Path, notes: Notes | None = None) -> None:
    """The peers' times over ours: a row for each data set, a column for each place."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    from cyclade.experiments.report.figures import smaller

    notes = notes or {}
    rows = list(dict.fromkeys(line.rsplit(" ", 1)[0] for line in lines_of(records)))
    figure, axes = plt.subplots(
        1, 3, figsize=(10.5, 0.19 * len(rows) + 1.3), sharey=True, layout="constrained"
    )
    for place, ax in zip(PLACES, axes, strict=True):
        for at, row in enumerate(rows):
            found = compare(records, f"{row} {place}")
            if not found["ours"] or found["ours"]["status"] != "ok":
                continue
            ours = found["ours"]["cpu_s"]
            for record in found["all"]:
                if record["solver"] != US and record["status"] == "ok":
                    colour = PEERS.get(record["solver"], "#B0B0B0")
                    ax.plot(record["cpu_s"] / ours, at, "o", ms=4, color=colour, zorder=3)
            if found["best"] is None:
                ax.text(1.15, at, "no peer finished", fontsize=6, va="center", color="#666666")
        ax.axvline(1, color="black", linewidth=1.2)
        ax.axvline(BAR, color="black", linewidth=0.6, linestyle=":")
        ax.set_xscale("log")
        ax.set_title(f"λ_max{place}" if place != "path" else "path", fontsize=9)
        ax.set_xlabel("peer's CPU time / ours", fontsize=8)
        ax.tick_params(labelsize=7)
        ax.grid(axis="both", alpha=0.25)
    marked = [
        row + (" †" if any(notes.get(f"{row} {p}", {}).get("engine") for p in PLACES) else "")
        for row in rows
    ]
    axes[0].set_yticks(range(len(rows)), marked, fontsize=7)
    axes[0].set_ylim(len(rows) - 0.4, -0.6)
    handles = [
        plt.Line2D([], [], marker="o", linestyle="", ms=4, color=colour, label=name)
        for name, colour in {**PEERS, "others": "#B0B0B0"}.items()
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=5, fontsize=8, frameon=False)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    path.write_bytes(smaller(path.read_bytes()))
    plt.close(figure)


def _order(record: dict[str, Any]) -> tuple[bool, float]:
    return record["status"] != "ok", float(record.get("cpu_s", math.inf))


def _time(record: dict[str, Any] | None) -> str:
    if record is None:
        return "not run"
    if record["status"] == "ok":
        return f"{record['cpu_s']:.3g}"
    return str(record["status"])
