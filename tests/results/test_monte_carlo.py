"""Monte Carlo errors against the spread of many independent runs, and what is said of them."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_sgmcmc.chain.error_of_means import errors_of_means
from pymc_sgmcmc.chain.promises import SD_PROMISE, TIMES
from pymc_sgmcmc.chain.running_sums import RunningSums
from pymc_sgmcmc.results.check import Checker
from pymc_sgmcmc.results.monte_carlo import monte_carlo, sd_bounds
from pymc_sgmcmc.results.monte_carlo_check import check_monte_carlo, monte_carlo_table
from tests.chain.test_width import sums_of
from tests.drawn import posterior_of

CHAINS, DRAWS = 4, 1000


def autoregression(rho, k, draws=DRAWS, seed=0):
    """A stationary AR(1) with variance 1, (chains, draws, k)."""
    noise = np.random.default_rng(seed).normal(size=(CHAINS, draws, k))
    x = noise.copy()
    for t in range(1, draws):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * noise[:, t]
    return x


def slow_in_the_tail(k, seed=0, draws=DRAWS):
    """Draws with kurtosis about 9 that stay long where they are large: sds of most are too small.

    A scale mixture: the scale is an autoregression in logs, slower than what it multiplies.
    """
    scale = np.exp(0.5 * autoregression(0.99, k, draws, seed))
    return scale * autoregression(0.5, k, draws, seed + 1000)


LAWS = {
    "normal": lambda k, seed: autoregression(0.6, k, seed=seed),
    "exponential": lambda k, seed: stats.expon.ppf(
        stats.norm.cdf(autoregression(0.6, k, seed=seed))
    ),
    "uniform": lambda k, seed: stats.norm.cdf(autoregression(0.6, k, seed=seed)),
}


@pytest.mark.parametrize("law", LAWS)
def test_errors_are_those_of_many_runs(law):
    """200 entries are 200 independent runs of one law."""
    k = 200
    found = monte_carlo(LAWS[law](k, 3), [f"x[{i}]" for i in range(k)])
    for name in ("mean", "sd", "q5", "q95"):
        spread = getattr(found, name).std(ddof=1)
        claimed = np.sqrt(np.mean(getattr(found, f"{name}_error") ** 2))
        assert abs(spread / claimed - 1) < 4 / np.sqrt(2 * k) + 0.05, name


def test_an_error_of_sds_that_assumes_a_normal_law_would_fail():
    """The mistake, planted: sd / sqrt(2 ESS), as for a normal law."""
    k = 200
    values = LAWS["exponential"](k, 3)
    found = monte_carlo(values, [str(i) for i in range(k)])
    ess = (found.sd / found.mean_error) ** 2
    spread = found.sd.std(ddof=1)
    assert spread > 1.5 * np.sqrt(np.mean(found.sd**2 / (2 * ess)))


@pytest.mark.statistics
def test_bounds_hold_where_a_tail_was_not_seen():
    """Plain intervals of 95 % miss far more often than they say; those reported do not."""
    k = 400
    values = slow_in_the_tail(k)
    true = np.sqrt(np.exp(2 * 0.25))
    found = monte_carlo(values, [str(i) for i in range(k)])
    low = found.sd < true
    plain = found.sd * (1 + TIMES * found.sd_error / found.sd) < true
    bound = found.sd * (1 + found.sd_bound) < true
    assert plain[low].mean() > 0.15 and bound[low].mean() < 0.06


@pytest.mark.statistics
def test_what_is_outside_the_promise_has_an_alarm():
    runs = slow_in_the_tail(300, seed=1)
    true = np.sqrt(np.exp(2 * 0.25))
    found = monte_carlo(runs, [str(i) for i in range(300)])
    off = np.abs(found.sd / true - 1) > SD_PROMISE
    assert off.sum() > 50 and np.mean(found.sd_bound[off] > SD_PROMISE) > 0.95


@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6])
def test_healthy_draws_are_quiet(rho):
    alarms = [
        bool(check_monte_carlo(monte_carlo(autoregression(rho, 5, seed=s), list("abcde"))).alarms)
        for s in range(20)
    ]
    assert sum(alarmed for alarmed in alarms) == 0


def test_the_alarm_names_the_variable_and_how_many_draws_it_takes():
    values = autoregression(0.3, 3)
    values[..., 1] = autoregression(0.97, 1)[..., 0]
    found = check_monte_carlo(monte_carlo(values, ["a", "b", "c"]))
    (alarm,) = found.alarms
    assert alarm.kind == "error" and "the mean of b is known within 0." in alarm.text
    assert "the mean of a" not in alarm.text and found.verdict == "ALARM"
    # 4000 / ((1 + rho) / (1 - rho)) draws are effective, and 1.96^2 / 0.1^2 are needed.
    needed = 1000 * 384 / (4000 / (1.97 / 0.03))
    said = int(alarm.text.split("Take about ")[1].split(" draws")[0].replace(",", ""))
    assert 0.5 < said / needed < 2


def test_what_does_not_move_has_no_figures():
    values = autoregression(0.3, 3)
    values[..., 0], values[2, 5, 1] = 1.0, np.inf
    found = monte_carlo(values, ["a", "b", "c"])
    assert np.isnan(found.sd_error[:2]).all() and np.isfinite(found.sd_error[2])
    lines = monte_carlo_table(found, 10)
    assert lines[1].split() == ["a", "-", "-", "-", "-"] and "±" in lines[3]
    nothing = monte_carlo(values[..., :1], ["a"])
    assert check_monte_carlo(nothing).verdict == "NOT DONE"
    assert monte_carlo_table(monte_carlo(np.zeros((1, 5, 0)), ()), 10) == []


def test_squares_as_slow_as_the_draws_have_no_more_than_the_skewness():
    square = np.random.default_rng(5).chisquare(1, size=(4, 1000, 1))
    seen, same, slow = (
        sd_bounds(square, np.array([of_draws]), np.array([of_squares]))
        for of_draws, of_squares in ((4000.0, 1000.0), (900.0, 900.0), (3600.0, 900.0))
    )
    assert same[0] == slow[0] == pytest.approx(1 / np.sqrt(2 * 900), rel=0.1)  # of a normal law
    assert seen[1] == TIMES * seen[0]
    assert 1.0 < same[1] / (TIMES * same[0]) < 1.1
    assert slow[1] == pytest.approx(4 * same[1])


@pytest.mark.compiled
def test_check_has_the_table_on_the_scale_of_the_variables():
    with pm.Model() as model:
        pm.HalfNormal("scale")
        pm.Normal("shift", shape=2)
    rng = np.random.default_rng(6)
    scale = np.exp(slow_in_the_tail(1)[..., 0])
    found = Checker(model)(
        posterior_of(scale=scale, shift=rng.normal(size=(4, 1000, 2))), progressbar=False
    )
    table = found.monte_carlo
    assert list(table.parameter.values) == ["scale", "shift[0]", "shift[1]"]
    np.testing.assert_allclose(table["mean"][0], scale.mean())
    np.testing.assert_allclose(table["q95"][0], np.quantile(scale, 0.95))
    assert "error" in {alarm.kind for alarm in found.alarms}
    text = str(found)
    assert "Monte Carlo  ALARM" in text and "variable" in text and "95 %" in text
    # No limit is below what chance makes of the draws.
    blur = 100 * float(table["sd_bound"].max())
    limit = found.dataset.attrs["sd_detection_limit_percent"]
    assert np.isnan(limit) or limit >= blur


def sums(x):
    """Running sums of one chain x (draws, d)."""
    return sums_of(np.stack([x, x], axis=1))


def test_errors_of_one_chain_are_those_of_many():
    x = autoregression(0.6, 2000, seed=7)[0]
    mean, sd = errors_of_means(sums(x))
    least = np.sqrt(30 / stats.chi2.isf(0.05 / 4000, 30))  # of 31 batches
    spread = x.mean(axis=0).std() * least, x.std(axis=0).std() * least
    assert abs(mean.mean() / spread[0] - 1) < 0.15
    assert abs(sd.mean() / spread[1] - 1) < 0.15
    # The largest of 2000 is no larger than the error is.
    assert (mean > x.mean(axis=0).std()).mean() <= 1e-3
    assert np.isnan(errors_of_means(RunningSums.start(np.zeros(2)))[0]).all()
