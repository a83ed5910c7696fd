"""After register(), pm.sample gives models with pm.Minibatch to SGNHT, and no other model."""

import numpy as np
import pymc as pm
import pytest
from pymc.step_methods import STEP_METHODS

from pymc_sgmcmc import SGNHT, full_data, register
from pymc_sgmcmc.samplers.registration import AssignedSGNHT
from tests.cases import draws, sample
from tests.rows.test_minibatch import regression
from tests.tiers import statistics_but

SETTINGS = {"step_size": 0.01, "diffusion": 3.0}


@pytest.fixture(autouse=True)
def registered():
    before = list(STEP_METHODS)
    register()
    register()
    assert len(STEP_METHODS) == len(before) + 1
    yield
    STEP_METHODS[:] = before


def by_sgnht(idata):
    return "minibatch_logp" in idata.sample_stats


@pytest.mark.compiled
@pytest.mark.parametrize("inside", statistics_but([True], [True, False]))
def test_a_minibatch_model_is_given_to_sgnht(inside):
    model = regression(True)
    with model:
        expected = sample(SGNHT(**SETTINGS))
        inner = sample(None, sgnht=SETTINGS)
    idata = inner if inside else sample(None, sgnht=SETTINGS, model=model)
    np.testing.assert_array_equal(draws(idata), draws(expected))


@pytest.mark.statistics
@pytest.mark.parametrize("mode", ["FAST_COMPILE", "NUMBA"])
def test_compile_kwargs_reach_it(mode):
    with regression(True):
        reference = sample(None, sgnht=SETTINGS)
        idata = sample(None, sgnht=SETTINGS, compile_kwargs={"mode": mode})
    np.testing.assert_allclose(draws(idata), draws(reference), atol=1e-8)


@pytest.mark.compiled
def test_initvals_reach_it():
    with regression(True):
        slow = {"step_size": 1e-9}
        idata = sample(None, sgnht=slow, tune=0, draws=2, initvals={"sigma": 2.5})
    np.testing.assert_allclose(draws(idata, "sigma"), 2.5, atol=1e-3)


@pytest.mark.statistics
def test_other_models_are_not():
    model = regression(True)
    with regression(False):
        assert not by_sgnht(sample(None))
    with model:
        assert not by_sgnht(sample(None, model=full_data(model)))
    with full_data(model):
        assert by_sgnht(sample(None, model=model, sgnht=SETTINGS))


@pytest.mark.statistics
@pytest.mark.compiled
def test_without_settings_it_tunes_itself():
    with regression(True):
        stats = sample(None).sample_stats
    assert "predicted_bias" in stats and (stats.batch_size > 0).all()


@pytest.mark.compiled
def test_discrete_variables_stay_with_pymc_and_are_warned_of():
    with pm.Model():
        mu, z = pm.Normal("mu"), pm.Bernoulli("z", 0.5)
        y = pm.Minibatch(np.zeros(8), batch_size=4)
        pm.Normal("obs", mu + 1.0 * z, observed=y, total_size=8)
        with pytest.warns(UserWarning, match=r"not sample \['z'\].*wrong posterior"):
            assert by_sgnht(sample(None, sgnht=SETTINGS))


def test_a_variable_whose_model_is_nowhere_is_not_assigned_silently():
    mu = regression(True)["beta"]
    with pytest.warns(UserWarning, match="model of 'beta' was not found.*step=SGNHT"):
        assert AssignedSGNHT._competence(mu, True) == [0]
