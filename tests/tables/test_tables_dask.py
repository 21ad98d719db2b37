"""Dask arrays and dataframes as X: local threads, a client, files; and estimators on tables."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from cyclade.linear import (
    GroupLasso,
    Lasso,
    LassoCV,
    MultiTaskLasso,
    PoissonRegressor,
    RobustRegression,
    RowChunks,
    SparseLogisticRegression,
    SparseLogisticRegressionCV,
    StochasticLinear,
    StochasticLinearClassifier,
    WeightedLasso,
    WeightedLassoCV,
    path,
    solve,
)  # fmt: skip
from cyclade.tables import dask_chunks
from cyclade.tables.dask_chunks import DaskChunks
from cyclade.tables.tuning import DEFAULT

da = pytest.importorskip("dask.array")
rng = np.random.default_rng(0)
n, p = 300, 8
DENSE = rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.7)
Z = DENSE[:, 0] - 2.0 * DENSE[:, 3]
REAL = Z + rng.standard_normal(n)
SIGNS = np.where(Z + rng.standard_normal(n) > 0, 1.0, -1.0)
NAMES = np.where(SIGNS > 0, "yes", "no")
WEIGHTS = rng.integers(0, 3, n).astype(float)
X = da.from_array(DENSE, chunks=(70, 3))  # rows are put together
Y = da.from_array(REAL, chunks=100)


@contextmanager
def client(**options):
    """A client of workers in this process: two with one thread, unless told otherwise."""
    distributed = pytest.importorskip("dask.distributed")
    options = {"n_workers": 2, "threads_per_worker": 1} | options
    with (
        distributed.LocalCluster(processes=False, dashboard_address=":0", **options) as cluster,
        distributed.Client(cluster) as found,
    ):
        yield found


def same(found, inside, rel=1e-8):
    assert found.certificate.reached
    assert found.objective == pytest.approx(inside.objective, rel=rel)


def test_sparse_blocks_and_targets_in_memory():
    blocks = da.from_array(DENSE, chunks=(70, -1)).map_blocks(sparse.csr_matrix)
    same(solve(blocks, REAL, alpha=0.05, tol=1e-9), solve(DENSE, REAL, alpha=0.05, tol=1e-9))


@pytest.mark.filterwarnings("ignore")  # Dask's own, of pandas
def test_dataframes_and_parquet(tmp_path):
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(DENSE, columns=[f"f{j}" for j in range(p)]).assign(y=REAL)
    table = dd.from_pandas(frame, npartitions=4)
    if importable("pyarrow"):
        table.to_parquet(tmp_path / "rows", write_index=False)
        table = dd.read_parquet(tmp_path / "rows")
    model = Lasso(alpha=0.05, tol=1e-9).fit(table[list(frame.columns[:-1])], table["y"])
    inside = Lasso(alpha=0.05, tol=1e-9).fit(frame.iloc[:, :-1], REAL)
    assert model.objective_ == pytest.approx(inside.objective_, rel=1e-8)
    assert list(model.feature_names_in_) == list(inside.feature_names_in_)
    with pytest.raises(ValueError, match="chunks of X have unknown sizes"):
        solve(table[list(frame.columns[:-1])], REAL, alpha=0.05)


@pytest.mark.parametrize("library", ["zarr", "h5py"])
def test_chunks_as_they_lie_in_a_file(library, tmp_path):
    """Read by rows; of zarr through Dask too."""
    stored = pytest.importorskip(library)
    inside, place = solve(DENSE, REAL, alpha=0.05, tol=1e-9), str(tmp_path / "X")
    if library == "h5py":
        with stored.File(place, "w") as file:
            kept = file.create_dataset("X", data=DENSE, chunks=(64, p))
            same(solve(RowChunks(kept, rows=64), REAL, alpha=0.05, tol=1e-9), inside)
        return
    stored.open_array(place, mode="w", shape=(n, p), chunks=(64, p), dtype="f8")[:] = DENSE
    kept = stored.open_array(place, mode="r")
    for X in (da.from_zarr(kept), RowChunks(kept, rows=64)):
        same(solve(X, REAL, alpha=0.05, tol=1e-9), inside)


def importable(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True


@pytest.mark.filterwarnings("ignore")  # of ports and of slow machines
def test_a_client_and_no_copy_of_X_on_it(monkeypatch):
    X = da.random.default_rng(0).standard_normal((4000, 6), chunks=(500, 6))
    y, sizes, plain = X[:, 0] - X[:, 2], [], DaskChunks.reduce

    def watched(self, task, with_X=True):
        sums = plain(self, task, with_X)
        sizes.append(sum(np.size(value) for value in sums.values()))
        return sums

    monkeypatch.setattr(DaskChunks, "reduce", watched)
    with client():
        found = solve(X, y, alpha=0.1, tol=1e-9)
    assert max(sizes) < 100  # what came to the client, of 4000 rows
    same(found, solve(X.compute(), y.compute(), alpha=0.1, tol=1e-9))


@pytest.mark.filterwarnings("ignore")  # of ports and of slow machines
@pytest.mark.parametrize("threads", [1, 2])
def test_chunks_in_the_memory_of_a_worker_share_a_task(threads):
    with client(threads_per_worker=threads) as at:
        lazy = da.from_array(DENSE, chunks=(50, p))
        one, two = sorted(at.scheduler_info()["workers"])
        halves = at.persist(lazy[:200], workers=one), at.persist(lazy[200:], workers=two)
        kept = at.persist(da.concatenate(halves))
        assert DaskChunks(lazy, REAL, None, None).groups == [[k] for k in range(6)]
        groups = sorted(DaskChunks(kept, REAL, None, None).groups)
        assert groups == ([[0, 1, 2, 3], [4, 5]] if threads == 1 else [[0, 2], [1, 3], [4], [5]])
        small = replace(DEFAULT, chunk_group_bytes=8 * 50 * p * 2)
        if threads == 1:
            cut = sorted(DaskChunks(kept, REAL, None, None, small).groups)
            assert cut == [[0, 2], [1, 3], [4, 5]]
        found, alone = (solve(rows, REAL, alpha=0.05, tol=1e-9) for rows in (kept, lazy))
    np.testing.assert_allclose(found.coef, alone.coef, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("table", ["dask", "rows"])
@pytest.mark.parametrize(
    ("model", "y"),
    [
        (Lasso(alpha=None), REAL), (GroupLasso(alpha=0.05, groups=2), REAL),
        (RobustRegression(), REAL), (PoissonRegressor(), rng.poisson(1.0, n).astype(float)),
        (Lasso(alpha=0.05, relaxed=True), REAL), (SparseLogisticRegression(), NAMES),
        (SparseLogisticRegression(class_weight="balanced"), NAMES),
        (SparseLogisticRegression(), np.where(Z > 1, "c", NAMES)),
        (MultiTaskLasso(alpha=0.05), np.stack([REAL, -Z], axis=1)),
        (Lasso(alpha=0.05), np.stack([REAL, -Z], axis=1)),
    ],
)  # fmt: skip
def test_estimators_agree_with_memory(table, model, y):
    model.set_params(tol=1e-9)
    inside = model.fit(DENSE, y, sample_weight=WEIGHTS)
    objective, coef, alpha = inside.objective_, inside.coef_, inside.alpha_
    predicted = inside.predict(DENSE)
    chunks, column, weights = RowChunks(DENSE, rows=70), y, WEIGHTS
    if table == "dask":
        column = da.from_array(y, chunks=(70, *y.shape[1:]))
        chunks, weights = X, da.from_array(WEIGHTS, chunks=70)
    found = model.fit(chunks, column, sample_weight=weights)
    assert found.alpha_ == pytest.approx(alpha, rel=1e-9)
    assert found.objective_ == pytest.approx(objective, rel=1e-8)
    np.testing.assert_allclose(found.coef_, coef, atol=1e-3)
    if predicted.dtype.kind == "f":
        np.testing.assert_allclose(found.predict(chunks), predicted, atol=1e-2)
    else:
        assert (found.predict(chunks) == predicted).mean() > 0.99


def test_streams_take_chunks():
    whole = StochasticLinear("squared", "l1", alpha=0.05, batch_size=64)
    for first in range(0, n, 70):
        whole.partial_fit(DENSE[first : first + 70], REAL[first : first + 70])
    for chunks, y in ((X, Y), (RowChunks(DENSE, rows=70), REAL)):
        found = StochasticLinear("squared", "l1", alpha=0.05, batch_size=64).partial_fit(chunks, y)
        np.testing.assert_array_equal(found.coef_, whole.coef_)
    labels = StochasticLinearClassifier("logistic", "l1", alpha=0.02, batch_size=64)
    labels.partial_fit(X, da.from_array(NAMES, chunks=70), classes=["no", "yes"])
    assert labels.n_rows_used_ > 200


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: solve(X, Y[:-1], alpha=0.1), "y: X has 300 rows, y has 299"),
        (lambda: solve(X, REAL[:-1], alpha=0.1), "y: X has 300 rows"),
        (lambda: solve(X.astype(complex), Y, alpha=0.1), "real numbers"),
        (lambda: solve(X[:, 0], Y, alpha=0.1), "two dimensions"),
        (lambda: Lasso(alpha=0.1).fit(Y, Y), "two dimensions"),
        (
            lambda: solve(da.where(X.map_blocks(np.equal, DENSE[250, 2]), np.nan, X), Y, alpha=0.1),
            "infinity in column 2: ",
        ),
        (lambda: Lasso(alpha=0.1, standardize=True).fit(X, Y), "standardize must be False"),
        (lambda: LassoCV(scoring="r2", cv=2, n_alphas=2).fit(X, Y), "scoring must be None"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_chunks_without_rows(loss, fit_intercept):
    y = REAL if loss == "squared" else np.sign(REAL)
    cut = da.from_array(X.compute(), chunks=((0, 100, 0, 200, 0), -1))
    found = solve(cut, y, loss, alpha=0.05, fit_intercept=fit_intercept, tol=1e-9)
    inside = solve(X.compute(), y, loss, alpha=0.05, fit_intercept=fit_intercept, tol=1e-9)
    assert found.objective == pytest.approx(inside.objective, rel=1e-8)


def test_sums_are_the_same_however_they_are_split():
    found, default = (
        solve(X, np.sign(REAL), "logistic", alpha=0.05, tuning=tuning).coef
        for tuning in (replace(DEFAULT, chunk_split=2), DEFAULT)
    )
    np.testing.assert_allclose(found, default, rtol=1e-14)  # added in another order


def test_dataframes_with_odd_columns():
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X.compute()[:, :3], columns=list("abc"))
    frame["n"] = pd.array(np.arange(300) % 5, dtype="Int64")
    y = dd.from_pandas(pd.Series(REAL), npartitions=3)
    inside = solve(frame.to_numpy(np.float64), REAL, alpha=0.05)
    found = solve(dd.from_pandas(frame, npartitions=3), y, alpha=0.05)
    assert found.objective == pytest.approx(inside.objective, rel=1e-6)
    for change, message in (
        ({"n": frame["n"].where(frame["n"] > 0)}, "infinity in column 3"),
        ({"k": pd.Categorical(["u", "v", "w"] * 100)}, "drop column 'k'"),
    ):
        with pytest.raises(ValueError, match=message):
            solve(dd.from_pandas(frame.assign(**change), npartitions=3), y, alpha=0.05)
    twice = pd.DataFrame(DENSE[:, :2], columns=["a", "a"])  # columns may share a name
    for relaxed in (False, True):
        found = Lasso(0.05, relaxed=relaxed).fit(dd.from_pandas(twice, npartitions=3), y)
        inside = Lasso(0.05, relaxed=relaxed).fit(DENSE[:, :2], REAL)
        assert found.objective_ == pytest.approx(inside.objective_, rel=1e-8)
    for odd, kind, message in (
        (dd.from_pandas(frame[[]], npartitions=3), ValueError, "at least one row and one column"),
        (y.to_bag(), TypeError, "an array or a dataframe of Dask, got Bag"),
    ):
        with pytest.raises(kind, match=message):
            Lasso(0.05).fit(odd, y)
    with pytest.raises(ValueError, match="X has 2 chunks of rows, y has 3: take both from one"):
        solve(dd.from_pandas(frame, npartitions=2), y, alpha=0.05)


@pytest.fixture(scope="module")
def frames():
    """A dataframe of Dask, whose chunks have sizes that Dask does not know, and what is in it."""
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(DENSE, columns=[f"f{j}" for j in range(p)], index=np.arange(n) % 7)
    frame = frame.assign(y=REAL, z=-Z, label=NAMES, w=WEIGHTS, one=1.0)
    return frame, dd.from_pandas(frame, npartitions=4, sort=False)


SINGLE = [
    (Lasso(0.05), ["y"]), (Lasso(0.05), ["y", "z"]), (MultiTaskLasso(0.05), ["y", "z"]),
    (SparseLogisticRegression(), ["label"]), (WeightedLasso(), "y"),
    (SparseLogisticRegression(class_weight="balanced"), "label"),
]  # fmt: skip
CHOOSING = [
    (LassoCV(n_alphas=4, cv=3, alpha_ratio=0.1), "y"),
    (WeightedLassoCV(n_alphas=4, cv=3, alpha_ratio=0.1), "y"),
    (SparseLogisticRegressionCV(n_alphas=4, cv=3, alpha_ratio=0.1), "label"),
]


@pytest.mark.parametrize(
    ("model", "y", "weights"),
    [(*row, weights) for row in SINGLE for weights in (None, "w", "array", 2.0)]
    + [(*row, "w") for row in CHOOSING],
)
def test_estimators_on_dataframes_agree_with_memory(model, y, weights, frames):
    frame, table = frames
    X, model = [f"f{j}" for j in range(p)], model.set_params(tol=1e-9)
    given = {"w": table["w"], "array": WEIGHTS}.get(weights, weights)
    own = WEIGHTS if weights in ("w", "array") else weights
    target = frame[y].to_numpy()
    inside = model.fit(frame[X], target[:, 0] if y == ["label"] else target, own)
    objective, alpha = inside.objective_, inside.alpha_
    found = model.fit(table[X], table[y], given, offset=0.0 * table[["one"]] if y == "y" else None)
    assert found.alpha_ == pytest.approx(alpha, rel=1e-6)
    assert found.objective_ == pytest.approx(objective, rel=1e-6)


def test_streams_of_dataframes_know_their_columns(frames):
    X, table = [f"f{j}" for j in range(p)], frames[1]
    model = StochasticLinear("squared", "l1", alpha=0.05, batch_size=64)
    model.partial_fit(table[X], table["y"])
    assert list(model.feature_names_in_) == X
    with pytest.raises(ValueError, match="same order"):
        model.partial_fit(table[X[::-1]], table["y"])


def test_labels_that_are_missing_are_named(frames):
    X, table = [f"f{j}" for j in range(p)], frames[1]
    with pytest.raises(ValueError, match="y: has missing values"):
        SparseLogisticRegression().fit(table[X], table["label"].where(table["f0"] < 1.0))


def test_what_needs_rows_in_memory_says_so():
    with pytest.raises(TypeError, match="table in chunks"):
        StochasticLinear("squared", "l1", alpha=0.1).fit(X, Y)


def uneven(kind):
    """A table of four chunks, one of which has other columns than the table says."""
    dask, pd = pytest.importorskip("dask"), pytest.importorskip("pandas")
    names = [f"f{j}" for j in range(p)]
    parts = [pd.DataFrame(DENSE[k : k + 75], columns=names) for k in range(0, n, 75)]
    parts[2] = {"fewer": parts[2][names[:-1]], "order": parts[2][names[::-1]]}[kind]
    delayed = [dask.delayed(part) for part in parts]
    if kind == "order":
        dd = pytest.importorskip("dask.dataframe")
        return dd.from_delayed(delayed, meta=parts[0].iloc[:0], verify_meta=False)
    blocks = [da.from_delayed(dask.delayed(np.asarray)(part), (75, p), float) for part in delayed]
    return da.concatenate(blocks)


@pytest.mark.filterwarnings("ignore")  # Dask's own, of pandas
@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("fewer", "X: chunk 2 has 7 columns, the table has 8"),
        ("order", "X: chunk 2 has column 'f7' where the table has 'f0'"),
    ],
)
def test_a_chunk_with_other_columns_is_named(kind, message):
    with pytest.raises(ValueError, match=message):
        solve(uneven(kind), da.from_array(REAL, chunks=75), alpha=0.1)


@pytest.mark.parametrize(
    "fit",
    [
        lambda X, y: solve(X, y, alpha=0.1), lambda X, y: path(X, y),
        lambda X, y: Lasso(0.1).fit(X, y), lambda X, y: SparseLogisticRegression(0.1).fit(X, y),
        lambda X, y: Lasso(0.1).fit(X, da.from_array(y, chunks=1)),
    ],
)  # fmt: skip
def test_tables_without_rows_are_refused(fit):
    with pytest.raises(ValueError, match="X: must have at least one row and one column"):
        fit(da.from_array(np.zeros((0, 3)), chunks=(1, 3)), np.zeros(0))


@pytest.mark.filterwarnings("ignore")  # of ports, and of memory
def test_a_fit_whose_workers_have_no_memory_left_says_so(monkeypatch):
    monkeypatch.setattr(dask_chunks, "POLL", 0.5)
    monkeypatch.setattr(dask_chunks, "STUCK_POLLS", 2)
    stuck = pytest.raises(MemoryError, match="all Dask workers are paused")
    with client(n_workers=1, memory_limit="20MB"), stuck:
        solve(X, Y, alpha=0.1)
