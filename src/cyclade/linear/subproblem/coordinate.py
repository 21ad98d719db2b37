"""Coordinates one by one: quadratic models of the loss, and exact cycles over a working set.

repeat  a quadratic model of the loss at z, with weights w = sφ'';
        minimise it over W by cycles, x_j ← prox(x_j − ∇_j/L_j, 1/L_j);
        move towards its minimiser as far as F falls (Armijo).

There are three ways to do so:

* the squared loss is its own model: one panel of weighted columns is kept, grows with the working
  set, and one minimisation is all (`minimise_squares`);
* few columns of many rows: cycles run on G = A diag(w) Aᵀ, which is formed for each model from
  columns that are kept without weights (`minimise_by_products`);
* else each model has a weighted copy of its columns, and cycles run on that (`minimise_models`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cyclade.linear import limits, numerics
from cyclade.linear.panels.protocols import Columns, Panel
from cyclade.linear.penalty_bound import BoundPenalty
from cyclade.linear.problem import Problem
from cyclade.linear.quadratic import Model, next_damping, polish, step_length
from cyclade.linear.state import NO_COLUMNS, State
from cyclade.linear.subproblem import active_set
from cyclade.linear.subproblem.gram import Gram, profiled_products
from cyclade.linear.tuning import DEFAULT, Tuning

Array = NDArray[Any]


def improve(problem: Problem, state: State, W: Array, target: float, budget: int) -> bool:
    """Minimise over the coordinates W and the intercept until they are stationary to the target."""
    state.working = W
    if problem.loss.quadratic:
        minimise_squares(problem, state, W, target, budget)
        return True
    columns = state.kept.get("columns")
    if columns is None or not np.isin(W, columns.cols, assume_unique=True).all():
        design, columns = problem.design, None
        if design.products_pay(W):
            columns = design.unweighted(W, problem.fit_intercept)
        state.kept["columns"] = columns
    if columns is not None:
        minimise_by_products(problem, state, columns, target, budget)
    else:
        minimise_models(problem, state, W, target, budget)
    return True


def gradient_on(problem: Problem, state: State, W: Array) -> Array:
    """∇f on W, which a check of all columns may have computed already."""
    if state.loss_at is state.measured.loss_at:
        return state.measured.gradient.exactly(W)
    return problem.design.correlate_some(W, state.loss_at.slopes)


# --- the squared loss ---------------------------------------------------------------------------


def minimise_squares(problem: Problem, state: State, W: Array, target: float, budget: int) -> None:
    """One model, which is exact, on a panel that is kept from one working set to the next."""
    solver, now = state.kept.get("panel_solver"), state.measured
    if solver is None:
        panel = problem.design.growing_panel(problem.weights, problem.fit_intercept)
        solver = IncrementalPanelSolver(panel, problem.design.p, problem.tuning)
        state.kept["panel_solver"] = solver
    at, panel = solver.places(W), solver.panel
    solver.start(state.x, now.loss_at.slopes, now.slope)
    cols = panel.cols[at]
    made = solver.minimise(
        problem.penalty, at, target, budget - state.passes,
        correlations=panel.means[at] * now.slope - now.gradient.exactly(cols),
        once=state.on_path or 2 * panel.entries(at) > problem.design.entries,
        final=state.target,
    )  # fmt: skip
    if made:
        state.passes, state.fresh = state.passes + made, False
        dx = panel.x[at].astype(np.float64) - state.x[cols]
        state.x[cols] += dx
        if problem.fit_intercept:
            state.c -= now.slope / panel.mass + float(panel.means[at] @ dx)


# --- curved losses, on products of columns ------------------------------------------------------


def minimise_by_products(
    problem: Problem, state: State, columns: Columns, target: float, budget: int
) -> None:
    """Models whose cycles read no row; a pass over the rows per model is all that is paid.

    So models are minimised well. Where a check of all columns costs no more than that pass, one
    model is made per working set.
    """
    W, tuning, damping = columns.cols, problem.tuning, 1.0
    check_is_cheap = tuning.cost.is_tall(problem.design)
    while state.passes < budget:
        x, slope, here = state.x[W], problem.slope(state.loss_at), state.loss_at
        if here is state.measured.loss_at:
            g = state.measured.gradient.exactly(W) - columns.centres * slope
        else:
            g = columns.slopes(here.slopes)
        distances = problem.penalty.distances(W, x, g + columns.centres * slope)
        worst = max(float(distances.max(initial=0.0)), abs(slope))
        if worst <= target:
            return
        model = Model(problem, here, damping, state.trust)
        tolerance = max(tuning.inner_part * target, tuning.model_precision * worst)
        least = tuning.rough * worst if check_is_cheap else tuning.forcing * tolerance
        moving = np.flatnonzero((x != 0) | (distances > least))
        dx, dc, made = minimise_model(
            model, columns, moving, g, slope, x, tuning.inner_part * tolerance,
            budget - state.passes,
        )  # fmt: skip
        state.passes += made
        cols = W[moving]
        # dc is the move of the intercept for centred columns.
        dc_raw = dc - float(columns.centres[moving] @ dx)
        if check_is_cheap:
            whole = state.x.copy()
            whole[cols] += dx
            end = problem.loss_at(problem.predict(whole, state.c + dc_raw))
        else:
            end = problem.loss_at(here.z + columns.combine(moving, dx) + dc)
        t, there = step_length(model, cols, x[moving], dx, end)
        if t > 0:
            state.x[cols], state.loss_at = x[moving] + t * dx, there
            state.c, state.fresh = state.c + t * dc_raw, check_is_cheap and t == 1.0
        elif problem.loss.convex and not problem.penalty.convex:
            # A model has minima too, and cycles may leap to one where the loss is not what it says:
            # where classes are far apart and φ'' is tiny, to zero. Newton steps do not leap.
            newton_steps(problem, state, W[x != 0], target, budget)
        damping = next_damping(state, damping, t, tuning)
        if damping > 1.0 / numerics.FLAT or (check_is_cheap and t > 0):
            return


def minimise_model(
    model: Model, columns: Columns, moving: Array, g: Array, slope: float, x: Array,
    tolerance: float, budget: int,
) -> tuple[Array, float, int]:  # fmt: skip
    """What the moving columns and the intercept move by, and the cycles that took.

    With an intercept c the model is minimised over it first: dc = −(Σu + σᵀdx)/Σw with σ = Aᵀw.
    """
    problem = model.problem
    G, means = profiled_products(columns, moving, model.w, problem.fit_intercept)
    c = means * slope - g[moving]
    gram = Gram.of(G, c, x[moving], columns.cols[moving], problem.penalty, problem.tuning)
    made = gram.minimise(tolerance, budget)
    dx = gram.x - x[moving]
    return dx, -slope / model.mass - float(means @ dx), made


# --- curved losses, on weighted copies of columns -----------------------------------------------


def minimise_models(problem: Problem, state: State, W: Array, target: float, budget: int) -> None:
    """Models on panels of their own; Newton steps once a support has settled."""
    tuning, damping, spent, wait = problem.tuning, 1.0, 0, 1
    forcing = tuning.forcing
    ahead = 2 * math.ceil(tuning.burst * math.log(1 / forcing))  # cycles, at most
    while state.passes < budget:
        V = moving_columns(problem, state, W, target, forcing)
        if not V.size:
            return
        model, every = Model(problem, state.loss_at, damping, state.trust), np.arange(V.size)
        solver = PanelSolver(model.panel(V), tuning)
        panel, x = solver.panel, state.x[V]
        if panel.gram_breakeven_cycles(every, every) < ahead:
            solver.spent = ahead
        panel.start(model.start(), x)
        made = solver.minimise(
            problem.penalty, every, target, budget - state.passes, forcing=forcing
        )
        if not made:
            return  # the intercept alone is off, or rounding: a check of all columns decides
        state.passes, spent = state.passes + made, spent + made
        slow = state.kept["slow"] = made >= limits.CYCLES
        dx = panel.x[: V.size].astype(np.float64) - x
        dz, dc = model.move(panel, dx)
        moved = np.flatnonzero(x + dx)
        long = spent > wait * panel.gram_breakeven_cycles(moved, moved)
        del panel, solver  # its columns go before others are copied
        t, there = step_length(model, V, x, dx, problem.loss_at(model.z + dz))
        if t > 0:
            state.x[V], state.loss_at, state.c = x + t * dx, there, state.c + t * dc
            state.fresh = False
        damping = next_damping(state, damping, t, tuning)
        del model, dz, there  # vectors of n numbers
        other = slow and not problem.loss.convex and active_set.suits(problem, state)
        if damping > 1.0 / numerics.FLAT or other:
            return
        inside = np.flatnonzero(state.x[V])
        settled = np.array_equal(np.sign(state.x[V]), np.sign(x))
        if settled and long and solvable(problem, state.x[V], V, inside):
            spent, wait = 0, 2 * wait
            newton_steps(problem, state, V[inside], target, budget)


def moving_columns(
    problem: Problem, state: State, W: Array, target: float, forcing: float
) -> Array:
    """The columns of W that a model is made of: the support, and those that violate.

    None if W and the intercept are stationary to the target. A model has a copy of its columns
    under its own weights, so it has no others; they may come in with the next.
    """
    x = state.x[W]
    distances = problem.penalty.distances(W, x, gradient_on(problem, state, W))
    worst = max(float(distances.max(initial=0.0)), abs(problem.slope(state.loss_at)))
    if worst <= target:
        return NO_COLUMNS
    tuning = problem.tuning
    least = tuning.forcing * max(tuning.inner_part * target, forcing * worst)
    return np.asarray(W[(x != 0) | (distances > least)])


def solvable(problem: Problem, x: Array, W: Array, inside: Array) -> bool:
    """Whether Newton steps on the support make sense: fewer columns than rows, or r is curved."""
    if problem.loss.joins_rows:  # its Hessian is not known
        return False
    if 0 < inside.size < problem.design.n:
        return True
    return inside.size > 0 and float(problem.penalty.derivatives(W[inside], x[inside])[1].min()) > 0


def newton_steps(problem: Problem, state: State, S: Array, target: float, budget: int) -> None:
    """Newton steps on a support that has settled, while they lower F and it is not stationary.

    Of a convex F they are few. Where φ'' < 0 they may be short, and many.
    """
    while S.size and (problem.loss.convex or state.passes < budget):
        step = polish(Model(problem, state.loss_at, 1.0, state.trust), state.x[S], S, target)
        if step is None:
            return
        dx, state.loss_at, dc = step
        state.x[S] += dx
        state.c, state.fresh, state.passes = state.c + dc, False, state.passes + 1
        S = S[state.x[S] != 0]


# --- cycles on one panel: bursts over the active columns, on products of columns once these pay ---


def cycles(
    panel: Panel, order: Array, penalty: BoundPenalty, max_cycles: int, tolerance: float
) -> tuple[int, float]:
    """Cycle over `order` until no |δ_j| L_j exceeds the tolerance; cycles and the last move."""
    stays = penalty.zero_threshold if penalty.convex else np.empty(0)
    done, largest = penalty.functions["cycles"](
        panel.storage, panel.R, panel.x, panel.cols, order, penalty.parameters, stays,
        max_cycles, tolerance,
    )  # fmt: skip
    return int(done), float(largest)


class PanelSolver:
    """A panel and the products of its columns, where these were formed.

    Forming products is put off until the cycles already made, and those ahead where the columns
    will stay active, cost as much: so it at most doubles the work.
    """

    def __init__(self, panel: Panel, tuning: Tuning = DEFAULT) -> None:
        self.panel, self.gram, self.tuning = panel, Gram(tuning), tuning
        self.spent = 0  # cycles made on the panel itself
        self.rate = 1.0  # cycles per factor e of the distance

    def minimise(
        self, penalty: BoundPenalty, at: Array, target: float, budget: int, *, forcing: float = 0.0,
        correlations: Array | None = None, once: bool = False, final: float = np.inf,
    ) -> int:  # fmt: skip
        """Cycle over the active columns of `at` until all are near the target; the cycles made.

        None are made if the columns are stationary to the target at the start.

        Parameters
        ----------
        penalty, at, target, budget
            The penalty, columns of the panel, a distance from stationary, and the most cycles.
        forcing : float
            For a model that is not exact, the factor by which its first distance is brought down;
            a better minimum is not worth more cycles.
        correlations : array, optional
            Those of the columns at the start, where they are known.
        once : bool
            Return after products of columns have been used, for a check by the caller; R is not
            moved then.
        final : float
            The distance that later calls will come down to, for products that are kept.
        """
        panel, gram, tuning = self.panel, self.gram, self.tuning
        cols, burst, done, made, before = panel.cols[at], tuning.burst, 0, 0, 0.0
        target = limit = max(target, self._rounding())
        while done < budget:
            x = panel.x[at]
            if correlations is None:
                self.residual()
                correlations = panel.correlations(at)
            distances = penalty.distances(cols, x, -correlations)
            worst = float(distances.max(initial=0.0))
            if worst <= limit:
                break
            if made:
                # A distance that rises says that others have come in.
                self.rate = made / max(math.log(before / worst), made / tuning.burst)
            before, made = worst, 0
            if done == 0 and forcing:
                limit = max(tuning.inner_part * target, forcing * worst)
                budget = min(budget, limits.CYCLES)
            active = at[(x != 0) | (distances > tuning.forcing * limit)]
            left, ahead = budget - done, 0.0
            if not forcing and 2 * int(np.count_nonzero(x)) > active.size:  # they will stay active
                ahead = self._cycles_ahead(active, worst, limit, final)
            if self._products_pay(active, done, ahead, bool(forcing)):
                gram.take(panel, penalty, active, correlations, at)
                polish = not forcing and int(np.count_nonzero(gram.x)) <= panel.root.size
                done += gram.minimise(tuning.inner_part * limit, left, polish)
                if once:  # R is not needed any more
                    panel.x[gram.columns] += (gram.x - gram.begun).astype(panel.x.dtype)
                    break
                self.residual()
                gram.give(panel)
            else:
                self.residual()
                tolerance = (1 if forcing else 2) * tuning.inner_part * limit
                made = self._burst(penalty, active, min(burst, left), tolerance)
                self.spent, done, burst = self.spent + made, done + made, min(2 * burst, 32)
            correlations = None
        return done

    def residual(self) -> None:
        """Have R at the point of the panel."""

    def _rounding(self) -> float:
        """The distance that float32 cannot tell from zero: of a product a_j · R, as it is rounded.

        Cycles would go on below it to the last pass, and lead away.
        """
        panel = self.panel
        if panel.x.dtype == np.float64:
            return 0.0
        self.residual()
        size = math.sqrt(float(panel.L.max(initial=0.0))) * float(np.linalg.norm(panel.R))
        return float(np.finfo(panel.x.dtype).eps) * size

    def _cycles_ahead(self, active: Array, worst: float, limit: float, final: float) -> float:
        """Cycles from the distance `worst` down; with rows enough, to the last one asked for."""
        end = min(limit, final) if 2 * active.size <= self.panel.root.size else limit
        if end <= 0.0:
            return float(limits.CYCLES)
        return self.rate * math.log(worst / end)

    def _products_pay(self, active: Array, done: int, ahead: float, inexact: bool) -> bool:
        """Whether the cycles made and those ahead cost more than products of the active columns."""
        panel = self.panel
        lacking = self.gram.lacking(panel, active)
        if self.spent + ahead < panel.gram_breakeven_cycles(active, lacking):
            return False
        # Products that are kept are still k² numbers to copy at every call.
        return inexact or done + ahead >= active.size**2 // max(panel.entries(active), 1.0)

    def _burst(
        self, penalty: BoundPenalty, active: Array, max_cycles: int, tolerance: float
    ) -> int:
        """Cycles over these columns; after the first, if these are long, over the support."""
        panel, done = self.panel, 0
        if panel.in_place and max_cycles > 1:
            done, largest = cycles(panel, active, penalty, 1, tolerance)
            if largest <= tolerance:
                return done
            active = active[panel.x[active] != 0]
        return done + cycles(panel, active, penalty, max_cycles - done, tolerance)[0]


class IncrementalPanelSolver(PanelSolver):
    """For weights that never change: columns come in, none leaves, and all products are kept."""

    def __init__(self, panel: Panel, p: int, tuning: Tuning = DEFAULT) -> None:
        super().__init__(panel, tuning)
        self._place = np.full(p, -1)
        self._slopes: tuple[Array, float] | None = None  # of the loss, until R is computed

    def start(self, x: Array, slopes: Array, slope: float) -> None:
        """Begin at x (of all columns), where the loss has these slopes in z, of sum `slope`."""
        self._slopes = slopes, slope
        self.panel.place(x[self.panel.cols])

    def residual(self) -> None:
        """Compute R where that was put off: on products of columns it may never be needed."""
        if self._slopes is None:
            return
        slopes, self._slopes = self._slopes, None
        self.panel.begin(*slopes, self.panel.x[: self.panel.cols.size])

    def places(self, W: Array) -> Array:
        """The places of the coordinates W in the panel, which takes in those it has not."""
        new = W[self._place[W] < 0]
        if new.size:
            self._place[new] = self.panel.extend(new)
        return np.sort(self._place[W], kind="stable")  # runs are merged
