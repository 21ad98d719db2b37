"""How benchmarks measure: calls that take turns, medians, one thread; and their command lines."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Name = TypeVar("Name")


def parser_of(text: str) -> argparse.ArgumentParser:
    """The parser of a script, described by its docstring."""
    return argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def arguments(text: str, **defaults: Any) -> argparse.Namespace:
    """The options of a script, each by its default; a type has none, a tuple is what to choose of.

    A list takes any number of words, and False is a flag.
    """
    parser = parser_of(text)
    for name, default in defaults.items():
        given: dict[str, Any] = {"default": default, "type": type(default)}
        if default is False:
            given = {"action": "store_true"}
        elif isinstance(default, type):
            given = {"type": default}
        elif isinstance(default, tuple):
            given = {"nargs": "+", "choices": default, "default": list(default)}
        elif isinstance(default, list):
            given = {"nargs": "*", "type": type((*default, "")[0]), "default": default}
        parser.add_argument(f"--{name.replace('_', '-')}", **given)
    return parser.parse_args()


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
