"""Beside each claim of the paper what was seen, and a verdict by a fixed rule.

Is one curve ahead of another? Differences seed by seed, their interval, and the rule.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cyclade.experiments.folder import Row, RunResult
from cyclade.experiments.plans.plan import Check
from cyclade.experiments.report.board import ALONE, Y_LABELS, Board, value
from cyclade.experiments.report.files import plain_value
from cyclade.experiments.report.groups import Group, spread, words_of
from cyclade.experiments.report.tables import NOTHING, Table, plus_minus

UNTESTED = "not tested"
NEAR = 0.1
"""How near a ratio of times must be to the one claimed."""

_TIMES = {"seconds_per_iteration": "s / iteration", "seconds_per_epoch": "s / epoch"}
_NAMES = {**Y_LABELS, **_TIMES, "lr": "learning rate"}
LEVEL = 0.95
YES, NO, OPEN = "yes", "no", "not decided"
RULE = (
    "The verdict follows a fixed rule. Two methods are compared seed by seed: "
    "“yes” if the 95 % t-interval of the differences lies above 0, “no” if it lies below 0, “not "
    "decided” otherwise or with fewer than two seeds. Seeds on which a run diverged have no "
    "difference: they are counted against the method that diverged, which then gets no verdict in "
    "its favour. This rule can reject that two methods are equal; it cannot show that they are. "
    "Times and learning rates have no interval: a ratio of times is as claimed within 10 %. "
    "Nothing is corrected for the number of comparisons."
)


@dataclass(frozen=True)
class Paired:
    """Differences over the seeds that both have; `low` to `high` is the interval (two or more)."""

    n: int
    ahead: int = 0
    mean: float | None = None
    low: float | None = None
    high: float | None = None

    def verdict(self, lost: int = 0, others_lost: int = 0) -> str:
        """By the rule; `lost` seeds on which only this one diverged, `others_lost` the other."""
        if lost and not self.n and not others_lost:
            return NO if lost > 1 else OPEN  # it never got to an end, where the other did
        if others_lost and not self.n and not lost:
            return YES if others_lost > 1 else OPEN
        if self.low is None or self.high is None:
            return OPEN
        if self.low > 0 and not lost:
            return YES
        return NO if self.high < 0 and not others_lost else OPEN


def paired(differences: Sequence[float]) -> Paired:
    """The mean of differences with its t-interval.

    Example
    -------
    >>> found = paired([1.0, 2.0, 3.0])
    >>> found.ahead, found.mean, round(found.low, 3), found.verdict()
    (3, 2.0, -0.484, 'not decided')
    """
    n, ahead = len(differences), sum(d > 0 for d in differences)
    if n < 2:
        return Paired(n, ahead, *differences)
    from scipy.special import stdtrit

    mean = statistics.fmean(differences)
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * statistics.stdev(differences) / math.sqrt(n)
    return Paired(n, ahead, mean, mean - half, mean + half)


@dataclass(frozen=True)
class Answer:
    """One line: what was compared and seen. `difference` and `seeds` may be empty."""

    compared: str
    verdict: str
    seen: str = ""
    difference: str = ""
    seeds: str = ""


def claims_table(board: Board) -> Table:
    """The claims as parts, their checks as lines."""
    table = Table(("compared", "verdict", "seen", "ahead by [95 % interval]", "seeds ahead"))
    for claim in board.plan.paper:
        paper = f" (the paper: {claim.value})" if claim.value else ""
        table.titles[len(table.lines)] = claim.claim + paper
        for one in answers(board, claim.checks):
            table.add(one.compared, one.verdict, one.seen, one.difference, one.seeds)
    return table


def headline(board: Board) -> tuple[str, str]:
    """A word and a sentence that answer for the first claim of which the runs can say something."""
    small = " in these small runs" if board.plan.quick else ""
    for claim in board.plan.paper:
        found = answers(board, claim.checks)
        verdict = _joint(found)
        if verdict != UNTESTED:
            sentence = f"{small}: {claim.claim} ({_evidence(claim.checks, found)})."
            return verdict.capitalize(), sentence
    return "", ""


def _joint(found: Sequence[Answer]) -> str:
    """The verdict on a claim with several parts."""
    verdicts = {one.verdict for one in found} - {UNTESTED} or {UNTESTED}
    if len(verdicts) == 1:
        return verdicts.pop()
    return "in part" if YES in verdicts else NO


def _evidence(checks: Sequence[Check], found: Sequence[Answer]) -> str:
    """What was seen, each with its quantity; of many comparisons how many went which way."""
    if len(found) > 2:
        counts = Counter(one.verdict for one in found)
        return "of the comparisons " + ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
    return "; ".join(
        f"{_NAMES[check.by]} {one.seen}" for check, one in zip(checks, found, strict=False)
    )


def answers(board: Board, checks: Sequence[Check]) -> list[Answer]:
    """What the runs say to some checks; at least one line."""
    if not checks:
        return [Answer("no run of these bears on it", UNTESTED)]
    return [_answer(board, check) for check in checks]


def _answer(board: Board, check: Check) -> Answer:
    name = _name(check)
    if check.by in _TIMES:
        return _times(board, check, name)
    mine, other = _found(board, check.mine), _found(board, check.other)
    if not mine or not other:
        return Answer(name, UNTESTED, "there are no such runs")
    if check.by == "lr":
        return _rates(mine, other, name)
    if len(mine) > 1 or len(other) > 1:
        return Answer(name, UNTESTED, "several curves are meant")
    return _compared(board, check, mine[0], other[0], name)


# ------------------------------------------------------------------------------ runs seed by seed


def _compared(board: Board, check: Check, mine: Group, other: Group, name: str) -> Answer:
    moment = _moment(board, check, mine, other)
    if check.at == "seconds" and moment is None:
        return Answer(name, UNTESTED, "runs alone were not timed")
    here, there = (_ends(board, group, moment, check.by) for group in (mine, other))
    sign = -1 if check.by == "train_loss" else 1
    seeds = sorted(here.keys() & there.keys())
    found = paired([sign * (here[seed] - there[seed]) for seed in seeds])
    lost = sum(run.config.seed not in here for run in mine.of_status("diverged"))
    others_lost = sum(run.config.seed not in there for run in other.of_status("diverged"))
    at = "" if moment is None else f" at {moment:.1f} s"
    seen = f"{plus_minus(spread(here.values()), 3)} against {plus_minus(spread(there.values()), 3)}"
    return Answer(
        name,
        _alike(found) if check.alike else found.verdict(lost, others_lost),
        seen + at + _lost(mine, lost) + _lost(other, others_lost),
        interval(found),
        f"{found.ahead} of {found.n}" if found.n else NOTHING,
    )


def _alike(found: Paired) -> str:
    """Of a claim that two do not differ: the interval can refute it, and never shows it."""
    return NO if found.verdict() != OPEN else OPEN


def interval(found: Paired) -> str:
    """A mean difference with its interval, in as many digits as show on which side of 0 it ends.

    >>> interval(paired([1.0, 2.0, 3.0])), interval(paired([0.5])), interval(paired([]))
    ('+2.000 [−0.484, +4.484]', '+0.500', '–')
    """

    ends = [end for end in (found.low, found.high) if end]
    digits = next((d for d in (3, 4, 5) if all(abs(end) >= 0.5 * 10**-d for end in ends)), 6)

    def signed(number: float) -> str:
        return f"{number:+.{digits}f}".replace("-", "−")

    if found.mean is None:
        return NOTHING
    if found.low is None or found.high is None:
        return signed(found.mean)
    return f"{signed(found.mean)} [{signed(found.low)}, {signed(found.high)}]"


def _lost(group: Group, lost: int) -> str:
    return f"; {group.config.method} diverged on {lost} of {len(group.runs)}" if lost else ""


def _moment(board: Board, check: Check, mine: Group, other: Group) -> float | None:
    """The seconds alone when the first of the two is done; None for the end of each."""
    if check.at != "seconds":
        return None
    ends = [
        board.place(group, ALONE)(run.last)
        for group in (mine, other)
        for run in group.of_status("finished")
    ]
    known = [end for end in ends if end is not None]
    return min(known) if known and len(known) == len(ends) else None


def _ends(board: Board, group: Group, moment: float | None, key: str) -> dict[int, float]:
    """The values of the finished runs at the end, or after the last epoch before a moment."""
    rows = {run.config.seed: _row(board, group, run, moment) for run in group.of_status("finished")}
    values = {seed: value(key)(row) for seed, row in rows.items()}
    return {seed: v for seed, v in values.items() if v is not None and math.isfinite(v)}


def _row(board: Board, group: Group, run: RunResult, moment: float | None) -> Row:
    if moment is None:
        return run.last
    place = board.place(group, ALONE)
    within = [row for row in run.history if (place(row) or 0.0) <= moment * (1 + 1e-9)]
    return within[-1]


# ------------------------------------------------------------------------- times, learning rates


def _times(board: Board, check: Check, name: str) -> Answer:
    mine, other = (_timed(board, wanted, check.by) for wanted in (check.mine, check.other))
    if mine is None or other is None:
        return Answer(name, UNTESTED, "they were not timed")
    ratio = mine / other
    seen = f"{1e3 * mine:.3f} ms against {1e3 * other:.3f} ms: {ratio:.2f} times"
    if check.expected is None:
        return Answer(name, YES if ratio < 1 else NO, seen)
    fits = abs(ratio / check.expected - 1) <= NEAR
    return Answer(name, YES if fits else NO, f"{seen}, {check.expected:.2f} claimed")


def _timed(board: Board, wanted: Mapping[str, Any], by: str) -> float | None:
    rows = [] if board.timing is None else board.timing.rows
    for row in rows:
        if all(plain_value(row.get(key)) == v for key, v in wanted.items()):
            return float(row[by])
    return None


def _rates(mine: Sequence[Group], other: Sequence[Group], name: str) -> Answer:
    low = min(group.config.lr for group in mine)
    high = max(group.config.lr for group in other)
    return Answer(name, YES if low > high else NO, f"lr {low:g} against {high:g}")


# -------------------------------------------------------------------------------- names, finding


def _found(board: Board, wanted: Mapping[str, Any]) -> list[Group]:
    """The curves that a check means."""
    return [
        group
        for group in board.groups
        if all(getattr(group.config, key) == v for key, v in wanted.items())
    ]


def _name(check: Check) -> str:
    """The two curves and what is compared: what they share is said once."""
    shared = dict(item for item in check.mine.items() if item in check.other.items())
    pair = " / ".join(
        ", ".join(
            words_of(key, v)
            for key, v in one.items()
            if key not in shared and (key == "method" or v is not None)
        )
        for one in (check.mine, check.other)
    )
    rest = [words_of(key, v) for key, v in shared.items()]
    when = ["at equal seconds"] if check.at == "seconds" else []
    return "; ".join([pair, _NAMES[check.by], *when, *rest])
