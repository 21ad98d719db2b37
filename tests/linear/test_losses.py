"""Every loss against its definition: derivatives, majorisers, conjugates, bounds, bad input."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch
from estimator_cases import data
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import TweedieRegressor

from cyclade import linear
from cyclade.linear import distributions, losses, penalties
from cyclade.linear.losses import Loss

PARAMETERS = {
    "huber": {"delta": 0.7}, "quantile": {"q": 0.3, "smoothing": 0.25}, "cauchy": {"scale": 0.8},
    "welsch": {"scale": 1.3}, "geman_mcclure": {"scale": 0.6}, "tukey": {"scale": 1.7},
    "tweedie": {"power": 1.4}, "negative_binomial": {"dispersion": 0.7},
}  # fmt: skip
ALL = [losses.get(name, **PARAMETERS.get(name, {})) for name in losses.BY_NAME]
FURTHER = [losses.get(name, **PARAMETERS.get(name, {})) for name in distributions.BY_NAME]
FURTHER += [distributions.Tweedie(1.0), distributions.Tweedie(2.0)]
CONVEX = [loss for loss in ALL if loss.convex]
ids = repr


def draw(loss: Loss, rng: np.random.Generator, n: int, spread: float = 2.0):
    """Targets and predictions that suit the loss."""
    z = spread * rng.standard_normal((n, 3) if loss.target == "classes" else n)
    if loss.target == "classes":
        return rng.integers(3, size=n), z
    if loss.target == "signs":
        return rng.choice([-1.0, 1.0], size=n), z
    counts, amounts = rng.poisson(2.0, size=n).astype(float), rng.gamma(2.0, size=n) + 0.01
    all_of = rng.standard_normal(n), counts, amounts, rng.random(n)
    return next(y for y in all_of if accepts(loss, y)), z


def accepts(loss: Loss, y: np.ndarray) -> bool:
    try:
        loss.check(y)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("loss", ALL + FURTHER, ids=ids)
def test_gradient_is_the_derivative_of_the_value(loss):
    rng = np.random.default_rng(0)
    y, z = draw(loss, rng, 200)
    step = 1e-6 * rng.standard_normal(z.shape)
    difference = loss.value(y, z + step) - loss.value(y, z - step)
    predicted = 2 * loss.gradient(y, z) * step
    predicted = predicted if z.ndim == 1 else predicted.sum(axis=1)
    np.testing.assert_allclose(difference, predicted, atol=1e-12, rtol=1e-5)


@pytest.mark.parametrize(
    "loss", [x for x in ALL + FURTHER if x.convex and x.target != "classes"], ids=ids
)
def test_curvature_of_a_convex_loss_is_its_second_derivative(loss):
    rng = np.random.default_rng(1)
    y, z = draw(loss, rng, 500)
    h = 1e-6
    second = (loss.gradient(y, z + h) - loss.gradient(y, z - h)) / (2 * h)
    smooth = loss.curvature(y, z + 2 * h) - loss.curvature(y, z - 2 * h)
    smooth = abs(smooth) < 0.01 * (1 + abs(second))  # leave out kinks of the derivative
    assert smooth.mean() > 0.95
    np.testing.assert_allclose(loss.curvature(y, z)[smooth], second[smooth], atol=1e-5, rtol=1e-5)
    assert (loss.curvature(y, z) <= loss.bound).all()


@pytest.mark.parametrize("loss", [x for x in ALL + FURTHER if not x.convex], ids=ids)
def test_second_derivatives_of_nonconvex_losses_have_their_sign(loss):
    rng = np.random.default_rng(8)
    y, z = draw(loss, rng, 500)
    second = loss.second_derivative(y, z)
    np.testing.assert_allclose(second, Loss.second_derivative(loss, y, z), atol=1e-4)
    assert (second < 0).any()
    assert (second <= loss.curvature(y, z)).all()


def test_curvature_of_the_multinomial_loss_dominates_its_hessian():
    rng = np.random.default_rng(2)
    loss = losses.Multinomial()
    y, z = draw(loss, rng, 200, spread=4.0)
    for p, w in zip(loss.mean(z), loss.curvature(y, z), strict=True):
        hessian = np.diag(p) - np.outer(p, p)
        assert np.linalg.eigvalsh(np.diag(w) - hessian).min() >= -1e-14
        assert np.linalg.eigvalsh(hessian).max() <= loss.bound + 1e-14


@pytest.mark.parametrize("loss", ALL, ids=ids)
def test_majorisers_lie_above_the_loss(loss):
    rng = np.random.default_rng(9)
    y, z = draw(loss, rng, 3000)
    spread = rng.choice([1e-4, 0.1, 1.0, 10.0], size=z.shape)
    to = z + spread * rng.standard_normal(z.shape)
    weight = loss.majoriser(y, z)
    assert (weight >= 0).all()
    if math.isinf(loss.bound):
        assert np.isinf(weight).all()
        return
    assert (weight <= loss.bound * (1 + 1e-12)).all()
    model = loss.gradient(y, z) * (to - z) + 0.5 * weight * (to - z) ** 2
    model = loss.value(y, z) + (model if z.ndim == 1 else model.sum(axis=1))
    value = loss.value(y, to)
    assert (value <= model + 1e-12 * (1 + abs(model))).all()
    if not loss.convex:  # the model that the solver uses is that one
        np.testing.assert_array_equal(weight, loss.curvature(y, z))


@pytest.mark.parametrize("loss", [x for x in ALL + FURTHER if x.bound < math.inf], ids=ids)
def test_the_bound_holds_and_is_attained(loss):
    rng = np.random.default_rng(3)
    y, z = draw(loss, rng, 2000)
    to = z + 1e-4 * rng.standard_normal(z.shape)
    change = loss.gradient(y, to) - loss.gradient(y, z)
    ratio = np.linalg.norm(change.reshape(len(y), -1), axis=1)
    ratio = ratio / np.linalg.norm((to - z).reshape(len(y), -1), axis=1)
    assert 0.9 * loss.bound < ratio.max() <= loss.bound * (1 + 1e-6)


@pytest.mark.parametrize("loss", [*CONVEX, losses.get("binomial")], ids=ids)
def test_fenchel_young(loss):
    rng = np.random.default_rng(4)
    y, z = draw(loss, rng, 300)
    u = loss.gradient(y, z)
    inner = (u * z).reshape(len(y), -1).sum(axis=1)
    np.testing.assert_allclose(loss.value(y, z) + loss.conjugate(y, u), inner, atol=1e-10)
    other = z + rng.standard_normal(z.shape)  # and an inequality elsewhere
    inner = (u * other).reshape(len(y), -1).sum(axis=1)
    assert (loss.value(y, other) + loss.conjugate(y, u) >= inner - 1e-10).all()
    scaled = loss.conjugate(y, 0.3 * u)  # dual points are shrunk towards 0: the domain is a star
    assert np.isfinite(scaled).all()


@pytest.mark.parametrize(
    ("loss", "y", "u"),
    [
        (losses.Huber(1.0), 0.0, 1.1),
        (losses.Quantile(0.3), 0.0, 0.8),
        (losses.Logistic(), 1.0, 0.2),
        (losses.Logistic(), 1.0, -1.2),
        (losses.SquaredHinge(), -1.0, -0.1),
        (losses.Poisson(), 1.0, -1.1),
        (losses.Gamma(), 1.0, 1.1),
        (distributions.Binomial(), 0.5, 0.6),
    ],
    ids=repr,
)
def test_conjugates_are_infinite_outside_their_domain(loss, y, u):
    assert loss.conjugate(np.array([y]), np.array([u])) == np.inf


def test_the_multinomial_conjugate_is_infinite_outside_the_simplex():
    value = losses.Multinomial().conjugate(np.array([0, 0]), np.array([[0.1, 0.0], [-1.2, 1.2]]))
    assert (value == np.inf).all()


@pytest.mark.parametrize("loss", ALL, ids=ids)
def test_far_away_and_in_float32_nothing_breaks(loss):
    rng = np.random.default_rng(5)
    y, z = draw(loss, rng, 50)
    for dtype in (np.float32, np.float64):
        target = y if loss.target == "classes" else y.astype(dtype)
        far = (z * 500).astype(dtype)
        for method in (loss.value, loss.gradient, loss.curvature):
            assert method(target, far).dtype == dtype
            assert not np.isnan(method(target, far)).any()
    assert loss.value(y, z).shape == (50,)
    assert loss.gradient(y, z).shape == loss.curvature(y, z).shape == z.shape


@pytest.mark.parametrize("loss", [x for x in ALL if x.target == "real"], ids=ids)
def test_several_outputs_add_up(loss):
    rng = np.random.default_rng(6)
    y, z = draw(loss, rng, 60)
    table_y, table_z = y.reshape(20, 3), z.reshape(20, 3)
    np.testing.assert_allclose(
        loss.value(table_y, table_z), loss.value(y, z).reshape(20, 3).sum(axis=1)
    )
    np.testing.assert_array_equal(loss.gradient(table_y, table_z).ravel(), loss.gradient(y, z))


@pytest.mark.parametrize("loss", ALL, ids=ids)
def test_losses_are_values(loss):
    assert pickle.loads(pickle.dumps(loss)) == loss
    assert eval(repr(loss), vars(losses)) == loss
    assert losses.get(loss) is loss


@pytest.mark.parametrize("loss", [x for x in ALL if x.target != "classes"], ids=ids)
def test_torch_differentiates_the_value_twice(loss):
    y, z = draw(loss, np.random.default_rng(8), 240)
    z *= np.repeat([0.0, 1e-3, 1.0, 25.0], 60)
    if loss.target == "real" and accepts(loss, 0.0 * y):
        y[:60] = 0.0  # where |u| would have no derivative
    targets, at = torch.from_numpy(y), torch.from_numpy(z).requires_grad_()
    value = loss.value(targets, at)
    np.testing.assert_allclose(value.detach(), loss.value(y, z), rtol=1e-12, atol=1e-300)
    (first,) = torch.autograd.grad(value.sum(), at, create_graph=True)
    scale = np.maximum(1.0, np.abs(z))
    off = abs(first.detach().numpy() - loss.gradient(y, z))
    assert (off <= 1e-10 * abs(loss.gradient(y, z)) + 1e-12 * scale).all()
    (second,) = torch.autograd.grad(first.sum(), at)
    np.testing.assert_allclose(second, loss.second_derivative(y, z), rtol=1e-8, atol=1e-12)


ROBUST = [losses.Cauchy, losses.Welsch, losses.GemanMcClure, losses.Tukey]


@pytest.mark.parametrize("kind", ROBUST)
def test_default_scales_are_95_percent_efficient(kind):
    u = np.linspace(-10, 10, 20_001)
    density = np.exp(-(u**2) / 2)
    density /= density.sum()
    grad_z, second = kind().gradient(0.0, u), kind().second_derivative(0.0, u)
    efficiency = np.sum(second * density) ** 2 / np.sum(grad_z**2 * density)
    assert efficiency == pytest.approx(0.95, abs=1e-4)


@pytest.mark.parametrize("loss", [kind(1.3) for kind in ROBUST], ids=ids)
def test_robust_losses_start_as_least_squares_and_bend_less_than_it(loss):
    assert loss.value(0.0, np.array([1e-3]))[0] == pytest.approx(0.5e-6, rel=1e-5)
    second = loss.second_derivative(0.0, np.linspace(-9, 9, 9001))
    assert second.max() == 1.0
    assert second.min() > -1.0
    far = loss.value(0.0, np.array([1e3, 2e3]))
    if not isinstance(loss, losses.Cauchy):  # which grows for ever, as a logarithm
        assert far[0] == pytest.approx(far[1], rel=1e-5)


def test_one_loss_is_quadratic():
    assert [type(loss) for loss in ALL if loss.quadratic] == [losses.Squared]
    assert not losses.get(Half()).quadratic


def test_problems_have_the_same_losses_and_no_others():
    from cyclade import problems

    for name in ("GemanMcClure", "Logistic", "Loss", "Squared", "Tukey", "Welsch"):
        assert getattr(problems, name) is getattr(losses, name)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: losses.Huber(0.0), "Huber: delta must be a finite number > 0, got 0.0"),
        (lambda: losses.Cauchy(-1), "Cauchy: scale must be a finite number > 0, got -1"),
        (lambda: losses.Tukey("a"), "Tukey: scale must be a finite number > 0, got 'a'"),
        (lambda: losses.Quantile(1.0), "q must be strictly between 0 and 1"),
        (lambda: losses.Quantile(smoothing=np.inf), "smoothing must be a finite number > 0"),
        (lambda: distributions.Tweedie(3.0), "Tweedie: power must be between 1 and 2"),
        (lambda: losses.get("hubber"), r"there is no 'hubber'; the names .*you mean 'huber'\?"),
        (lambda: losses.get(losses.Huber(), delta=1), "delta can only be given with a loss by"),
        (lambda: losses.get(losses.Huber), r"give an object, Huber\(...\), not the class"),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        (losses.Squared(), [np.nan], "Squared: y must hold finite numbers"),
        (losses.Logistic(), [0.0, 1.0], "Logistic: y must hold labels -1 and 1"),
        (losses.SquaredHinge(), [2.0], "SquaredHinge: y must hold labels -1 and 1"),
        (losses.Multinomial(), [0.5], "Multinomial: y must hold class codes"),
        (losses.Poisson(), [-1.0], "Poisson: y must hold finite numbers >= 0"),
        (losses.Gamma(), [0.0], "Gamma: y must hold finite numbers > 0"),
        (distributions.Tweedie(), [-1.0], "Tweedie: y must hold finite numbers >= 0"),
        (distributions.InverseGaussian(), [0.0], "InverseGaussian: y must hold .* > 0"),
        (distributions.Binomial(), [2.0], "Binomial: y must hold .* between 0 and 1"),
        (distributions.NegativeBinomial(), [-1.0], "NegativeBinomial: y must hold .* >= 0"),
    ],
    ids=repr,
)
def test_bad_targets_are_named(loss, y, message):
    with pytest.raises(ValueError, match=message):
        loss.check(np.array(y))


class Half:
    """A loss by someone who has not heard of the base class."""

    bound = 1.0

    def value(self, y, z):
        return 0.5 * (z - y) ** 2

    def gradient(self, y, z):
        return z - y


def test_a_loss_without_the_base_class_gets_the_defaults():
    loss = losses.get(Half())
    assert isinstance(loss, Loss)
    assert loss.convex
    assert not hasattr(loss, "conjugate")
    np.testing.assert_array_equal(loss.curvature(np.zeros(2), np.ones(2)), np.ones(2))
    assert losses.get(loss) is loss
    assert pickle.loads(pickle.dumps(loss)).bound == 1.0


def test_what_a_written_loss_lacks_is_named():
    class Valued:
        def value(self, y, z):
            return z

    class Derived(Loss):
        def gradient(self, y, z):
            return z

    class Curved(Half):
        bound = math.inf

    with pytest.raises(ValueError, match=r"Valued lacks gradient\(y, z\)"):
        losses.get(Valued())
    with pytest.raises(ValueError, match=r"Derived lacks value\(y, z\)"):
        losses.get(Derived())
    with pytest.raises(ValueError, match=r"object lacks value and gradient\(y, z\)"):
        losses.get(object())
    with pytest.raises(ValueError, match=r"lacks curvature\(y, z\), or a finite bound"):
        losses.get(Curved())


# Further distributions and links.


@pytest.mark.parametrize("loss", FURTHER, ids=ids)
@pytest.mark.parametrize("z", [-700.0, -60.0, -1e-9, 0.0, 5.0])
def test_far_predictions_stay_finite(loss, z):
    y, at = np.ones(1), np.array([z])
    for found in (loss.value(y, at), loss.gradient(y, at), loss.curvature(y, at)):
        growing = z < -60.0 and type(loss).__name__ in ("Tweedie", "InverseGaussian")
        assert growing or np.isfinite(found).all()


@settings(max_examples=15, deadline=None)
@given(which=st.integers(0, len(FURTHER) - 1), seed=st.integers(0, 999), share=st.floats(0.02, 0.5))
def test_fits_are_stationary(which, seed, share):
    loss, rng = FURTHER[which], np.random.default_rng(seed)
    X, (y, _) = rng.standard_normal((120, 6)), draw(loss, rng, 120)
    null = linear.solve(X, y, loss, alpha=1e3)
    lam = share * np.abs(X.T @ loss.gradient(y, np.full(120, null.intercept))).max() / 120
    fit = linear.solve(X, y, loss, alpha=lam, tol=1e-7)
    slopes = loss.gradient(y, X @ fit.coef + fit.intercept)
    g = X.T @ slopes / 120
    far = [penalties.L1(lam).distance(x, gj, 0) for x, gj in zip(fit.coef, g, strict=True)]
    assert fit.certificate.reached
    assert fit.coef.any()
    assert max(far) <= 1e-3 * lam
    assert abs(slopes.mean()) <= 1e-6


@pytest.mark.parametrize("power", [1.0, 1.3, 1.9, 2.0, 3.0])
def test_powers_agree_with_scikit_learn(power):
    loss = distributions.Tweedie(power) if power < 3.0 else distributions.InverseGaussian()
    X, y = data("amounts", n=300)
    y[::5] *= power >= 2.0
    peer = TweedieRegressor(power=power, alpha=0.1, link="log", tol=1e-8, max_iter=5000).fit(X, y)
    own = linear.solve(X, y, loss, penalties.ElasticNet(0.1, 0.0), tol=1e-8)
    np.testing.assert_allclose(own.coef, peer.coef_, atol=2e-5)


def test_estimators_take_them_by_name():
    X, y = data("amounts")
    assert (linear.GeneralizedLinear("tweedie", "l1").fit(X, y).predict(X) > 0).all()
    with pytest.raises(ValueError, match="did you mean 'tweedie'"):
        linear.GeneralizedLinear("tweedy").fit(X, y)
    X, y = data("two", n=200)
    for name in ("probit", "cloglog"):
        model = linear.GeneralizedLinearClassifier(name, "mcp", alpha=0.05).fit(X, y)
        assert model.score(X, y) > 0.6
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
