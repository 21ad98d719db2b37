"""Dataframes with categorical columns, and formulas: the fits of their dense matrices."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from cyclade import linear
from cyclade.linear import FrameEncoder

pd = pytest.importorskip("pandas")

n = 400
rng = np.random.default_rng(0)
FRAME = pd.DataFrame({
    "age": rng.standard_normal(n),
    "region": pd.Categorical(rng.choice(["north", "south", "west"], n), ["west", "south", "north"]),
    "kind": pd.Categorical(rng.integers(0, 6, n)),
    "smoker": rng.random(n) < 0.3,
})  # fmt: skip
DUMMIES = pd.get_dummies(FRAME, columns=["region", "kind"], prefix_sep="=")
DUMMIES = DUMMIES[["age", "region=west", "region=south", "region=north",
                   *[f"kind={k}" for k in range(6)], "smoker"]].astype(float)  # fmt: skip
Z = FRAME["age"] + 1.5 * (FRAME["region"] == "south") - (FRAME["kind"] == 2).astype(float)
REAL, LABELS = Z + rng.standard_normal(n), np.where(Z + rng.logistic(size=n) > 0, "yes", "no")
COUNTS = rng.poisson(np.exp(0.3 * Z))
ROWS = {  # the intercept and all levels of a column move along one another: l1 alone may be flat
    "Lasso": (linear.Lasso(0.02), REAL),
    "standardize": (linear.Lasso(0.02, standardize=True), REAL),
    "relaxed": (linear.Lasso(0.05, relaxed=True), REAL),
    "LassoCV": (linear.LassoCV(n_alphas=10), REAL),
    "scored": (linear.LassoCV(n_alphas=10, scoring="r2"), REAL),
    "logistic": (linear.SparseLogisticRegression(0.01), LABELS),
    "PoissonRegressor": (linear.PoissonRegressor(0.01, l1_ratio=0.9, tol=1e-11), COUNTS),
    "CoxRegression": (linear.CoxRegression(0.02), np.exp(0.3 * REAL.to_numpy())),
    "group_mcp": (linear.GeneralizedLinear("huber", "group_mcp", 0.05), REAL),
    "stochastic": (linear.StochasticLinear("squared", "l1", 0.02, tol=0.5), REAL),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_fits_are_those_of_the_dense_dummies(name):
    model, y = ROWS[name]
    weights = rng.integers(1, 3, n)
    found = clone(model)
    plain = clone(model).fit(DUMMIES, y, weights)
    found.fit(FRAME, y, weights)
    np.testing.assert_allclose(np.ravel(found.coef_), np.ravel(plain.coef_), atol=1e-3)
    assert found.feature_names_in_.tolist() == DUMMIES.columns.tolist()
    assert found.coef_table().index.isin(DUMMIES.columns).all()
    assert any(name in found.summary() for name in ("region=south", "age"))
    again = pickle.loads(pickle.dumps(found))
    there = FRAME.iloc[::-1][["kind", "smoker", "region", "age"]]  # columns are found by name
    if name == "logistic":
        assert (again.predict(there) == again.predict(FRAME)[::-1]).all()
        assert found.score(FRAME, y) == pytest.approx(plain.score(DUMMIES, y), abs=0.01)
    else:
        np.testing.assert_allclose(again.predict(there), again.predict(FRAME)[::-1], rtol=1e-12)
        np.testing.assert_allclose(found.predict(FRAME), plain.predict(DUMMIES), atol=1e-2)


def test_paths_and_streams_take_frames():
    path = linear.Lasso().path(FRAME, REAL, n_alphas=5)
    assert list(path.feature_names) == DUMMIES.columns.tolist()
    stream = linear.StochasticLinear("squared", "l1", alpha=0.1, batch_size=50)
    for first in range(0, n, 100):
        stream.partial_fit(FRAME.iloc[first : first + 100], REAL[first : first + 100])
    assert stream.coef_.size == DUMMIES.shape[1]


def test_the_matrix_is_sparse_and_holds_one_entry_a_row_for_each_categorical_column():
    found = FrameEncoder().fit(FRAME).transform(FRAME)
    assert sparse.issparse(found)
    assert found.nnz == n * 3 + int(FRAME["smoker"].sum())
    np.testing.assert_array_equal(found.toarray(), DUMMIES.to_numpy())


def test_levels_are_those_seen_and_match_by_value():
    encoder = FrameEncoder().fit(FRAME[FRAME["region"] != "west"])
    assert encoder.levels_["region"] == ["south", "north"]
    other = FRAME.assign(region=FRAME["region"].cat.reorder_categories(["north", "west", "south"]))
    np.testing.assert_array_equal(
        FrameEncoder().fit(FRAME).transform(other).toarray(), DUMMIES.to_numpy()
    )


def test_plain_values_are_matched_with_the_levels_of_the_fit():
    model = linear.Lasso(0.02).fit(FRAME, REAL)
    plain = FRAME.astype({"region": object, "kind": int})
    np.testing.assert_array_equal(model.predict(plain), model.predict(FRAME))
    with pytest.raises(ValueError, match="'region' has missing values"):
        model.predict(plain.assign(region=None))
    with pytest.raises(ValueError, match=r"'region' has level 'east', .* it saw 'west', "):
        model.predict(plain.assign(region="east"))


def test_groups_and_weights_go_by_names_of_columns():
    groups = [["age"], ["region"], ["kind"], ["smoker"]]
    by_name = linear.GroupLasso(0.1, groups=groups).fit(FRAME, REAL)
    by_column = linear.GroupLasso(0.1, groups="columns").fit(FRAME, REAL)
    numbers = [[0], [1, 2, 3], list(range(4, 10)), [10]]
    plain = linear.GroupLasso(0.1, groups=numbers).fit(DUMMIES, REAL)
    np.testing.assert_allclose(by_name.coef_, plain.coef_, atol=1e-4)
    np.testing.assert_allclose(by_column.coef_, plain.coef_, atol=1e-4)
    free = linear.Lasso(10.0, penalty_weights={"region": 0.0}).fit(FRAME, REAL)
    assert set(np.flatnonzero(free.coef_)) <= {1, 2, 3}
    assert free.coef_.any()


def test_polars_frames_are_those_of_pandas():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({
        "age": FRAME["age"].to_numpy(), "smoker": FRAME["smoker"].to_numpy(),
        "region": pl.Series(FRAME["region"].astype(str).to_list()).cast(pl.Categorical),
        "kind": pl.Series(FRAME["kind"].astype(str).to_list(), dtype=pl.Enum(list("012345"))),
    })  # fmt: skip
    one, other = (linear.Lasso(0.02, tol=1e-10).fit(X, REAL) for X in (FRAME, frame))
    values = dict(zip(other.feature_names_in_, other.coef_, strict=True))
    np.testing.assert_allclose([values[name] for name in DUMMIES], one.coef_, atol=1e-6)
    np.testing.assert_allclose(other.predict(frame), one.predict(FRAME), atol=1e-6)
    plain = frame.with_columns(pl.col("region").cast(pl.String))
    np.testing.assert_array_equal(other.predict(plain), other.predict(frame))
    with pytest.raises(ValueError, match="column 'region' has missing values"):
        other.predict(frame.with_columns(pl.lit(None).cast(pl.Categorical).alias("region")))


@pytest.mark.parametrize("formula", ["age + C(region)", "age * kind", "age + I(age**2) - 1"])
def test_formulas_are_the_matrices_of_formulaic(formula):
    formulaic = pytest.importorskip("formulaic")
    X = formulaic.model_matrix(formula, FRAME).drop(columns="Intercept", errors="ignore")
    plain = linear.Lasso(0.02, tol=1e-10).fit(pd.DataFrame(X).to_numpy(float), REAL)
    model = linear.Lasso(0.02, formula=formula, tol=1e-10).fit(FRAME, REAL)
    assert model.feature_names_in_.tolist() == list(X.columns)
    np.testing.assert_allclose(model.coef_, plain.coef_, atol=1e-6)
    with pytest.raises(ValueError, match=r"formula: .* cannot be read: .*age.* contains null"):
        model.predict(FRAME.assign(age=np.nan))
    some = FRAME.iloc[:7]  # which lack levels
    np.testing.assert_allclose(model.predict(some), model.predict(FRAME)[:7], rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.drop(columns="kind"), "X: lacks column 'kind'"),
        (lambda f: f.assign(region=f["region"].where(f["age"] > 0)), "'region' has missing values"),
        (lambda f: f.drop(columns="age").assign(region="x"), "X: lacks column 'age'"),
        (lambda f: f.assign(kind=pd.Categorical([9] * n)), "'kind' has level 9, which the fit did"),
        (lambda f: f.assign(age=pd.Timestamp("2020-01-01")), "column 'age' .* it holds dates"),
        (lambda f: np.zeros((3, 2)), "must be a dataframe, or 11 columns"),
    ],
)  # fmt: skip
def test_other_frames_are_refused(change, message):
    model = linear.Lasso(0.02).fit(FRAME, REAL)
    with pytest.raises(ValueError, match=message):
        model.predict(change(FRAME))


def test_what_cannot_be_encoded_is_refused():
    text = FRAME.assign(note=["free text"] * n)
    with pytest.raises(ValueError, match=r"encode or drop column 'note' .*astype"):
        linear.Lasso().fit(text, REAL)
    with pytest.raises(TypeError, match="must be a dataframe of pandas or polars, got ndarray"):
        linear.Lasso(formula="age").fit(DUMMIES.to_numpy(), REAL)
    with pytest.raises(ValueError, match="formula: must name columns of X alone"):
        linear.Lasso(formula="y ~ age").fit(FRAME, REAL)
    for wrong in ("age + agee", "age + ("):
        with pytest.raises(ValueError, match=re.escape(f"formula: {wrong!r} cannot be read")):
            linear.Lasso(formula=wrong).fit(text, REAL)
    model = linear.Lasso(0.02, formula="C(region)").fit(FRAME, REAL)
    with pytest.raises(ValueError, match=r"cannot be read: Data has categories outside .*'x'"):
        model.predict(FRAME.assign(region="x"))
    with pytest.raises(ValueError, match="unique column names"):
        linear.Lasso().fit(pd.concat([text, text], axis=1), REAL)
    with pytest.raises(ValueError, match="formula must be None for tables in chunks"):
        linear.Lasso(formula="age").fit(linear.RowChunks(DUMMIES.to_numpy()), REAL)


def test_plain_frames_and_arrays_have_no_encoder():
    model = linear.Lasso(0.02).fit(FRAME, REAL).fit(DUMMIES, REAL)
    assert not hasattr(model, "encoder_")
    assert model.feature_names_in_.tolist() == DUMMIES.columns.tolist()
