"""The numbers of the docs, from the result files that are committed.

    python benchmarks/figures.py            # fill every marked spot of README, docs, studies
    python benchmarks/figures.py --check    # say which differ from the files; exit 1 if any does

A spot is ``<!-- fig:WORDS -->…<!-- /fig -->``. The first word names a function below, the others
are its arguments (in quotes where they hold spaces)::

    run fig1 test_accuracy method=SCCD spectral=none     mean ± standard deviation over the seeds
    run study-batch test_accuracy … epoch=5 mean         the mean alone, at an epoch
    seeds fig1                                           how many
    paired fig1 SCCD SGD test_accuracy spectral=none     the difference, its interval, the verdict
    search fig1 0.01 method=PAGE spectral=none           what a learning rate came to in the search
    claims fig1                                          the table of claims of its page
    table1, batch, order, vr                             tables of docs/results.md
    timing table1 SCCD seconds_per_iteration SGD         the ratio of two methods
    nets tf32 "SCCD forward, captured" "vs ours"         of nets-h200-tf32.json
    nets-lenet, nets-blocks, samples                     tables of docs/benchmarks
    by-hand cuda LeNet SCCD                              of nets-by-hand.json, in torch SGD steps
    deep gpt "adam 0"                                    a table of studies/deep/records.json
    deep-rates gpt "adam 0" 4                            the same by learning rate, first seed
    deep-ms gpt "adam 0" shuffled forward                milliseconds of one order over another's
    linear summary, linear table 32.2                    of linear.csv
    linear-both                                          linear.csv and linear-held.csv in two lines
    wheels                                               where the wheel was installed and tried
    linear-peer "lasso dense /10" celer                  a peer's time over ours on a line
    minimize, minimize-over nmf                          the table of minimize.csv; its ratios
    csv net-routes                                       docs/benchmarks/net-routes.csv as it is
    cell net-routes blocks resnet18                      one cell: its column, how its row begins
    rows net-routes                                      how many rows
    functions table, functions seconds, …              of functions.csv: VRO-CCD and L-BFGS-B
    rows-pay table, rows-pay ahead saga held, …          of rows.csv: VRO-CCD and the others
    samples-over VR-CCD forward                          samples over those of VRO-CCD, forward
    batch-over 512 curvature SCCD                        seconds of an epoch, over another's
    code cyclade.linear.tuning.DEFAULT.huge              a number that stands in the code
"""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import figures_benchmarks
import figures_results

ROOT = Path(__file__).resolve().parents[1]
SPOT = re.compile(r"(<!-- fig:(.+?) -->)(.*?)(<!-- /fig -->)", re.S)
SOURCES: dict[str, Callable[..., str]] = {
    **figures_results.SOURCES,
    **figures_benchmarks.SOURCES,
    "code": lambda path: code(path),
}


def main() -> None:
    """Fill or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, name what differs")
    check = parser.parse_args().check
    wrong = 0
    for path in documents():
        text = path.read_text("utf-8")
        for words, there, here in differences(text):
            wrong += 1
            verb = "differs" if check else "filled"
            print(f"{path.relative_to(ROOT)}: {words}: {verb}: {_short(there)} -> {_short(here)}")
        if not check:
            path.write_text(filled(text), "utf-8")
    sys.exit(1 if check and wrong else 0)


def documents() -> list[Path]:
    """The texts that may hold spots."""
    folders = (ROOT / "docs", ROOT / "studies")
    return [ROOT / "README.md", *sorted(path for f in folders for path in f.glob("**/*.md"))]


def filled(text: str) -> str:
    """The text with every spot filled."""
    return SPOT.sub(lambda spot: spot[1] + figure(spot[2]) + spot[4], text)


def differences(text: str) -> Iterator[tuple[str, str, str]]:
    """The spots that do not say what the files say: the words, what is there, what should be."""
    for spot in SPOT.finditer(text):
        wanted = figure(spot[2])
        if wanted != spot[3]:
            yield spot[2], spot[3], wanted


def figure(words: str) -> str:
    """What belongs into a spot; a table stands in lines of its own."""
    name, *arguments = shlex.split(words)
    if name not in SOURCES:
        raise SystemExit(f"fig:{words}: {name!r} is none of {', '.join(SOURCES)}")
    found = SOURCES[name](*arguments)
    return f"\n\n{found}\n\n" if found.startswith("|") else found


def code(path: str) -> str:
    """A number of the package by its dotted path; `LEARNING_RATES[spectral]` is an entry."""
    module, _, rest = path.rpartition(".")
    name, _, key = rest.partition("[")
    try:
        found: Any = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError:  # an attribute of an object of the module
        module, _, holder = module.rpartition(".")
        found = getattr(getattr(importlib.import_module(module), holder), name)
    if key:
        entry = key.rstrip("]")
        found = found[int(entry) if entry.isdigit() else None if entry == "none" else entry]
    return f"{found:,}" if isinstance(found, int) else f"{found:g}"


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) < 80 else f"{text[:77]}…"


if __name__ == "__main__":
    main()
