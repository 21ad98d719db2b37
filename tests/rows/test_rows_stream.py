"""`RowStream`: rows in any chunks, exact resumption, and what it learns."""

from __future__ import annotations

import copy
import pickle
import signal
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from cyclade.linear.penalties import L1, Rows
from cyclade.rows.fit import RowStream
from cyclade.sampling.orders import Forward

METHODS = ["VRO-CCD", "VR-CCD", "SCCD", "PAGE", "SGD"]


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 8)) * (rng.random((n, 8)) < 0.7)
    return X, 2.0 * X[:, 0] - X[:, 3] + 1.0 + 0.1 * rng.normal(size=n)


def fed(stream: RowStream, X: object, y: np.ndarray, cuts: list[int]) -> RowStream:
    for start, stop in zip([0, *cuts], [*cuts, len(y)], strict=True):
        stream.partial_fit(X[start:stop], y[start:stop])  # type: ignore[index]
    return stream


@pytest.mark.parametrize("loss", ["squared", "poisson"])
@pytest.mark.parametrize("method", METHODS)
def test_how_the_rows_are_cut_changes_nothing(method: str, loss: str) -> None:
    X, y = rows(1_500)
    y = np.floor(np.abs(y)) if loss == "poisson" else y
    options = {"method": method, "b": 100, "order": "shuffled", "blocks": 3}
    once = fed(RowStream(loss, L1(0.05), **options), X, y, [])
    many = fed(RowStream(loss, L1(0.05), **options), X, y, [1, 30, 99, 400, 401, 1_200])
    np.testing.assert_array_equal(once.coef, many.coef)
    assert once.cycles == many.cycles > 0
    assert once.rows_used == many.rows_used
    assert once.rows_used + once.rows_waiting == 1_500


def test_how_weighted_rows_are_cut_changes_nothing() -> None:
    X, y = rows(900)
    s = np.random.default_rng(1).integers(0, 5, size=900) * np.repeat([1.0, 100.0], 450)
    once, many = (RowStream("squared", L1(0.05), b=100) for _ in range(2))
    once.partial_fit(X, y, s)
    for part in np.array_split(np.arange(900), 7):
        many.partial_fit(X[part], y[part], s[part])
    np.testing.assert_allclose(once.coef, many.coef, rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_it_resumes_exactly(method: str) -> None:
    X, y = rows(1_500)
    options = {"method": method, "b": 64, "blocks": 3}
    stream = fed(RowStream("squared", L1(0.05), **options), X[:700], y[:700], [])
    copies = [pickle.loads(pickle.dumps(stream)), copy.deepcopy(stream)]
    stream.partial_fit(X[700:], y[700:])
    for other in copies:
        assert not np.array_equal(other.coef, stream.coef)
        other.partial_fit(X[700:], y[700:])
        np.testing.assert_array_equal(other.coef, stream.coef)
        assert other.intercept == stream.intercept


def test_sparse_rows_are_dense_rows_and_may_be_mixed() -> None:
    X, y = rows(1_500)
    dense = fed(RowStream("squared", L1(0.05), b=100), X, y, [700])
    sparse = fed(RowStream("squared", L1(0.05), b=100), sp.csr_matrix(X), y, [700])
    np.testing.assert_allclose(dense.coef, sparse.coef, atol=1e-12)
    for first, second in ((X, sp.csr_matrix(X)), (sp.csc_matrix(X), X)):
        mixed = RowStream("squared", L1(0.05), b=100).partial_fit(first[:730], y[:730])
        mixed.partial_fit(second[730:], y[730:])
        np.testing.assert_allclose(mixed.coef, dense.coef, atol=1e-12)


def test_curvature_that_shows_up_late_shortens_the_steps() -> None:
    X, y = rows(20_000)
    X[2_000:, 5] *= 50.0  # with the steps of before the iterates would run away
    stream = fed(RowStream("squared", L1(0.05), b=100), X, y, [2_000])
    np.testing.assert_allclose(stream.coef[[0, 3, 5]], [2, -1, 0], atol=0.2)


def test_classes_that_come_late() -> None:
    X, _ = rows(3_000)
    y = X[:, :3].argmax(axis=1)
    stream = RowStream("multinomial", Rows(0.01), outputs=3, b=100)
    first = y[:200] < 2
    stream.partial_fit(X[:200][first], y[:200][first]).partial_fit(X[200:], y[200:])
    assert stream.coef.shape == (8, 3)
    assert np.mean((X @ stream.coef + stream.intercept).argmax(axis=1) == y) > 0.7


def test_weights_zero_are_no_rows_and_offsets_shift() -> None:
    X, y = rows(1_000)
    weight = (np.arange(1_000) % 3 > 0).astype(float)
    used = RowStream("squared", L1(0.05), b=50).partial_fit(X, y, weight)
    kept = weight > 0
    alone = RowStream("squared", L1(0.05), b=50).partial_fit(X[kept], y[kept])
    np.testing.assert_allclose(used.coef, alone.coef, atol=1e-12)
    three = np.full(1_000, 3.0)
    shifted = RowStream("squared", L1(0.05), b=50).partial_fit(X, y + 3.0, offset=three)
    plain = RowStream("squared", L1(0.05), b=50).partial_fit(X, y)
    np.testing.assert_allclose(shifted.coef, plain.coef, atol=1e-12)


def test_few_rows_and_a_small_first_chunk() -> None:
    X, y = rows(40)
    stream = RowStream("squared", L1(0.05), b=50).partial_fit(X, y)
    assert stream.cycles == 0
    assert stream.rows_waiting == 40
    np.testing.assert_array_equal(stream.coef, np.zeros(8))
    assert RowStream("squared", L1(0.05)).partial_fit(X[:1], y[:1]).rows_used == 1


def test_bad_input_is_named() -> None:
    X, y = rows(100)
    stream = RowStream("squared", L1(0.05))
    with pytest.raises(AttributeError, match="no rows have come yet"):
        _ = stream.coef
    stream.partial_fit(X, y)
    with pytest.raises(ValueError, match="X: has 7 columns, but earlier rows had 8"):
        stream.partial_fit(X[:, :7], y)
    with pytest.raises(ValueError, match="y:"):
        stream.partial_fit(X, np.stack([y, y], axis=1))
    with pytest.raises(ValueError, match="method: P-CCD needs all rows"):
        RowStream(method="P-CCD", penalty=L1(1.0))
    with pytest.raises(ValueError, match="b_small must be an integer >= 1"):
        RowStream(penalty=L1(1.0), b_small=0)
    with pytest.raises(ValueError, match="p must be a number in"):
        RowStream(penalty=L1(1.0), p=0.0)


def test_a_stream_that_diverges_says_so() -> None:
    X, y = rows(4_000)
    stream = RowStream("squared", L1(0.05), b=64, eta=100.0)
    with pytest.raises(FloatingPointError, match="the stream diverged: x is not finite"):
        fed(stream, X, y, [2_000])


def test_ctrl_c_waits_for_the_end_of_the_cycle_and_loses_nothing() -> None:
    X, y = rows(1_500)

    class Pressed(Forward):
        """A forward order, in whose fifth cycle Ctrl-C is pressed."""

        cycles = 0

        def turns(self, *arguments: Any) -> Any:
            self.cycles += 1
            if self.cycles == 5:
                signal.raise_signal(signal.SIGINT)
            return super().turns(*arguments)

    stream = RowStream("squared", L1(0.05), b=64, blocks=3, order=Pressed())
    with pytest.raises(KeyboardInterrupt):
        stream.partial_fit(X, y)
    assert stream.cycles == 5
    assert stream.rows_used + stream.rows_waiting == 1_500
    whole = RowStream("squared", L1(0.05), b=64, blocks=3).partial_fit(X, y)
    for other in (stream, whole):
        other.partial_fit(X[:1], y[:1])
    assert stream.cycles > 6
    np.testing.assert_array_equal(stream.coef, whole.coef)
