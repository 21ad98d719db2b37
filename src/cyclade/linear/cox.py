"""Cox's proportional hazards: the partial likelihood as a loss over rows that belong together.

With risk sets R(t) = {i : entry_i < t ≤ time_i} of a stratum and e_i = w_i e^{z_i},

    −ΣwF(z) = Σ_{events i} w_i z_i − Σ_t (W_t/m_t) Σ_{l < m_t} log(Σ_{R(t)} e − f_l Σ_{D(t)} e)

over the times t of m_t events D(t) that weigh W_t; f_l = 0 is Breslow's rule for ties, f_l = l/m_t
Efron's. A gradient costs O(n) once the rows are sorted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from cyclade._checks import choice
from cyclade.linear.loss_at import KINDS, LossAt
from cyclade.linear.losses import Array, Loss

TINY = float(np.finfo(np.float64).tiny)
FIELDS = [("event", np.bool_), ("time", np.float64), ("entry", np.float64), ("stratum", np.int64)]


def survival(time: Any, event: Any, *, entry: Any = None, strata: Any = None) -> Array:
    """Times and events as one target for `CoxRegression`.

    Parameters
    ----------
    time : array of shape (n,)
        When the row was last seen, >= 0.
    event : array of shape (n,)
        Whether the event happened then; else the row is censored.
    entry : array of shape (n,), default=None
        When the row came under observation (left truncation); None is from the beginning.
    strata : array of shape (n,), default=None
        Labels of rows that share a baseline hazard.

    Examples
    --------
    >>> survival([5.0, 3.0], [True, False])["time"]
    array([5., 3.])
    """
    time, event = np.asarray(time, np.float64), np.asarray(event)
    if time.ndim != 1 or event.shape != time.shape:
        raise ValueError(
            f"time and event must have one entry a row, got shapes {time.shape} and {event.shape}"
        )
    if not np.isin(event, (0, 1)).all():
        raise ValueError("event must hold booleans, or zeros and ones")
    if not np.isfinite(time).all():
        raise ValueError("time must hold finite numbers")
    if (time < 0).any():
        raise ValueError(f"time must hold numbers >= 0, but one is {time.min():g}")
    y = np.zeros(time.size, FIELDS)
    y["time"], y["event"], y["entry"] = time, event.astype(np.bool_), -np.inf
    if entry is not None:
        y["entry"] = entry
        if np.isnan(y["entry"]).any() or not (y["entry"] < time).all():
            raise ValueError("entry must hold numbers below time")
    if strata is not None:
        y["stratum"] = np.unique(np.asarray(strata), return_inverse=True)[1]
    return y


def as_survival(y: Any) -> Array:
    """What users give as y, as `survival` makes it.

    A structured array with one boolean and one numeric field (scikit-survival's), two columns of
    time and event, or times alone, all of them events.
    """
    names = getattr(getattr(y, "dtype", None), "names", None)
    if names is not None:
        if names == tuple(name for name, _ in FIELDS):
            return np.asarray(y)
        flags = [name for name in names if y.dtype[name].kind == "b"]
        if len(names) != 2 or len(flags) != 1:
            raise ValueError(f"y: one field of booleans and one of times are needed, got {names}")
        return survival(y[next(n for n in names if n != flags[0])], y[flags[0]])
    try:
        y = np.asarray(y, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"y must hold times and events as numbers; see survival(): {error}"
        ) from error
    if y.ndim == 1 or (y.ndim == 2 and y.shape[1] == 1):
        from sklearn.utils.validation import column_or_1d

        return survival(column_or_1d(y, warn=True), np.ones(y.size))
    if y.ndim != 2 or y.shape[1] != 2:
        raise ValueError(
            f"y must be survival(time, event) or have two columns, got shape {y.shape}"
        )
    return survival(y[:, 0], y[:, 1])


class Sums(NamedTuple):
    """What value and derivatives at one z are made of."""

    logs: Array  # of the sum over the risk set of each event
    e: Array  # w e^{z − low} of each row, in order
    low: Array  # the largest z of a row's stratum


class RiskSets:
    """Who is at risk when, for some rows in the order of `rows`."""

    def __init__(self, y: Array, weights: Array, ties: str) -> None:
        self.n, self.total, self.weights = y.size, float(weights.sum()), weights
        self.order = np.lexsort((y["time"], y["stratum"]))
        time, entry, stratum = (y[name][self.order] for name in ("time", "entry", "stratum"))
        values, codes = np.unique(np.r_[time, entry], return_inverse=True)
        keys, entries = codes.reshape(2, -1) + stratum * values.size  # by stratum, then by time
        self.starts = np.flatnonzero(np.r_[True, stratum[1:] != stratum[:-1]])
        self.own = np.repeat(np.arange(self.starts.size), np.diff(np.r_[self.starts, self.n]))
        happened = np.flatnonzero(y["event"][self.order] & (weights[self.order] > 0.0))
        self.events = happened  # in the order of time
        at, place, self.group = np.unique(keys[happened], return_index=True, return_inverse=True)
        first = happened[place]  # a group has the events of one time
        self.times, self.strata = time[first], self.own[first]
        self.begin = np.searchsorted(keys, at)  # the first row at risk
        self.last = np.searchsorted(at, keys, side="right")  # of a row: groups not after its time
        self.before = np.searchsorted(self.strata, self.own)  # groups of earlier strata
        self.late: Array | None = None
        if np.isfinite(entry).any():
            self.late = np.argsort(entries, kind="stable")
            self.absent = np.searchsorted(entries[self.late], at)  # these enter too late
            self.before = np.searchsorted(at, entries, side="right")
        count = np.bincount(self.group, minlength=first.size).astype(np.float64)
        heavy = weights[self.order][happened]
        self.share = np.bincount(self.group, heavy, first.size)[self.group] / count[self.group]
        rank = np.arange(happened.size) - place[self.group]
        self.part = rank / count[self.group] if ties == "efron" else np.zeros(happened.size)

    def sums(self, values: Array) -> Array:
        """Σ of the values from each place to the end of its stratum, with a zero behind."""
        out = np.zeros(self.n + 1)
        for a, b in zip(self.starts, np.r_[self.starts[1:], self.n], strict=True):
            out[a:b] = np.cumsum(values[a:b][::-1])[::-1]
        return out

    def at(self, z: Array) -> Sums:
        """The sums over risk sets at z."""
        z = np.asarray(z, np.float64)[self.order]
        low = np.maximum.reduceat(z, self.starts)[self.own]
        e = self.weights[self.order] * np.exp(z - low)
        risk = self.sums(e)[self.begin]
        if self.late is not None:
            ends = np.r_[self.starts[1:], self.n][self.strata]
            absent = np.where(self.absent < ends, self.sums(e[self.late])[self.absent], 0.0)
            risk = risk - absent
        dead = np.bincount(self.group, e[self.events], self.times.size)
        sums = risk[self.group] - self.part * dead[self.group]
        # Where all but an event's own term has underflown, it is the sum.
        least = (1.0 - self.part) * e[self.events]
        sums = np.maximum(np.maximum(sums, least), TINY)
        logs = np.maximum(np.log(sums), (z - low)[self.events] + np.log(1.0 - self.part))
        return Sums(logs + low[self.events], e, low)

    def value(self, z: Array, sums: Sums) -> Array:
        """F, as a term of each event; their mean over all rows is F."""
        out, rows = np.zeros(self.n), self.order[self.events]
        out[rows] = self.share * sums.logs - self.weights[rows] * z[rows]
        return out * (self.n / self.total)

    def hazards(self, sums: Sums) -> tuple[Array, Array]:
        """Of each row, in order, w e^z times the hazard it went through; of each group, its step.

        Steps are times e^{max z} of the stratum.
        """
        term = self.share / np.exp(sums.logs - sums.low[self.events])
        step = np.bincount(self.group, term, self.times.size)
        passed = np.r_[0.0, np.cumsum(step)]
        through = passed[self.last] - passed[self.before]
        less = np.bincount(self.group, self.part * term, self.times.size)
        through[self.events] -= less[self.group]
        return sums.e * np.maximum(through, 0.0), step

    def baseline(self, z: Array) -> list[tuple[Array, Array]]:
        """Times and cumulative hazard of each stratum."""
        sums = self.at(z)
        step, low = self.hazards(sums)[1], sums.low[self.starts]
        parts = [np.flatnonzero(self.strata == k) for k in range(self.starts.size)]
        return [
            (self.times[part], np.cumsum(step[part]) * np.exp(-top))
            for part, top in zip(parts, low, strict=True)
        ]

    def slopes(self, sums: Sums) -> tuple[Array, Array]:
        """n ∂F/∂z, and weights of a quadratic model above F: n times the hazards."""
        bend = np.empty(self.n)
        bend[self.order] = self.hazards(sums)[0]
        slope, rows = bend.copy(), self.order[self.events]
        slope[rows] -= self.weights[rows]
        return slope * (self.n / self.total), bend * (self.n / self.total)


@dataclass(eq=False)
class Cox(Loss):
    """Minus the partial log-likelihood over Σw. Targets are the numbers of rows of `y`.

    Its terms are those of events; only their mean means anything. `curvature` is the diagonal part
    of the Hessian diag(h) − Σ p pᵀ, hence above it.
    """

    y: Array
    weights: Array
    ties: str = "breslow"

    flat = False
    joins_rows = True

    def __post_init__(self) -> None:
        choice("ties", self.ties, ("breslow", "efron"))
        self._known: dict[bytes, RiskSets] = {}

    def sets(self, rows: Array) -> RiskSets:
        """The risk sets of some rows, sorted once."""
        key = rows.tobytes()
        if key not in self._known:
            if len(self._known) > 8:  # folds and all rows are enough
                self._known.clear()
            at = rows.astype(np.int64)
            self._known[key] = RiskSets(self.y[at], self.weights[at], self.ties)
        return self._known[key]

    def value(self, y: Array, z: Array) -> Array:
        """Terms whose mean is F."""
        sets = self.sets(y)
        return sets.value(z, sets.at(z))

    def gradient(self, y: Array, z: Array) -> Array:
        """n ∂F/∂z."""
        return CoxLossAt(self, y, y, z).u

    def curvature(self, y: Array, z: Array) -> Array:
        """n times a diagonal above the Hessian of F."""
        return CoxLossAt(self, y, y, z).second

    def majoriser(self, y: Array, z: Array) -> Array:
        """None at a distance: infinite."""
        return np.full_like(z, np.inf)


class CoxLossAt(LossAt):
    """The sums over risk sets are formed once, for the value and both derivatives."""

    def __init__(self, loss: Any, y: Array, s: Array, z: Array) -> None:
        super().__init__(loss, y, s, z)
        self.sets = loss.sets(y)
        self.sums = self.sets.at(z)

    @cached_property
    def value(self) -> float:
        """F."""
        return float(self.s @ self.sets.value(self.z, self.sums))

    @cached_property
    def _slopes(self) -> tuple[Array, Array]:
        found: tuple[Array, Array] = self.sets.slopes(self.sums)
        return found

    @property
    def u(self) -> Array:
        """n ∂F/∂z."""
        return self._slopes[0]

    @property
    def second(self) -> Array:
        """n times a diagonal above the Hessian."""
        return self._slopes[1]


KINDS[Cox] = CoxLossAt


def concordance(y: Array, z: Array, weights: Array | None = None) -> float:
    """Harrell's C: of the pairs whose order is known, how many have the larger z die first.

    A pair is known if the earlier of two times in a stratum is that of an event; of equal times,
    if one is. Equal z count half.

    >>> concordance(survival([1.0, 2.0, 3.0], [1, 1, 0]), np.array([3.0, 1.0, 2.0]))
    0.6666666666666666
    """
    from cyclade.linear.kernels.concordance import pairs

    w = np.ones(y.size) if weights is None else weights
    ranks = np.unique(z, return_inverse=True)[1]
    right, known = 0.0, 0.0
    for stratum in np.unique(y["stratum"]):
        rows = np.flatnonzero(y["stratum"] == stratum)
        rows = rows[np.lexsort((y["event"][rows], -y["time"][rows]))]  # late first, then censored
        tree = np.zeros(int(ranks.max()) + 2)
        found = pairs(y["time"][rows], y["event"][rows], ranks[rows], w[rows], tree)
        right, known = right + found[0], known + found[1]
    return right / known if known else 0.5
