"""NUTS is suggested where it would be faster, by what both cost."""

import logging
import re
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

from pymc_sgmcmc import SGNHT
from pymc_sgmcmc.chain import hand_over
from pymc_sgmcmc.chain.hand_over import leapfrogs, suggest_nuts
from tests.cases import sample


def test_leapfrogs_of_a_normal_posterior():
    """At least three; as the root of the condition number, and the fourth root of d."""
    assert leapfrogs(1.0, 1) == 3.0
    np.testing.assert_allclose(leapfrogs(400.0, 16) / leapfrogs(100.0, 16), 2.0)
    np.testing.assert_allclose(leapfrogs(100.0, 16) / leapfrogs(100.0, 1), 2.0)


@pytest.fixture(scope="module")
def inspected():
    """What a chain of 500 draws gives to `suggest_nuts`, and its log."""
    seen = []
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 3))
    with pytest.MonkeyPatch.context() as patch, pm.Model():
        patch.setattr("pymc_sgmcmc.chain.monitor.suggest_nuts", lambda *own: seen.append(own))
        pm.Normal("y", x @ pm.Normal("b", shape=3), 1.0, observed=rng.normal(size=50))
        sample(SGNHT(), draws=500, tune=900, chains=1)
    return seen[-1]


def said(caplog, inputs, q, seconds):
    hand_over._told.clear()
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="pymc.sgmcmc"):
        suggest_nuts(inputs, q, seconds)
        suggest_nuts(inputs, q, seconds)
    return caplog.text


@pytest.mark.compiled
def test_it_is_said_where_draws_are_dear(inspected, caplog):
    inputs, q, seconds = inspected
    assert not said(caplog, inputs, q, min(seconds, 0.2))  # draws of 0.4 ms
    found = said(caplog, inputs, q, 500 * 0.1)
    # Once. A draw of NUTS takes OVERHEAD, and a few gradients of 0.01 to 0.1 ms.
    (ratio,) = re.findall(r"NUTS would be about (\d+) times faster", found)
    assert 50 < float(ratio) < 2 * 0.1 / hand_over.OVERHEAD


@pytest.mark.compiled
def test_it_is_not_said_of_what_nuts_could_not_do(inspected, caplog):
    inputs, q, _ = inspected
    for other in (
        replace(inputs, stationary=False),  # a schedule, whose draws are not of one law
        replace(inputs, learned_metric=False),  # a user's settings: not what this could do
    ):
        assert not said(caplog, other, q, 1e9)
    assert said(caplog, inputs, q, 1e9)
