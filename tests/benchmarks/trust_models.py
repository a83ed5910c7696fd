"""Posteriors whose sds are known, for the benchmark of what tells right runs from wrong ones."""

from dataclasses import dataclass

import numpy as np
import pymc as pm

from tests.benchmarks.logistic import labels

N_ROWS = 10_000
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
PRIOR_SCALE = 5.0
MODES = np.array([-4.0, 4.0])


@dataclass(frozen=True)
class Problem:
    """A model and the true sds of some of its coordinates.

    Attributes
    ----------
    model : pymc.Model
    sd : array, shape (k,)
        Of the coordinates of `names`, one after the other.
    names : tuple of str
    logs : tuple of str
        Those of `names` whose logarithm is looked at.
    covariance : array, shape (d, d), or None
        Of all parameters, where it is needed as a metric.
    """

    model: pm.Model
    sd: np.ndarray
    names: tuple[str, ...] = ("q",)
    logs: tuple[str, ...] = ()
    covariance: np.ndarray | None = None

    def coordinates(self, posterior):
        """The draws (chain, draw, k)."""
        parts = []
        for name in self.names:
            values = posterior[name].values
            values = values.reshape(*values.shape[:2], -1)
            parts.append(np.log(values) if name in self.logs else values)
        return np.concatenate(parts, axis=2)


def gaussian(d, correlation=0.0, scales=1.0):
    """A normal prior alone; neighbours are correlated."""
    scales = np.broadcast_to(scales, d)
    distance = np.abs(np.subtract.outer(np.arange(d), np.arange(d)))
    covariance = np.outer(scales, scales) * correlation**distance
    with pm.Model() as model:
        if correlation:
            pm.MvNormal("q", np.zeros(d), cov=covariance)
        else:
            pm.Normal("q", 0, scales, shape=d)
    return Problem(model, scales, covariance=covariance)


def student(d=5):
    with pm.Model() as model:
        pm.StudentT("q", nu=5, mu=0, sigma=1, shape=d)
    return Problem(model, np.full(d, np.sqrt(5 / 3)))


def rounded_laplace(width, d=5):
    """U is about the sum of |q|: its curvature is 1 / `width` in the middle, and 0 far out."""
    with pm.Model() as model:
        scaled = pm.Flat("q", shape=d) / width
        pm.Potential("potential", -width * pm.math.sum(pm.math.logaddexp(scaled, -scaled)))
    grid = np.linspace(-40.0, 40.0, 400_001)
    weights = np.exp(-width * np.logaddexp(grid / width, -grid / width))
    return Problem(model, np.full(d, np.sqrt(weights @ grid**2 / weights.sum())))


def features(n, d, rng):
    """Columns of different scales, with correlated neighbours."""
    x = rng.standard_normal((n, d))
    x[:, 1:] += 0.5 * x[:, :-1]
    return x * np.geomspace(0.5, 2.0, d)


def linear(n=2000, d=5):
    """A regression with known noise: its posterior is normal."""
    rng = np.random.default_rng(1)
    x = features(n, d, rng)
    y = x @ rng.standard_normal(d) + rng.standard_normal(n)
    with pm.Model() as model:
        q = pm.Normal("q", 0, 1, shape=d)
        pm.Normal("y", pm.Data("x", x) @ q, 1.0, observed=y)
    covariance = np.linalg.inv(np.eye(d) + x.T @ x)
    return Problem(model, np.sqrt(np.diag(covariance)), covariance=covariance)


def collinear(condition=1e8, n=1000, d=5):
    """A regression whose posterior covariance has this condition number."""
    rng = np.random.default_rng(2)
    left, _ = np.linalg.qr(rng.standard_normal((n, d)))
    right, _ = np.linalg.qr(rng.standard_normal((d, d)))
    x = left * np.geomspace(1.0, condition**-0.5, d) * 1e4 @ right
    y = x @ np.ones(d) + rng.standard_normal(n)
    with pm.Model() as model:
        q = pm.Normal("q", 0, 100, shape=d)
        pm.Normal("y", pm.Data("x", x) @ q, 1.0, observed=y)
    covariance = np.linalg.inv(np.eye(d) / 100**2 + x.T @ x)
    return Problem(model, np.sqrt(np.diag(covariance)), covariance=covariance)


def inverse_hessian(x, y, mean, weight):
    """At the mode of a regression with priors N(0, 1): `weight` is the variance of y."""
    mode = np.zeros(x.shape[1])
    for _ in range(50):
        mu = mean(x @ mode)
        H = np.eye(len(mode)) + (x.T * weight(mu)) @ x
        mode = mode - np.linalg.solve(H, mode + x.T @ (mu - y))
    return np.linalg.inv(H)


def logistic(n=N_ROWS, d=5):
    rng = np.random.default_rng(3)
    x = features(n, d, rng)
    y = labels(x, 0.5 * rng.standard_normal(d), rng).astype(int)
    with pm.Model() as model:
        q = pm.Normal("q", 0, 1, shape=d)
        pm.Bernoulli("y", logit_p=pm.Data("x", x) @ q, observed=y)
    covariance = inverse_hessian(x, y, lambda t: 1 / (1 + np.exp(-t)), lambda mu: mu * (1 - mu))
    return Problem(model, np.sqrt(np.diag(covariance)), covariance=covariance)


def poisson(n=N_ROWS, d=5):
    rng = np.random.default_rng(4)
    x = features(n, d, rng) / 4
    y = rng.poisson(np.exp(x @ rng.standard_normal(d) * 0.5))
    with pm.Model() as model:
        q = pm.Normal("q", 0, 1, shape=d)
        pm.Poisson("y", pm.math.exp(pm.Data("x", x) @ q), observed=y)
    covariance = inverse_hessian(x, y, np.exp, lambda mu: mu)
    return Problem(model, np.sqrt(np.diag(covariance)), covariance=covariance)


def means(noises, n=2000, batch=20, sort=False):
    """Means of d columns of which each has the precision 1.

    A batch's plain gradient has the variances `noises` (d,), where rows are drawn independently.
    """
    noises = np.asarray(noises, dtype=float)
    rng = np.random.default_rng(5)
    y = rng.standard_normal((n, len(noises)))
    y = (y - y.mean(axis=0)) / y.std(axis=0) * np.sqrt(noises * batch)
    if sort:
        y = np.sort(y, axis=0)
    with pm.Model() as model:
        q = pm.Normal("q", 0, np.sqrt(10), shape=len(noises))
        pm.Normal("y", q, np.sqrt(n / 0.9), observed=pm.Data("data", y / 0.9))
    return Problem(model, np.ones(len(noises)))


def eight_schools(centred=False):
    """The hierarchy of Rubin (1981); moments by quadrature over log tau."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, PRIOR_SCALE)
        tau = pm.HalfCauchy("tau", PRIOR_SCALE)
        if centred:
            theta = pm.Normal("theta", mu, tau, shape=8)
        else:
            theta = mu + tau * pm.Normal("theta", 0, 1, shape=8)
        pm.Normal("y", theta, ERRORS, observed=EFFECTS)
    grid = np.linspace(-12.0, 7.0, 4001)
    logs, moments = [], []
    for t in np.exp(grid):  # given tau, (mu, theta) are normal
        A = np.column_stack([np.ones(8), np.eye(8) * (1.0 if centred else t)])
        P = np.diag([PRIOR_SCALE**-2.0, *np.ones(8)])
        if centred:
            A[:, 0] = 0.0
            P[0, 0] += 8 / t**2
            P[0, 1:] = P[1:, 0] = -1 / t**2
            P[1:, 1:] = np.eye(8) / t**2
        covariance = np.linalg.inv(P + (A.T / ERRORS**2) @ A)
        mean = covariance @ (A.T @ (EFFECTS / ERRORS**2))
        V = np.diag(ERRORS**2 + t**2) + PRIOR_SCALE**2
        _, determinant = np.linalg.slogdet(V)
        prior = np.log(t) - np.log1p((t / PRIOR_SCALE) ** 2)
        logs.append(prior - determinant / 2 - EFFECTS @ np.linalg.solve(V, EFFECTS) / 2)
        moments.append((mean, np.diag(covariance) + mean**2))
    weights = np.exp(np.array(logs) - max(logs))
    weights /= weights.sum()
    first, second = (np.tensordot(weights, np.array(part), 1) for part in zip(*moments))
    of_log = weights @ grid**2 - (weights @ grid) ** 2
    sd = np.sqrt(np.append(second - first**2, of_log))
    return Problem(model, sd, names=("mu", "theta", "tau"), logs=("tau",))


def funnel(d=6):
    """Neal's (2003), without a word of its scale: only its neck's logarithm, v, is compared."""
    with pm.Model() as model:
        v = pm.Normal("v", 0, 3)
        x = pm.Flat("x", shape=d - 1)
        pm.Potential("prior_of_x", pm.logp(pm.Normal.dist(0, pm.math.exp(v / 2)), x))
    return Problem(model, np.array([3.0]), names=("v",))


def two_modes():
    """Two normal modes of equal weight, 8 sds apart."""
    with pm.Model() as model:
        pm.NormalMixture("q", w=[0.5, 0.5], mu=MODES, sigma=[1.0, 1.0])
    return Problem(model, np.array([np.sqrt(1 + MODES[1] ** 2)]))
