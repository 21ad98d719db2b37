"""Figures of the docs that come from docs/benchmarks: steps of nets, samples, linear models."""

from __future__ import annotations

import csv
import json
import math
import re
import statistics
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from linear_peers.report import (
    Notes,
    Records,
    compare,
    lines_of,
    markdown_table,
    measured,
    read_notes,
    read_records,
    summary,
)
from tables import read_csv, table

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "benchmarks"
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))  # for `studies.deep`


# ------------------------------------------------------------------------------- steps of nets


def nets(name: str, step: str, key: str) -> str:
    """A number of one step."""
    found = _steps(name)[step][key]
    return f"{found:.3f}" if key == "ms" else f"{found:.2f}"


def nets_lenet() -> str:
    """LeNet: our steps in every mode."""
    rows = [["eager `torch.optim.SGD`", nets("tf32", "torch SGD", "ms"), *[""] * 5]]
    for name, mode in (
        ("eager", ""),
        ("captured", ", captured"),
        ("captured, compiled stages", ", captured + compiled"),
    ):
        cells = [name]
        for one, cyclic in (("SGD", "SCCD forward"), ("PAGE b'=22", "VRO-CCD b'=22")):
            cells += [nets("tf32", one + mode, "ms"), nets("tf32", cyclic + mode, "ms")]
            cells.append(nets("tf32", cyclic + mode, "vs ours"))
        rows.append(cells)
    head = (
        "LeNet / CIFAR-10 shapes", "b = 512: SGD", "SCCD", "/ours", "b' = 22: PAGE", "VRO-CCD",
        "/ours",
    )  # fmt: skip
    return table(head, rows)


def nets_blocks() -> str:
    """Larger nets in four blocks."""
    rows = []
    for source, name in (("resnet", "ResNet-18, b = 512"), ("gpt", "6-layer GPT, 32 x 256 tokens")):
        steps = _steps(source)
        cyclic = steps["SCCD forward, captured"]
        rows.append(
            [
                name, f"{steps['SGD, captured']['ms']:.2f}", f"{cyclic['ms']:.2f}",
                f"{cyclic['vs ours']:.2f}", f"{cyclic['multiply-adds']:.2f}",
                f"{steps['SCCD forward']['memory vs torch SGD']:.3f}",
            ]
        )  # fmt: skip
    head = (
        "4 blocks, captured", "SGD", "SCCD", "measured", "predicted",
        "peak memory of SCCD / torch SGD (eager)",
    )  # fmt: skip
    return table(head, rows)


@cache
def _steps(name: str) -> dict[str, dict[str, Any]]:
    found = json.loads((FOLDER / f"nets-h200-{name}.json").read_text("utf-8"))
    return {row["step"]: row for row in found["rows"]}


def by_hand(reading: str, net: str, step: str) -> str:
    """Torch SGD steps that a step takes, of a reading in nets-by-hand.json."""
    found = json.loads((FOLDER / "nets-by-hand.json").read_text("utf-8"))
    times = found[reading]["seconds"][net]
    return f"{times[step] / times['torch SGD']:.2f}"


# ----------------------------------------------------------------------------------- deep nets


def deep(task: str, optimizer: str, blocks: str = "") -> str:
    """The study of orders on deep nets: every setting of an optimizer at its best learning rate.

    With `blocks` those of so many blocks alone, and the simultaneous step.
    """
    from studies.deep.report import HEAD, rows

    found = rows(_deep(), task, optimizer)
    return table(HEAD, [row for row in found if not blocks or row[0] in ("1", blocks)])


def deep_rates(task: str, optimizer: str, blocks: str) -> str:
    """The study of orders on deep nets: loss and cosine by learning rate, first seed."""
    from studies.deep.report import RATES, by_rate

    return table(RATES, by_rate(_deep(), task, optimizer, int(blocks)))


def deep_ms(task: str, optimizer: str, order: str, other: str) -> str:
    """Milliseconds of a cycle of four blocks in one order, over those in another."""
    median = {
        name: statistics.median(
            r["ms"]
            for r in _deep()
            if (r["task"], r["optimizer"], r["order"], r["blocks"]) == (task, optimizer, name, 4)
            and r["ms"]
            and not r["fresh"]
        )
        for name in (order, other)
    }
    return f"{median[order] / median[other]:.2f}"


@cache
def _deep() -> list[dict[str, Any]]:
    found = json.loads((ROOT / "studies" / "deep" / "records.json").read_text("utf-8"))
    return list(found["records"])


# ------------------------------------------------------------------------------------- samples


def samples() -> str:
    """Component gradients to a certificate, in forward order."""
    sizes = {"digits": 1797, "a9a": 32561, "w8a": 49749}
    found: dict[tuple[str, str], dict[str, str]] = {}
    for name in sizes:
        rows = _rows_of(f"samples-{name}")
        found |= {(name, r["method"]): r for r in rows if r["order"] in ("forward", "–")}
    lines = [
        [method, *(_reached(found[name, method]) for name in sizes)]
        for method in ("P-CCD", "VRO-CCD", "VR-CCD", "PAGE", "SCCD", "SGD")
    ]
    return table(["", *(f"{name} (n = {n:,})" for name, n in sizes.items())], lines)


def _reached(row: dict[str, str]) -> str:
    median = float(row["median"])
    if math.isinf(median):
        return f"not reached: {float(row['best_certificate']):.1e} ({row['eta']})"
    return f"{median:.1f} ({row['eta']})"


def csv_table(name: str) -> str:
    """A table as a benchmark wrote it, its fractions to four digits."""
    head, *lines = _lines(name)
    return table(head, [[_four_digits(cell) for cell in line] for line in lines])


def _four_digits(cell: str) -> str:
    """A long fraction rounded, as 1.22 of 1.2199; any other text as it is."""
    return f"{float(cell):.4g}" if re.fullmatch(r"-?\d+\.\d{5,}", cell) else cell


def samples_over(method: str, order: str) -> str:
    """Samples over those of VRO-CCD in forward order, from the least data set to the most."""
    ratios, never = [], []
    for name in ("digits", "a9a", "w8a"):
        rows = _rows_of(f"samples-{name}")
        median = {(r["method"], r["order"]): float(r["median"]) for r in rows}
        ratio = median[method, order] / median["VRO-CCD", "forward"]
        if math.isinf(ratio):
            never.append(name)
        else:
            ratios.append(ratio)
    found = f"{min(ratios):.1f} to {max(ratios):.1f} times as many"
    return found + (f", and on {' and '.join(never)} it did not get there" if never else "")


def cell(name: str, column: str, *row: str) -> str:
    """One cell of a table; a row is named by its first cells."""
    head, *lines = _lines(name)
    found = [line for line in lines if tuple(line[: len(row)]) == row]
    if len(found) != 1:
        raise SystemExit(f"{name}.csv has {len(found)} rows that begin with {row}")
    return found[0][head.index(column)]


def rows(name: str) -> str:
    """How many rows a table has."""
    return str(len(_lines(name)) - 1)


def _lines(name: str) -> list[list[str]]:
    with (FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))  # names of columns may repeat


def _rows_of(name: str) -> list[dict[str, str]]:
    return read_csv(FOLDER / f"{name}.csv")


def wheels() -> str:
    """What tests/packaging/wheel.py ran: Pythons and versions down, extras across."""
    found = {tuple(line[:3]): line for line in _lines("wheels")[1:]}
    extras = list(dict.fromkeys(key[2] for key in found))
    head = ["Python", "versions", *extras]
    lines = []
    for python, versions in dict.fromkeys(key[:2] for key in found):
        mine = [found.get((python, versions, extra)) for extra in extras]
        lines.append([python, versions, *(line[3] if line else "not run" for line in mine)])
    return table(head, lines)


# -------------------------------------------------------------------------------------- minimize


def minimize() -> str:
    """For each problem our fastest setting and each peer, over the fastest peer."""
    rows = _rows_of("minimize")
    lines = []
    for kind, half, shape in dict.fromkeys((r["kind"], r["half"], r["shape"]) for r in rows):
        here = [r for r in rows if (r["kind"], r["half"], r["shape"]) == (kind, half, shape)]
        reached = [r for r in here if r["reached"] == "True"]
        ours = min((r for r in reached if r["ours"] == "True"), key=lambda r: float(r["ratio"]))
        peers = [
            f"{r['solver']} {float(r['ratio']):.2f}" if r in reached else f"{r['solver']} –"
            for r in here
            if r["ours"] != "True"
        ]
        ratio = f"**{float(ours['ratio']):.2f}** ({float(ours['seconds']):.3f} s)"
        lines.append([f"{kind}: {shape}", half, ours["solver"], ratio, ", ".join(peers)])
    return table(
        ["problem", "half", "ours", "over the fastest peer", "peers (–: not reached)"], lines
    )


def minimize_over(kind: str) -> str:
    """Our fastest setting over the fastest peer, from the least to the largest of a kind."""
    rows = _rows_of("minimize")
    found = sorted(
        min(float(r["ratio"]) for r in rows if r["shape"] == shape and _ours(r, kind))
        for shape in dict.fromkeys(r["shape"] for r in rows if _ours(r, kind))
    )
    least, most = (f"{ratio:.2g}" for ratio in (found[0], found[-1]))
    return least if least == most else f"{least} to {most}"


def _ours(row: dict[str, str], kind: str) -> bool:
    return row["kind"] == kind and row["ours"] == "True" and row["reached"] == "True"


# --------------------------------------------------------------------------------- linear models


def linear(what: str, gigabytes: str = "") -> str:
    """Of linear.csv: its summary, or the table."""
    records, notes = _linear()
    if what == "summary":
        return summary(records, notes)
    return markdown_table(records, float(gigabytes), notes)


def linear_half(half: str, what: str) -> str:
    """Of linear-HALF.csv, kinds of data in two halves: the table, or lines that are lost."""
    records = read_records(FOLDER / f"linear-{half}.csv")
    names = {line: re.sub(rf"-{half}\d*", "", line) for line in lines_of(records)}
    if what == "behind":
        ratios = {name: compare(records, line)["ratio"] for line, name in names.items()}
        lost = sorted((ratio, line) for line, ratio in ratios.items() if ratio < 1)
        return ", ".join(f"`{line}` {ratio:.2f}" for ratio, line in lost) or "none"
    rows = []
    for line, name in names.items():
        found = compare(records, line)
        best, ours = found["best"], found["ours"]
        known = ours is not None and ours["status"] == "ok"
        ms = f"{1e3 * ours['cpu_s']:.3g}" if known else "not finished"
        peer = f"{best['solver']} {1e3 * best['cpu_s']:.3g}" if best else "none"
        ratio = f"{found['ratio']:.2f}" if best and known else "–"
        rows.append([name, ms, peer, ratio])
    return table(("line", "cyclade, ms", "best peer, ms", "ratio"), rows)


def linear_both() -> str:
    """Of linear.csv and linear-held.csv: how often and by how much the best peer is beaten."""
    tables = {
        "data seen while the engine was tuned": _linear(),
        "data that nothing was tuned on": (read_records(FOLDER / "linear-held.csv"), {}),
    }
    lines = []
    for name, (records, notes) in tables.items():
        found = measured(records, notes)
        counts = [str(found[key]) for key in ("beside", "ahead", "well")]
        lines.append([name, *counts, *(f"{found[key]:.2f}" for key in ("median", "least"))])
    head = ("", "fits and paths", "Cyclade is first", "by 1.5 times or more", "median", "least")
    return table(head, lines)


@cache
def _linear() -> tuple[Records, Notes]:
    return read_records(FOLDER / "linear.csv"), read_notes(FOLDER / "linear-notes.csv")


def linear_peer(line: str, solver: str) -> str:
    """A peer's CPU seconds over ours on one line of linear.csv."""
    found = {r["solver"]: r for r in _rows_of("linear") if r["line"] == line}
    if found[solver]["status"] != "ok":
        return "not finished"
    return f"{float(found[solver]['cpu_s']) / float(found['cyclade']['cpu_s']):.1f}"


# ----------------------------------------------------------------------------- samples of rows


def rows_pay(what: str, peer: str = "saga", half: str = "") -> str:
    """Of rows.csv: the table, or a peer's seconds (epochs) over those of VRO-CCD, by its lines."""
    found = read_rows()
    if what == "table":
        return _rows_table(found)
    unit = "epochs" if what == "epochs" else "seconds"
    over = [
        float(row[unit]) / float(found[line, "VRO-CCD", level][unit])
        for (line, method, level), row in found.items()
        if method == peer
        and row["half"].startswith(half)
        and int(row["n"]) >= 10_000
        and math.isfinite(float(found[line, "VRO-CCD", level]["seconds"]))
    ]
    if what == "ahead":
        return f"{sum(ratio >= 1.0 for ratio in over)} of {len(over)}"
    return f"{min(over) if what == 'least' else statistics.median(over):.2f}"


def read_rows() -> dict[tuple[str, str, str], dict[str, str]]:
    """The rows of rows.csv by line, method and level; what was not reached is infinite."""
    return {(r["line"], r["method"], r["level"]): r for r in _rows_of("rows")}


def _rows_table(found: dict[tuple[str, str, str], dict[str, str]]) -> str:
    cells = []
    for line in dict.fromkeys(key[0] for key in found):
        ours = {level: found[line, "VRO-CCD", level] for level in ("0.001", "0.0001", "1e-05")}

        def over(method: str, level: str, line: str = line, ours: Any = ours) -> str:
            row = found.get((line, method, level))
            if row is None:
                return "–"
            theirs, mine = float(row["seconds"]), float(ours[level]["seconds"])
            if math.isinf(mine):
                return "neither" if math.isinf(theirs) else "not reached by us"
            return f"{theirs / mine:.2f}"

        one = ours["0.0001"]
        cells.append([
            f"{line} ({one['half']})", f"{int(one['n']):,} x {int(one['p']):,}",
            f"{one['epochs']} / {1e3 * float(one['seconds']):.0f} ms"
            if math.isfinite(float(one["seconds"])) else "not reached",
            *(over("saga", level) for level in ours), over("PAGE", "0.0001"),
            over("working sets", "0.001"),
        ])  # fmt: skip
    head = ("line", "n x p", "VRO-CCD to 1e-4", "saga 1e-3", "1e-4", "1e-5", "PAGE 1e-4",
            "working sets 1e-3")  # fmt: skip
    return table(head, cells)


def functions(what: str = "table") -> str:
    """Of functions.csv: seconds and passes of every solver, or of VRO-CCD over L-BFGS-B to 1e-3."""
    found = {(r["line"], r["solver"], r["level"]): r for r in _rows_of("functions")}
    lines = {line: row for (line, _, _), row in found.items()}
    over = [
        float(found[line, "L-BFGS-B", "0.001"][what]) / float(found[line, "VRO-CCD", "0.001"][what])
        for line in lines
        if what != "table" and math.isfinite(float(found[line, "VRO-CCD", "0.001"][what]))
    ]
    if what != "table":
        return f"{sum(ratio > 1.0 for ratio in over)} of {len(lines)}"

    def cell(line: str, solver: str) -> str:
        row = found.get((line, solver, "0.001"))
        if row is None:
            return "–"
        if math.isinf(float(row["seconds"])):
            return "not reached"
        return f"{float(row['seconds']):.2f} s / {float(row['passes']):.0f}"

    solvers = ("VRO-CCD", "VRO-CCD, 4 blocks", "P-CCD", "L-BFGS-B")
    cells = [
        [f"{line} ({row['half']})", f"{int(row['n']):,}", f"{float(row['gradient_ms']):.0f} ms"]
        + [cell(line, solver) for solver in solvers]
        for line, row in lines.items()
    ]
    return table(("line", "n", "a full gradient", *solvers), cells)


SOURCES: dict[str, Callable[..., str]] = {
    "functions": functions,
    "rows-pay": rows_pay,
    "nets": nets, "nets-lenet": nets_lenet, "nets-blocks": nets_blocks,
    "by-hand": by_hand, "deep": deep, "deep-ms": deep_ms,
    "deep-rates": deep_rates, "samples": samples,
    "samples-over": samples_over, "linear": linear, "linear-peer": linear_peer,
    "linear-half": linear_half, "linear-both": linear_both, "wheels": wheels,
    "minimize": minimize, "minimize-over": minimize_over,
    "csv": csv_table, "cell": cell, "rows": rows,
}  # fmt: skip
