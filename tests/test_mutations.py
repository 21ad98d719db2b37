"""Tests of the tests: each way of breaking the loop is caught by the checks that should."""

from __future__ import annotations

import inspect
import math
import sys
import textwrap
from collections.abc import Callable, Iterable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import test_better_steps
import test_line_search
import test_returned_iterate
import watched
from cyclade import Backtracking, Curvature, Layout, core, minimize
from cyclade.blocks.lag import Lag
from cyclade.regularisers import L0, L1, matrix, per_block
from cyclade.regularisers.joined import Joined
from cyclade.run import arguments, stopping
from cyclade.run.runner import Runner
from cyclade.run.stopping import course
from cyclade.sampling import orders
from cyclade.steps import expected
from regulariser_checks import check_joined_distances, check_rank_of_the_nuclear_norm
from small import Logistic, both, bowl, largest_difference, squares

Check = Callable[[], None]


def with_a_bug(owner: Any, name: str, line: str, wrong: str) -> Any:
    """The function `name` of a module or a class, with one piece of its text replaced."""
    function = vars(owner)[name]
    text = textwrap.dedent(inspect.getsource(function))
    assert text.count(line) == 1, f"{name} was rewritten: say the same bug in its new words"
    text = text.replace(line, wrong)
    if inspect.isclass(owner):
        text = text.replace("super()", f"super({owner.__name__}, self)")
    found: dict[str, Any] = {}
    exec(compile(text, f"<{name} with a bug>", "exec"), function.__globals__, found)
    return found[name]


UPDATE = "gj = g.get(j) + (gj - lag.grad(j))"
PATHS, EXACT = watched.check_trajectories, watched.check_exact_when_full
DESCENT, THEOREM = watched.check_descent, watched.check_theorem_1
RECURSION = watched.check_variance_recursion
CYCLES: dict[str, tuple[str, str, list[Check]]] = {
    "g grows, not follows": (UPDATE, "gj = g.get(j) + 0.5 * gj", [PATHS, EXACT, RECURSION]),
    "g stays what the last refresh made it": (UPDATE, "gj = g.get(j)", [PATHS, EXACT]),
    "gradients of the start of the cycle": (  # Jacobi in place of Gauss–Seidel
        "for j in turns:  # line 4; `now` is at x_{k−1,j} (line 5)\n        gj = now.grad(j)",
        "turns = list(turns)\n    start = {j: now.grad(j) for j in turns}\n"
        "    for j in turns:\n        gj = start[j]",
        [PATHS, DESCENT, EXACT],
    ),
    "no variance reduction": (UPDATE, "pass", [PATHS, RECURSION]),
    "half the step for the prox": ("xj - t * dj", "xj - 2.2 * t * dj", [PATHS, DESCENT, THEOREM]),
}


@pytest.mark.parametrize(
    ("name", "check"), [(name, check) for name, row in CYCLES.items() for check in row[-1]]
)
def test_a_broken_cycle_is_caught(name: str, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "cycle", with_a_bug(core, "cycle", *CYCLES[name][:2]))
    with pytest.raises(AssertionError):
        check()


def adding_distances(self: Joined, u: Any, v: Any, w: Any) -> float:
    """Distances added in place of their squares."""
    parts = [(index, reg) for index, _, reg in self.parts]
    return sum(reg.distance(u[index], v[index], w) for index, reg in parts)


def test_distances_of_parts_that_are_added_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Joined, "_distance", adding_distances)
    with pytest.raises(AssertionError):
        check_joined_distances()


@pytest.mark.parametrize("factor", [1e6, 16.0, 1 / 16])
def test_another_tolerance_of_the_rank_is_caught(
    factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "_RANK_ULPS", factor * matrix._RANK_ULPS)
    with pytest.raises(AssertionError):
        check_rank_of_the_nuclear_norm()


class OneCycleBehind(Lag):
    """The lagged point that is right only in a fixed order: always one cycle behind."""

    def grad(self, j: int) -> Any:
        return self._at.grad(j)

    def follow(self, j: int, old: Any, new: Any) -> None:
        self._at.set(j, old)

    def trim(self) -> None:
        self._at = self.point


class NeverMoves(Lag):
    """A lagged point that stays at x_0."""

    def follow(self, j: int, old: Any, new: Any) -> None:
        pass


@pytest.mark.parametrize("lag", [OneCycleBehind, NeverMoves])
@pytest.mark.parametrize("check", [PATHS, EXACT])
def test_a_broken_lag_is_caught(lag: Any, check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "Lag", lag)
    with pytest.raises(AssertionError):
        check()


def test_one_cycle_behind_is_right_in_a_fixed_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two points of the design are enough there, and the tape does the same."""
    monkeypatch.setattr(core, "Lag", OneCycleBehind)
    for order in ("forward", "backward"):
        iterates, reference = both(Logistic(), "VRO-CCD", order, b=16, b_small=4, p=0.3)
        assert largest_difference(iterates, reference) < 1e-13


class FirstAlways:
    """An order that says it is greedy and never looks."""

    def turns(self, m: int, rng: Any, score: Any) -> Any:
        return iter([0] * m)


@pytest.mark.parametrize(
    ("name", "mutant"),
    [
        ("forward", orders.Backward),
        ("backward", orders.Forward),
        ("shuffled", orders.Forward),
        ("shuffled", orders.Random),
        ("random", orders.Shuffled),
        ("greedy", FirstAlways),
        ("greedy", orders.Forward),
    ],
)
def test_a_broken_order_is_caught(name: str, mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference takes its turns from the same orders, so they have a check of their own."""
    watched.check_orders()
    monkeypatch.setitem(orders.ORDERS, name, mutant)
    with pytest.raises(AssertionError):
        watched.check_orders()


# ------------------------------------------------------------------- line search, rules, defaults


def check_paper_rule() -> None:
    """Algorithm 1, line 8: the smallest ‖x_k − x_{k−1}‖_Λ, here not that of the last cycle.

    η falls for one cycle, so that it moves least.
    """
    scale, Lambda = np.array([1.0, 50.0]), [1.0, 400.0]
    iterates: list[Any] = [np.array([0.0, 3.0])]
    rates = iter([1.0, 0.01, 1.0, 1.0])
    res = minimize(
        x0=iterates[0], blocks="coordinates", L=Lambda, eta=lambda k: next(rates), max_cycles=4,
        tol=None, returns="paper", every=1, callback=lambda report: iterates.append(report.x),
        **bowl(scale, 1.0),
    )  # fmt: skip
    changes = [math.sqrt(Lambda @ (b - a) ** 2) for a, b in pairwise(iterates)]
    np.testing.assert_allclose(res.history["change"][1:], changes)
    smallest = int(np.argmin(changes))
    assert smallest < 3  # or the last iterate would do
    np.testing.assert_array_equal(res.x, iterates[1 + smallest])


def check_safety() -> None:
    """Curvature(safety=3) is three times Curvature()."""
    options = {"x0": np.ones(2), "tol": None, "max_cycles": 1} | bowl(8.0)
    plain, safe = (minimize(L=Curvature(1, safety=s), **options).Lambda[0] for s in (1.0, 3.0))
    assert safe == pytest.approx(3 * plain)


def check_default_eta() -> None:
    """With Λ given, the recursive methods start from η = 0.15."""
    res = minimize(x0=np.ones(2), n=9, L=2.0, max_cycles=2, tol=None, every=1, **bowl(2.0))
    assert res.history["eta"][1:] == [0.15, 0.15]


# ------------------------------------------------------------------------------------ single lines


def check_sum_over_blocks() -> None:
    """The certificate adds the squares of all blocks."""
    x, gradient = [np.zeros(1), np.zeros(1)], [np.array([4.0]), np.array([5.0])]
    measure = module("certificates").squared_distance
    found = measure(x, gradient, per_block(L1(1.0), 2), lambda j: 1.0)
    assert found == pytest.approx(3.0**2 + 4.0**2)


def check_merged_metric() -> None:
    """A method that moves all blocks at once keeps the Λ_j of each."""
    res = minimize(
        x0=np.ones(4), n=5, blocks=2, method="SGD", b=5, L=[1.0, 50.0], eta=0.5, max_cycles=1,
        tol=None, returns="last", **bowl(np.array([1.0, 1.0, 50.0, 50.0])),
    )  # fmt: skip
    np.testing.assert_allclose(res.x, 0.5)


def check_retreat() -> None:
    """On full batches g is the gradient, after a retreat too: VRO-CCD goes where SCCD goes."""
    H = np.array([[2.0, 1.0], [1.0, 3.0]])

    def iterates(method: str, **sampling: Any) -> list[Any]:
        seen: list[Any] = []
        minimize(
            lambda x, i: 0.5 * float(x @ H @ x), np.ones(2), jac=lambda x, i: H @ x, n=6,
            blocks="coordinates", method=method, b=6, L=[0.02, 0.03], max_cycles=12,
            tol=None, every=1, callback=lambda report: seen.append(report.x), **sampling,
        )  # fmt: skip
        return seen

    fresh, recursive = iterates("SCCD"), iterates("VRO-CCD", b_small=6, p=1e-9)
    assert any(np.array_equal(x, np.ones(2)) for x in fresh)  # it came back to x0
    np.testing.assert_allclose(recursive, fresh, rtol=1e-9, atol=1e-12)


def check_no_end_on_the_way() -> None:
    """Near-zero slopes of a nonconvex F certify nothing while the cycle before still moved x."""
    res = minimize(x0=np.array([3.0]), L=1.0 + 1e-4, reg=L0(1e-30), tol=1e-3, every=1, **bowl())
    assert res.success
    assert res.cycles > 1


def check_course() -> None:
    """F rises once half of what was gained is lost."""
    assert course(fun=8.0, smooth=8.0, first=10.0, best=2.0, eps=1e-16) == "rising"
    assert course(fun=5.0, smooth=5.0, first=10.0, best=2.0, eps=1e-16) == "well"


def check_edge() -> None:
    """Where no step along the gradient has a value, the message says that x is at the edge."""
    res = minimize(
        lambda x: 0.5 * float(x @ x) if x[0] >= 1.0 else math.inf, np.ones(1), jac=lambda x: x
    )
    assert not res.success
    assert "at the edge of where f has values" in res.message


class OneBlock:
    """A point that a line search looks at: f, its gradient, and x."""

    def __init__(self, fun: Callable[[Any], float], jac: Callable[[Any], Any], x: Any) -> None:
        self.fun, self.jac, self.x = fun, jac, np.asarray(x, dtype=float)

    def value(self) -> float:
        return self.fun(self.x)

    def get(self, j: int) -> Any:
        return self.x

    def grad(self, j: int) -> Any:
        return self.jac(self.x)

    def trial(self, j: int, u: Any) -> float:
        return self.fun(u)

    def trial_grad(self, j: int, u: Any) -> Any:
        return self.jac(u)

    def turns(self, steps: Backtracking, count: int) -> Iterable[None]:
        """`count` cycles of the one block."""
        for k in range(count):
            steps.begin(k)
            direction, t = steps.at(0, self, self.grad(0), per_block(L1(0.0), 1))
            self.x = self.x - t * direction
            yield


def check_largest_curvature() -> None:
    """The curvature that a line search remembers is the largest it saw."""
    steps = Backtracking([30.0])
    falling = OneBlock(lambda x: 0.25 * float(np.sum(x**4)), lambda x: x**3, [2.0])
    seen = [steps.seen[0] for _ in falling.turns(steps, 8)]
    assert seen[0] > 1.0
    assert all(after >= before for before, after in pairwise(seen))


def check_compared_once() -> None:
    """Where f bends down, the gradient is held against values once, not at every turn."""
    asked = 0

    def fun(x: Any) -> float:
        nonlocal asked
        asked += 1
        return -0.5 * float(x @ x)

    bending, counts = OneBlock(fun, lambda x: -x, [1.0]), [0]
    for _ in bending.turns(Backtracking([0.1]), 3):
        counts.append(asked)
    first, *later = (after - before for before, after in pairwise(counts))
    assert first >= 4
    assert max(later) <= 2


def check_nothing_learnt() -> None:
    """Where neither values nor gradients can tell, L_j stays what was last accepted."""
    steps = Backtracking([4.0], shrink=0.5)
    flat = OneBlock(lambda x: 1e13 + 0.01 * float(x[0]), lambda x: np.array([0.01]), [0.0])
    assert [steps.L[0] for _ in flat.turns(steps, 4)] == [4.0] * 4


def check_norms_of_the_search() -> None:
    """Curvature is measured from the norm of Λ_j to that of its inverse."""
    steps = Backtracking([1.0])
    steps.shape = [np.array([1.0, 100.0])]
    now = SimpleNamespace(trial_grad=lambda j, u: np.array([3.0, 300.0]) * u)
    xj, u = np.zeros(2), np.ones(2)
    found = steps._by_gradients(0, now, xj, u, now.trial_grad(0, xj))
    assert found.curvature == pytest.approx(3.0)


def check_estimated_eta() -> None:
    """η of the estimate allows for the lag between blocks, L̃ = L̂, where there are several."""
    fun, jac = squares(40, 4)
    common = {
        "fun": fun, "x0": np.ones(4), "n": 40, "jac": jac, "b": 20, "b_small": 5, "p": 0.2,
        "max_cycles": 1, "tol": None, "every": 1, "method": "VRO-CCD", "eta": "theory",
    }  # fmt: skip
    seen: list[Any] = []

    def spying(*args: Any) -> float:
        seen.append(args)
        return ETA(*args)

    ETA = expected.max_eta
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(expected, "max_eta", spying)
        minimize(**common, blocks=2)
        minimize(**common, blocks=1)
    (L_hat, L_tilde, *_), (_, alone, *_) = seen
    assert L_tilde == L_hat
    assert alone == 0.0


def check_every() -> None:
    """Curvature(every=2) estimates anew in cycles 2, 4, 6."""
    steps = Curvature(1, every=2)
    due = []
    for k in range(1, 7):
        steps.due = [False]
        steps.begin(k)
        due.append(steps.due[0])
    assert due == [False, True] * 3


def check_fair_coin() -> None:
    """The reflected order goes forward half of the time."""
    rng, score = np.random.default_rng(0), lambda j: 0.0
    forward = sum(next(orders.Reflected().turns(3, rng, score)) == 0 for _ in range(2000))
    assert abs(forward - 1000) < 4 * math.sqrt(2000 / 4)


def check_all_probes() -> None:
    """The curvature around x is the largest of three directions, not that of the last."""
    x = Layout.of(np.ones(2), None).point(np.ones(2))
    bends = iter([100.0, 1e-6, 1e-6])

    class Bending:
        def evaluate(self, there: Any, sample: Any) -> Any:
            return 0.0, [1.0 + next(bends) * (there.get(0) - x.get(0))]

    factor = module("certificates").metric_inflation(
        Bending(), x, None, [np.ones(2)], per_block(L1(0.0), 1), lambda j: 1e12, 1e-4
    )
    assert 1e12 / factor > 10.0  # of the size of the largest, 100


def check_two_directions() -> None:
    """One direction along which f is odd does not condemn a gradient."""
    x = Layout.of(np.ones(3), None).point(np.ones(3))
    first: list[Any] = []

    def value(there: Any) -> float:
        d = there.whole() - 1.0
        first.append(d)
        along = abs(first[0] @ d) > 0.999 * np.linalg.norm(first[0]) * np.linalg.norm(d)
        return float(d.sum()) * (3.0 if along else 1.0)

    rng = np.random.default_rng(0)
    found = module("certificates").contradiction(value, x, [np.ones(3)], rng, [0])
    assert found is None


def module(name: str) -> Any:
    return sys.modules[f"cyclade.{name}"]


LINES: list[tuple[Any, str, str, str, Check]] = [
    (module("certificates"), "squared_distance", "total += reg.distance(j, u, v, weight) ** 2",
     "total = max(total, reg.distance(j, u, v, weight) ** 2)", check_sum_over_blocks),
    (arguments, "_merged", "if all(isinstance(entry, float) and entry == Lambda[0] for entry in "
     "Lambda):", "if isinstance(Lambda[0], float):", check_merged_metric),
    (Backtracking, "_try", "0.5 * self.L[j] * length2", "1.1 * self.L[j] * length2",
     test_line_search.test_half_the_curvature_is_not_accepted),
    (stopping.SmallestChange, "see", "seen.change <= self.smallest", "True", check_paper_rule),
    (Runner, "_change", "norm2(a - b, metric(j))", "norm2(a - b)", check_paper_rule),
    (Curvature, "measure", "self.safety * norm", "norm", check_safety),
    (arguments, "as_steps", "else 0.15", "else 0.5", check_default_eta),
    (Runner, "_retreat", "state.lag, state.g = afresh.lag, afresh.g", "state.lag = afresh.lag",
     check_retreat),
    (Runner, "_may_move", "10 * math.sqrt", "1e9 * math.sqrt", check_no_end_on_the_way),
    (module("run.stopping"), "course", "0.5 * (first - best)", "5 * (first - best)", check_course),
    (Backtracking, "at", '(edge and trial.verdict == "lost")', "False", check_edge),
    (Backtracking, "at", "if trial.curvature > self.seen[j]:", "if trial.curvature > 0:",
     check_largest_curvature),
    (Backtracking, "_check_gradient", "self.compared[j] = True", "pass", check_compared_once),
    (Backtracking, "at", "if rejections == 0 and trial_number == 0:", "if False:",
     check_nothing_learnt),
    (Backtracking, "_by_gradients", "norm2(there - slope, 1.0 / shape)",
     "norm2(there - slope, shape)", check_norms_of_the_search),
    (expected, "estimated_steps", "found.L_hat if x.layout.m > 1 else 0.0", "0.0",
     check_estimated_eta),
    (expected, "expected_smoothness", "scale = size * count / (count - 1)", "scale = size",
     test_better_steps.test_smoothness_of_terms_is_that_of_batches_scaled_up),
    (Curvature, "begin", "k % self.every == 0", "k % (self.every + 1) == 0", check_every),
    (orders.Reflected, "_listed", "< 0.5", "< 0.25", check_fair_coin),
    (stopping.Best, "see", "seen.fun <= self.smallest + rounding",
     "seen.fun < self.smallest - rounding",
     test_returned_iterate.
     test_of_values_that_agree_to_rounding_the_last_is_best_and_none_drifts_up),
    (module("certificates"), "metric_inflation", "max(curvature[j], bent)", "bent",
     check_all_probes),
    (module("certificates"), "contradiction", "in range(2)", "in range(1)",
     check_two_directions),
]  # fmt: skip


@pytest.mark.parametrize(
    ("owner", "name", "line", "wrong", "check"), LINES, ids=[row[-1].__name__ for row in LINES]
)
def test_a_bug_in_one_line_is_caught(
    owner: Any, name: str, line: str, wrong: str, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    check()
    right, bug = vars(owner)[name], with_a_bug(owner, name, line, wrong)
    monkeypatch.setattr(owner, name, bug)
    for loaded in list(sys.modules.values()):  # where the function was imported by its name
        if vars(loaded).get(name) is right:
            monkeypatch.setattr(loaded, name, bug)
    with pytest.raises(AssertionError):
        check()
