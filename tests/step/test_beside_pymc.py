"""Step methods of PyMC, or a second one of ours, for the other variables of a model."""

import warnings
from typing import ClassVar

import arviz as az
import numpy as np
import pymc as pm
import pytest
from pymc.blocking import RaveledVars
from pymc.pytensorf import make_shared_replacements
from pymc.step_methods.arraystep import PopulationArrayStepShared
from scipy.stats import multivariate_normal

from pymc_sgmcmc import SGHMC, SGLD, SGNHT, running_sums
from tests.cases import TYPICAL, draws, regression, sample
from tests.helpers import score
from tests.tiers import statistics_but

N, D = 12, 2
X = np.random.default_rng(40).normal(size=(N, D)) * [1.0, 0.4]
Y = X @ [1.0, -1.0] + 0.7 + np.random.default_rng(41).normal(size=N)
SHIFTS = np.array([0.0, 0.6, 1.2])


def linear_model(other):
    """y ~ N(X a + shift, 1), a ~ N(0, 1): the shift is the variable of another step method."""
    with pm.Model() as model:
        a = pm.Normal("a", 0, 1, shape=D)
        if other == "continuous":
            shift = pm.Normal("b", 0, 1)
        elif other == "binary":
            # 1.0: the C code of PyMC's own step methods loses an integer beside a matrix product.
            shift = 1.0 * pm.Bernoulli("b", 0.5)
        else:
            shift = pm.math.stack(list(SHIFTS))[pm.Categorical("b", np.ones(3) / 3)]
        pm.Normal("y", X @ a + shift, 1.0, observed=Y)
    return model


def linear_posterior():
    """Mean and covariance of (a, b) for a continuous shift b ~ N(0, 1)."""
    design = np.column_stack([X, np.ones(N)])
    covariance = np.linalg.inv(design.T @ design + np.eye(D + 1))
    return covariance @ design.T @ Y, covariance


def shift_probabilities(shifts):
    """P(shift given y), with a marginalised."""
    evidence = [multivariate_normal.logpdf(Y, np.full(N, s), X @ X.T + np.eye(N)) for s in shifts]
    odds = np.exp(np.array(evidence) - max(evidence))
    return odds / odds.sum()


def ours(sampler, name, **kwargs):
    settings = {"step_size": 0.25, "steps_per_draw": 15} | kwargs
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This step method does not sample")
        return sampler([pm.modelcontext(None)[name]], **settings)


def check_mean(values, expected, label):
    """The mean of (chain, draw) values, to 4.5 Monte Carlo errors and better than 0.1 sd."""
    spread = values.std()
    error = spread / np.sqrt(float(az.ess(values)))
    score(values.mean(), expected, error * 4.5 / 4, 0.1 * spread, label)


CONTINUOUS = {
    "Metropolis": lambda b: pm.Metropolis([b]),
    "Slice": lambda b: pm.Slice([b]),
    "HamiltonianMC": lambda b: pm.HamiltonianMC([b]),
    "NUTS": lambda b: pm.NUTS([b]),
    "SGNHT": lambda b: ours(SGNHT, "b", diffusion=2.0, thermal_mass=30.0),
}


@pytest.mark.statistics
@pytest.mark.parametrize("other", CONTINUOUS)
def test_the_joint_posterior_with_continuous_variables(other):
    with linear_model("continuous") as model:
        steps = [ours(SGHMC, "a", friction=2.0), CONTINUOUS[other](model["b"])]
        idata = sample(steps, draws=2500, tune=500, chains=4)
    mean, covariance = linear_posterior()
    values = np.concatenate([draws(idata, "a"), draws(idata, "b")[..., None]], axis=-1)
    for i in range(D + 1):
        check_mean(values[..., i], mean[i], f"mean {i}")
        for j in range(i + 1):
            product = (values[..., i] - mean[i]) * (values[..., j] - mean[j])
            check_mean(product, covariance[i, j], f"covariance {i}, {j}")


@pytest.mark.statistics
@pytest.mark.parametrize(
    "kind, other, shifts",
    [
        ("binary", pm.BinaryGibbsMetropolis, [0, 1]),
        ("binary", pm.BinaryMetropolis, [0, 1]),
        ("categorical", pm.CategoricalGibbsMetropolis, SHIFTS),
        ("binary", pm.Metropolis, [0, 1]),
    ],
)
def test_the_joint_posterior_with_discrete_variables(kind, other, shifts):
    with linear_model(kind) as model:
        steps = [ours(SGHMC, "a", friction=2.0), other([model["b"]])]
        idata = sample(steps, draws=4000, tune=500, chains=4)
    for k, probability in enumerate(shift_probabilities(shifts)):
        check_mean((draws(idata, "b") == k).astype(float), probability, f"P(b = {k})")


@pytest.mark.statistics
@pytest.mark.parametrize("mp_ctx", ["fork", "spawn"])  # what "forkserver" does is of both
def test_compound_steps_in_processes(mp_ctx):
    with linear_model("continuous") as model:
        steps = [ours(SGLD, "a", step_size=0.01), pm.Metropolis([model["b"]])]
        # Metropolis keeps what it tuned in this process: the workers first.
        parallel = sample(steps, cores=2, mp_ctx=mp_ctx)
        sequential = sample(steps)
    for name in ("a", "b"):
        np.testing.assert_array_equal(draws(parallel, name), draws(sequential, name))


class FromPrior(PopulationArrayStepShared):
    """A population sampler of b alone: those of PyMC take the points of all variables."""

    name = "from_prior"
    stats_dtypes_shapes: ClassVar[dict] = {"others": (int, [])}

    def __init__(self, vars, model, blocked=True, rng=None):
        super().__init__(
            vars, make_shared_replacements(model.initial_point(), vars, model), rng=rng
        )

    def astep(self, q0):
        return RaveledVars(self.rng.normal(size=1), q0.point_map_info), [
            {"others": len(self.other_chains)}
        ]


@pytest.mark.compiled
@pytest.mark.parametrize("cores", statistics_but([1], [1, 2]))
def test_population_sampling(cores):
    """PyMC copies the step method for each chain, shallowly, and moves all chains in turn."""
    with linear_model("continuous") as model, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This step method does not sample")
        step = TYPICAL.step(vars=[model["a"]])
        steps = [step, FromPrior([model.rvs_to_values[model["b"]]], model=model)]
        idata, again = (sample(steps, chains=3, cores=cores, draws=40) for _ in range(2))
    values = draws(idata, "a")
    assert (idata.sample_stats.others == 2).all()
    assert np.isfinite(values).all() and (np.abs(np.diff(values, axis=1)) > 0).all()
    assert (running_sums(idata).steps == 400).all()
    for chain in range(3):
        assert (values[chain] != values[chain - 1]).all()
    np.testing.assert_array_equal(values, draws(again, "a"))


@pytest.mark.compiled
def test_arguments_of_pm_sample():
    with regression() as model:
        double = pm.Deterministic("double", 2 * model["beta"])
        step = TYPICAL.step(step_size=1e-9)
        start = {"beta": np.array([0.5, -0.25])}
        idata = sample(step, discard_tuned_samples=False, initvals=start, var_names=["double"])
        assert list(idata.posterior) == [double.name]
        assert idata.warmup_posterior.sizes["draw"] == 5
        assert "minibatch_logp" in idata.warmup_sample_stats
        np.testing.assert_allclose(
            idata.warmup_posterior["double"][:, 0], [[1.0, -0.5]] * 2, atol=1e-3
        )
        each = [{"beta": np.array([0.5, 0.5])}, {"beta": np.array([-0.5, 0.5])}]
        idata = sample(step, initvals=each, tune=0)
        np.testing.assert_allclose(draws(idata)[:, 0, 0], [0.5, -0.5], atol=1e-3)


@pytest.mark.statistics
def test_constrained_variables_start_apart_and_in_their_support():
    with pm.Model():
        sigma = pm.HalfNormal("sigma")
        share = pm.Beta("share", 2, 2)
        weights = pm.Dirichlet("weights", np.ones(3))
        ordered = pm.Normal(
            "ordered", [-1, 0, 1], 1, transform=pm.distributions.transforms.ordered,
            initval=[-1.0, 0.0, 1.0],
        )  # fmt: skip
        pm.Normal("y", share + weights @ ordered, sigma, observed=Y)
        step = TYPICAL.step(step_size=1e-10)
        idata = sample(step, tune=0, draws=5, chains=4)
        given = {"sigma": 2.0, "share": 0.25, "weights": np.array([0.2, 0.3, 0.5])}
        told = sample(step, tune=0, draws=5, chains=4, initvals=given)
    for name in ("sigma", "share", "weights"):
        values = draws(idata, name)[:, 0]
        assert np.ptp(values, axis=0).min() > 1e-2, f"all chains start at one {name}"
        expected = np.broadcast_to(given[name], values.shape)
        np.testing.assert_allclose(draws(told, name)[:, 0], expected, atol=1e-3)
    np.testing.assert_allclose(draws(idata, "weights").sum(axis=-1), 1)
    assert (draws(idata, "sigma") > 0).all()
    np.testing.assert_allclose(draws(idata, "ordered")[:, 0], [[-1, 0, 1]] * 4, atol=1e-3)
