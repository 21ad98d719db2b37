"""Checkpoints of paths, cross-validation and fits of tables."""

from __future__ import annotations

import numpy as np
import pytest

from cyclade.files.checkpoint import Kept
from cyclade.linear import LassoCV, RowChunks, path, solve
from cyclade.linear.losses import Loss

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 10))
Y = X[:, 0] - X[:, 4] + rng.standard_normal(120)
TABLES = {"memory": X, "chunks": RowChunks(X, rows=50)}


class Killed(Exception):
    """In place of a kill."""


def killed_after(monkeypatch, saves):
    """The process ends once so many checkpoints are written."""
    done, plain = [0], Kept.save

    def save(self, **arrays):
        plain(self, **arrays)
        done[0] += 1
        if done[0] == saves:
            raise Killed

    monkeypatch.setattr(Kept, "save", save)
    return done


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("y", [Y, np.stack([Y, -Y[::-1]], axis=1)], ids=["one", "two"])
def test_a_path_goes_on(table, y, tmp_path, monkeypatch):
    options = {"n_alphas": 6, "alpha_ratio": 0.05, "tol": 1e-9}
    whole = path(TABLES[table], y, **options)
    with monkeypatch.context() as patch:
        killed_after(patch, 3)
        with pytest.raises(Killed):
            path(TABLES[table], y, **options, checkpoint=tmp_path / "path")
    with monkeypatch.context() as patch:
        done = killed_after(patch, 100)
        again = path(TABLES[table], y, **options, checkpoint=tmp_path / "path")
    assert done[0] == 6 * (1 if y.ndim == 1 else 2) - 3
    assert again.reached
    np.testing.assert_allclose(again.objectives, whole.objectives, rtol=1e-8)
    np.testing.assert_allclose(again.coefs, whole.coefs, atol=1e-4)
    once_more = path(TABLES[table], y, **options, checkpoint=tmp_path / "path")
    np.testing.assert_array_equal(once_more.coefs, again.coefs)
    assert once_more.certificates == again.certificates


def test_a_fit_of_a_table_goes_on(tmp_path, monkeypatch):
    y, table = np.where(Y > 0, 1.0, -1.0), TABLES["chunks"]
    whole = solve(table, y, "logistic", alpha=0.02, tol=1e-9)
    with monkeypatch.context() as patch:
        killed_after(patch, 3)
        with pytest.raises(Killed):
            solve(table, y, "logistic", alpha=0.02, tol=1e-9, checkpoint=tmp_path / "fit")
    again = solve(table, y, "logistic", alpha=0.02, tol=1e-9, checkpoint=tmp_path / "fit")
    assert again.certificate.reached
    assert again.certificate.tolerance == pytest.approx(whole.certificate.tolerance)
    assert again.objective == pytest.approx(whole.objective, rel=1e-8)
    assert len(again.history) < len(whole.history)
    with pytest.raises(ValueError, match="checkpoint: must be None for X in memory"):
        solve(X, Y, alpha=0.1, checkpoint=tmp_path / "fit")


@pytest.mark.parametrize("table", TABLES)
def test_cross_validation_goes_on(table, tmp_path, monkeypatch):
    options = {"n_alphas": 4, "alpha_ratio": 0.1, "cv": 3, "tol": 1e-9}
    whole = LassoCV(**options).fit(TABLES[table], Y)
    model = LassoCV(**options, checkpoint=tmp_path)
    with monkeypatch.context() as patch:
        killed_after(patch, 2 if table == "memory" else 6)  # there all folds are fitted at once
        with pytest.raises(Killed):
            model.fit(TABLES[table], Y)
    model.fit(TABLES[table], Y)
    np.testing.assert_allclose(model.score_path_, whole.score_path_, rtol=1e-7)
    assert model.alpha_ == whole.alpha_


@pytest.mark.parametrize("table", TABLES)
def test_a_path_over_other_data_is_refused(table, tmp_path):
    """Of the same shape, at the same λ: what was done for others would be returned as it is."""
    options = {"alphas": [0.5, 0.1], "checkpoint": tmp_path / "path"}
    done = path(TABLES[table], Y, **options)
    others = {"memory": X[:, ::-1].copy(), "chunks": RowChunks(X[:, ::-1].copy(), rows=50)}
    y = Y.copy()
    y[7] += 5.0  # in the middle of a chunk
    for rows, target in ((others[table], Y), (TABLES[table], y)):
        with pytest.raises(ValueError, match="belongs to other data"):
            path(rows, target, **options)
    np.testing.assert_array_equal(path(TABLES[table], Y, **options).coefs, done.coefs)


@pytest.mark.filterwarnings("ignore:.* stopped without a certificate")
@pytest.mark.parametrize("table", TABLES)
def test_the_parameters_of_a_loss_of_the_user_tell_runs_apart(table, tmp_path):
    class Scaled(Loss):
        def __init__(self, width):
            self.width, self.bound = width, 1.0

        def value(self, y, z):
            return self.width**2 * np.log(np.cosh((z - y) / self.width))

        def gradient(self, y, z):
            return self.width * np.tanh((z - y) / self.width)

    options = {"alphas": [0.5, 0.1], "checkpoint": tmp_path / "path"}
    path(TABLES[table], Y, Scaled(1e6), **options)
    with pytest.raises(ValueError, match="belongs to other data or arguments"):
        path(TABLES[table], Y, Scaled(2e6), **options)  # the same but for rounding


def test_a_path_goes_on_though_sums_are_made_in_another_order(tmp_path):
    """On other workers λ_max and the weights differ in their last digits."""
    lams, weights = np.array([0.5, 0.1]), np.full(120, 0.1)
    path(TABLES["chunks"], Y, alphas=lams, sample_weight=weights, checkpoint=tmp_path / "path")
    moved = lams * (1.0 + 1e-15)
    path(TABLES["chunks"], Y, alphas=moved, sample_weight=weights, checkpoint=tmp_path / "path")


def test_a_folder_is_left_where_it_is(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("keep")
    for call in (path, solve):
        lam = {"alphas": [0.1]} if call is path else {"alpha": 0.1}
        with pytest.raises(ValueError, match="mine is a folder; name a file"):
            call(TABLES["chunks"], Y, **lam, checkpoint=tmp_path / "mine")
    assert (tmp_path / "mine" / "file").read_text() == "keep"


def test_loading_runs_no_code(tmp_path):
    kept = Kept(tmp_path / "fit", "run")
    kept.save(x=np.array([print], dtype=object))  # would be a pickle
    with pytest.raises(ValueError, match="allow_pickle"):
        kept.load()
