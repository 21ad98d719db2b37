"""How benchmarks measure: calls that take turns, medians, one thread; and their command lines."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

Name = TypeVar("Name")


def command_line(text: str, csv: str = "write the table") -> argparse.ArgumentParser:
    """The options of a script, described by its docstring; `csv` is what --csv does ("": none)."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    if csv:
        parser.add_argument("--csv", type=Path, help=csv)
    return parser


def seconds(call: Callable[[], Any], clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of one call, of the processor if not of another clock."""
    return timed(call, clock)[0]


def timed(
    call: Callable[[], Any], clock: Callable[[], float] = time.process_time
) -> tuple[float, Any]:
    """Seconds of one call, and what it returned."""
    begun = clock()
    found = call()
    return clock() - begun, found


def in_turns(
    calls: Mapping[Name, Callable[[], Any]],
    rounds: int,
    *,
    warm: int = 1,
    one: Callable[[Callable[[], Any]], float] = seconds,
    least: float = 0.0,
    most: int = 10**9,
) -> dict[Name, list[float]]:
    """Seconds of every call, which take turns, as machines have neighbours; who is first changes.

    After `warm` calls of each there are `rounds`, and more (up to `most`) until `least` seconds
    are spent. `one` measures a call.
    """
    for call in calls.values():
        for _ in range(warm):
            call()
    times: dict[Name, list[float]] = {name: [] for name in calls}
    spent, done = 0.0, 0
    while done < rounds or (spent < least and done < most):
        for name in calls if done % 2 == 0 else reversed(list(calls)):
            times[name].append(one(calls[name]))
            spent += times[name][-1]
        done += 1
    return times


def medians(times: Mapping[Name, list[float]]) -> dict[Name, float]:
    """The median of each."""
    return {name: statistics.median(some) for name, some in times.items()}
