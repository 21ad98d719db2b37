"""BLAS has one thread while a fit goes on, and what it had afterwards."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest

from cyclade.linear import path, solve, threads
from cyclade.linear.penalties import L1
from cyclade.linear.tuning import Tuning


class Library:
    """A library with a number of threads."""

    def __init__(self):
        self.number, self.changes = 4, 0

    def limit(self, limits, user_api):
        assert user_api == "blas"
        before, self.number, self.changes = self.number, limits, self.changes + 1
        return Limits(self, before)


class Limits:
    """What `limit` gives."""

    def __init__(self, library, before):
        self.library, self.before = library, before

    def restore_original_limits(self):
        self.library.number = self.before


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
    assert seen
    assert set(seen) == {1}
    assert library.number == 4


def test_fits_of_a_large_table_have_all(library):
    penalty, seen = watched(library)
    solve(np.eye(10), np.ones(10), "squared", penalty, tuning=Tuning(threaded_entries=99))
    assert set(seen) == {4}


def test_an_error_restores_them(library):
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
