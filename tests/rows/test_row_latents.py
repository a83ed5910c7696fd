"""A latent variable of each row is said before sampling; groups and coefficients are not."""

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_sgmcmc.compile.backend
from pymc_sgmcmc import GMC, SGNHT
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.rows.latents import ROWS_PER_ENTRY, rows_per_entry, warn_about_row_latents
from tests.helpers import INTERPRETED

N = 808
Y = np.random.default_rng(1).poisson(2.0, size=N)


def poisson(effects):
    """Overdispersed counts: `effects` (N,) of a latent variable e."""
    with pm.Model() as model:
        a, s = pm.Normal("a"), pm.HalfNormal("s")
        pm.Poisson("y", pm.math.exp(a + s * effects()), observed=Y)
    return model


ROWS = np.arange(N)
SHUFFLED = np.random.default_rng(2).permutation(N)
LATENT = {
    "of each row": (lambda: pm.Normal("e", shape=N), 1.0),
    "indexed": (lambda: pm.Normal("e", shape=N)[SHUFFLED], 1.0),
    "two rows each": (lambda: pm.Normal("e", shape=N // 2)[ROWS // 2], 2.0),
    "transformed": (lambda: pm.math.log(pm.Gamma("e", 2, 2, shape=N)), 1.0),
    "a matrix": (lambda: pm.Normal("e", shape=(N, 2)).sum(axis=1), 1.0),
    "more than there are rows": (lambda: pm.Normal("e", shape=2 * N)[SHUFFLED], 0.5),
}
HARMLESS = {
    "groups": lambda: pm.Normal("e", shape=100)[ROWS % 100],
    "many groups of six rows": lambda: pm.Normal("e", shape=N // 6 + 1)[ROWS // 6],
    "more coefficients than rows": lambda: pt.dot(X, pm.Normal("e", shape=N + 50)),
    "groups of four rows": lambda: pm.Normal("e", shape=N // 4)[ROWS // 4],
}
X = np.random.default_rng(3).normal(size=(N, N + 50)) / N


@pytest.fixture(autouse=True)
def nothing_is_compiled(monkeypatch):
    def function(self, inputs, outputs):
        raise RuntimeError("compiles")

    monkeypatch.setattr(pymc_sgmcmc.compile.backend.Backend, "function", function)


def target_of(model):
    return Target(model, model.continuous_value_vars, backend=INTERPRETED)


@pytest.mark.parametrize("way", LATENT)
def test_a_latent_variable_of_the_rows_is_warned_of(way):
    effects, rows = LATENT[way]
    target = target_of(poisson(effects))
    with pytest.warns(UserWarning, match=r"'e' has .* rows of 'y' each.*integrate it out.*Gibbs"):
        warn_about_row_latents(target.model_terms, target.vars)
    (term,) = [target.terms[rv] for rv in target.model.observed_RVs]
    assert rows_per_entry(term, target.vars[-1], target.model_terms.point) == pytest.approx(rows)


@pytest.mark.parametrize("way", HARMLESS)
def test_groups_and_coefficients_are_not(way):
    target = target_of(poisson(HARMLESS[way]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_about_row_latents(target.model_terms, target.vars)
    (term,) = [target.terms[rv] for rv in target.model.observed_RVs]
    assert rows_per_entry(term, target.vars[-1], target.model_terms.point) > ROWS_PER_ENTRY


def test_few_rows_are_left_alone():
    """Eight schools, and whatever has a dense metric."""
    with pm.Model() as model:
        theta = pm.Normal("theta", pm.Normal("mu"), pm.HalfNormal("tau"), shape=150)
        pm.Normal("y", theta, 1.0, observed=np.zeros(150))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        target = target_of(model)
        warn_about_row_latents(target.model_terms, target.vars)


@pytest.mark.compiled
def test_it_is_said_before_anything_is_compiled_and_not_of_another_step_method():
    with poisson(LATENT["of each row"][0]) as model:
        with (
            pytest.warns(UserWarning, match="latent variable of the rows"),
            pytest.raises(RuntimeError, match="compiles"),
        ):
            SGNHT()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with pytest.raises(RuntimeError, match="compiles"):
                SGNHT([model["a"], model["s"]])
            with pytest.raises(RuntimeError, match="compiles"):
                GMC(step_size=0.1)  # which accepts or rejects, as NUTS does
    assert not [w for w in said if "latent variable of the rows" in str(w.message)]
