"""BLAS has one thread while a fit goes on, and what it had afterwards; large work is shared."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from cyclade.linear import path, solve, threads
from cyclade.linear.penalties import L1
from cyclade.linear.problem import as_design
from cyclade.linear.products.fits import products
from cyclade.linear.tuning import CostModel, Tuning

NO_PRODUCTS = {"cost": CostModel(calls=-np.inf)}
SHARED = Tuning(large=0, long_run=0, **NO_PRODUCTS)


class Library:
    """A library with a number of threads, and a controller that knows it beside another."""

    user_api = "blas"

    def __init__(self):
        self.number, self.changes = 4, 0
        self.lib_controllers = [self, SimpleNamespace(user_api="openmp")]

    @property
    def num_threads(self):
        return self.number

    def set_num_threads(self, number):
        self.changes += number == 1
        self.number = number


@pytest.fixture
def library(monkeypatch):
    library = Library()
    monkeypatch.setattr(threads, "controller", lambda: library)
    return library


def watched(library):
    """A penalty that notes how many threads there are when it is asked for its table."""
    seen = []

    class Watched(L1):
        def parameters(self, p):
            seen.append(library.number)
            return super().parameters(p)

    return Watched(0.1), seen


@pytest.mark.parametrize("front", [solve, path])
def test_fits_have_one_thread(library, front):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 5))
    penalty, seen = watched(library)
    front(X, X[:, 0], "squared", penalty)
    assert set(seen) == {1}
    assert library.number == 4
    seen.clear()
    front(X, X[:, 0], "squared", penalty, tuning=Tuning(huge=99))  # a large table has all
    assert set(seen) == {4}
    with pytest.raises(ZeroDivisionError), threads.one_thread(1):
        1 / 0  # noqa: B018
    assert library.number == 4


def test_the_last_of_several_fits_restores_them(library):
    meeting, leaving = Barrier(3), Barrier(3)

    def fit(k):
        with threads.one_thread(1):
            meeting.wait()
            if k < 2:
                leaving.wait()
        if k == 2:  # the first to leave
            assert library.number == 1
            leaving.wait()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(fit, range(3)))
    assert library.number == 4
    assert library.changes == 1


def test_libraries_of_numpy_and_scipy_are_known():
    with threads.one_thread(1):
        found = [one for one in threads.controller().info() if one["user_api"] == "blas"]
        assert found
        assert all(one["num_threads"] == 1 for one in found)


# --- work that is shared -----------------------------------------------------------------------


def table(n=101, p=23, seed=0):
    rng = np.random.default_rng(seed)
    X = np.asfortranarray(rng.standard_normal((n, p)) + rng.random(p))
    return X, X[:, :4].sum(axis=1) + 0.5 * rng.standard_normal(n)


def test_as_many_as_blas_had_and_cores_are_there(library, monkeypatch):
    monkeypatch.setattr(threads, "cores", lambda: 3)
    seen = []
    with threads.one_thread(10**9, Tuning(huge=10**10)):
        seen.append(threads._own.number)
        assert library.number == 1
    library.number = 2
    with threads.one_thread(10**9):
        seen.append(threads._own.number)
    with threads.one_thread(100):
        seen.append(threads._own.number)
    assert seen == [3, 2, 1]
    assert threads._own.number == 1


@pytest.mark.parametrize("case", ["thread", "process", "beside"])
def test_a_fit_that_is_not_alone_has_one(library, monkeypatch, case):
    monkeypatch.setattr(threads, "cores", lambda: 4)
    assert threads.permitted() == 4
    if case == "process":
        monkeypatch.setattr(threads.multiprocessing, "parent_process", lambda: object())
        assert threads.permitted() == 1
    elif case == "thread":
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(threads.permitted).result() == 1
    else:
        with threads.one_thread(1):
            assert threads.permitted() == 1


@pytest.mark.parametrize("storage", [np.asfortranarray, np.ascontiguousarray, sp.csc_matrix])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_passes_and_products_of_two_threads_are_those_of_one(storage, dtype):
    X, y = table()
    X = X.astype(dtype)
    n, p = X.shape
    design, w = as_design(storage(X), tuning=SHARED), np.full(n, 1 / n)
    x, few = np.linspace(-1, 1, p), np.zeros(p)
    few[[3, 7]] = 1.0, -2.0
    old, new, G = np.arange(5), np.arange(5, p), np.zeros((5, 5))
    found = []
    for ranks in (1, 2):
        with threads.allowed(ranks):
            passes = [design.correlate(y), design.predict(x), design.predict(few)]
            for centred in (True, False):
                panel = design.growing_panel(w, centred)
                panel.extend(np.arange(p))
                panel.start(np.sqrt(w) * (y - y.mean() * centred), np.zeros(p))
                passes += [panel.products(old, new, G), panel.correlations()]
            passes += products(X, y, np.ones(n), False, SHARED)[:1]
            found.append(passes)
    for one, two in zip(*found, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-10)
    exact = X.T.astype(float) @ y, X @ x, X @ few
    for known, expected in zip(found[0], exact, strict=False):
        np.testing.assert_allclose(known, expected, atol=1e-4 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("storage", [np.asfortranarray, np.ascontiguousarray, sp.csc_matrix])
@pytest.mark.parametrize("lam", [0.3, 0.003])
def test_fits_of_two_threads_take_the_same_steps(monkeypatch, storage, lam):
    X, y = table()
    found = []
    for ranks in (1, 2):
        monkeypatch.setattr(threads, "permitted", lambda ranks=ranks: ranks)
        found.append(solve(storage(X), y, "squared", L1(lam), tol=1e-9, tuning=SHARED))
    one, two = found
    assert [row["passes"] for row in one.history] == [row["passes"] for row in two.history]
    np.testing.assert_allclose(two.coef, one.coef, rtol=0, atol=1e-10)
    assert two.intercept == pytest.approx(one.intercept, abs=1e-10)


def test_code_of_others_compiles_beside_our_kernels():
    import numba

    from cyclade.linear.kernels import jit

    assert jit.compiled
    names = {"__name__": None}  # as functions that are made by exec
    exec("def doubled(x):\n    return 2 * x\n", names)
    assert names["doubled"].__module__ is None
    assert numba.njit(names["doubled"])(2) == 4
