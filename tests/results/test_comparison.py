"""`compare` against arithmetic, and its Monte Carlo errors against many repetitions."""

import doctest

import numpy as np
import pytest
import xarray as xr

from pymc_sgmcmc import compare
from pymc_sgmcmc._utils.groups import from_groups
from pymc_sgmcmc.results import comparison
from tests.drawn import dataset_of


def data(*, stats=None, labels=None, seconds=None, **values):
    """What pm.sample would return; each array is (chain, draw, ...)."""
    attrs = {} if seconds is None else {"sampling_time": seconds}
    posterior = dataset_of(values, labels, attrs)
    stats = {k: (("chain", "draw", "m")[: v.ndim], v) for k, v in (stats or {}).items()}
    return from_groups({"posterior": posterior, "sample_stats": xr.Dataset(stats)})


def normal(seed, size=(4, 1000, 3)):
    return np.random.default_rng(seed).normal(size=size)


def test_arithmetic():
    scale, shift = np.array([1.0, 100.0, 1e-20]), np.array([0.0, 5.0, 1e-18])
    x, y = normal(1), normal(2) * [1, 1.3, 0.9] + [0.1, 0.0, -0.4]
    tau, other = normal(3, (4, 1000)), normal(4, (4, 1000))
    exact = data(x=shift + scale * x, tau=tau)
    found = compare(exact, {"SGNHT": data(x=shift + scale * y, tau=other, seconds=10.0)})
    assert list(found.index) == ["reference", "SGNHT"]
    row = found.loc["SGNHT"]
    ratios = np.r_[y.std((0, 1)), other.std()] / np.r_[x.std((0, 1)), tau.std()]
    errors = (y.mean((0, 1)) - x.mean((0, 1))) / x.std((0, 1))
    errors = np.r_[errors, (other.mean() - tau.mean()) / tau.std()]
    assert row.mean_error_at == "x[2]" and row.sd_error_at == "x[1]"
    np.testing.assert_allclose(row.mean_error, errors[2], rtol=1e-9)
    np.testing.assert_allclose(row.mean_error_average, np.abs(errors).mean(), rtol=1e-9)
    np.testing.assert_allclose(row.sd_error, ratios[1] - 1, rtol=1e-9)
    ends = row[["sd_ratio_min", "sd_ratio_max"]].astype(float)
    np.testing.assert_allclose(ends, [ratios[2], ratios[1]], rtol=1e-9)
    np.testing.assert_allclose(row.mean_error_mcse, np.sqrt((1 + 0.9**2) / 4000), rtol=0.1)
    # The error of an sd is sd / sqrt(2 n).
    np.testing.assert_allclose(row.sd_error_mcse, 1.3 * np.sqrt(2 / 8000), rtol=0.1)
    assert 3000 < row.ess < 5000 and row.ess_per_second == row.ess / 10
    assert np.isnan(found.loc["reference", "ess_per_second"])
    of_itself = found.loc["reference", ["mean_error", "sd_error", "mean_error_at"]]
    assert of_itself.isna().all()
    alone = compare(exact, data(x=shift + scale * y), var_names="x")
    assert alone.loc["1", "mean_error"] == row.mean_error


@pytest.mark.statistics
def test_monte_carlo_errors():
    """Of draws with an autocorrelation: differences are so many errors as a normal is."""
    phi, z = 0.7, []
    for seed in range(200):
        rng, pair = np.random.default_rng(seed), []
        for draws in (500, 2000):
            x = rng.normal(size=(2, draws))
            for t in range(1, draws):
                x[:, t] = phi * x[:, t - 1] + np.sqrt(1 - phi**2) * x[:, t]
            pair.append(data(x=x))
        row = compare(*pair).loc["1"]
        z.append([row.mean_error / row.mean_error_mcse, row.sd_error / row.sd_error_mcse])
    np.testing.assert_allclose(np.std(z, axis=0), 1, atol=0.25)
    np.testing.assert_allclose(np.mean(z, axis=0), 0, atol=0.3)


def test_gradients():
    x, steps = normal(0, (4, 500)), np.full((4, 500), 10)
    batch = np.full((4, 500), 64)
    exact = batch.copy()
    exact[1] = 0  # A chain that chose all rows.
    named = {
        "NUTS": data(x=x, stats={"n_steps": steps}),
        "tuned": data(x=x, stats={"n_steps": steps, "batch_size": batch, "minibatch_logp": x}),
        "exact": data(x=x, stats={"n_steps": steps, "batch_size": exact}),
        "given": data(x=x, stats={"n_steps": steps, "minibatch_logp": x}),
        "two": data(x=x, stats={"n_steps": np.stack([steps, steps], axis=2), "batch_size": batch}),
        "MH": data(x=x),
    }
    unknown, known = compare(data(x=x), named), compare(data(x=x), named, rows=1000)
    ess = known.ess.iloc[0]
    per_ess = known.gradients_per_ess * ess
    expected = [np.nan, 20_000, 20_000, 20_000, 20_000, 40_000, np.nan]
    np.testing.assert_allclose(per_ess, expected)
    rows = [np.nan, 2e7, 20_000 * 64, 15_000 * 64 + 5e6, np.nan, np.nan, np.nan]
    np.testing.assert_allclose(known.rows_per_ess * ess, rows)
    rows[1] = rows[3] = np.nan
    np.testing.assert_allclose(unknown.rows_per_ess * ess, rows)


def test_entries_that_do_not_move():
    """Constant in the reference: left out. Constant in another: no effective draw."""
    x, still = normal(1), normal(1)
    x[..., 1] = 3.0
    still[..., 0] = 0.2
    row = compare(data(x=x), data(x=still)).loc["1"]
    assert row.sd_error_at == "x[0]" and row.sd_error == -1 and row.ess == 0
    still[0, 0, 2] = np.nan
    row = compare(data(x=x), data(x=still)).loc["1"]
    assert np.isnan(row.mean_error) and row.mean_error_at == "x[2]"


def test_refusals():
    x = data(x=normal(1))
    with pytest.raises(ValueError, match="reference, 1 have no variable in common"):
        compare(x, data(y=normal(1)))
    with pytest.raises(ValueError, match=r"'x' has shape \(3,\) in 'reference' and \(2,\) in 'S'"):
        compare(x, {"S": data(x=normal(1)[..., :2])})
    labelled = [data(x=normal(1), labels={"x_0": list(letters)}) for letters in ("abc", "acb")]
    with pytest.raises(ValueError, match="The labels of 'x_0' of 'x' differ between 'N' and '1'"):
        compare({"N": labelled[0]}, labelled[1])
    compare(labelled[0], labelled[0], x)  # An array without labels has the same order.
    with pytest.raises(ValueError, match=r"the posterior has no \['z'\]"):
        compare(x, x, var_names=["x", "z"])
    with pytest.raises(ValueError, match="two data called '1'"):
        compare({"1": x}, x)
    with pytest.raises(ValueError, match=r"reference=\['a', 'b'\] must be one"):
        compare({"a": x, "b": x}, x)
    with pytest.raises(ValueError, match=r"'reference' is not finite in x\[1\]"):
        compare(data(x=normal(1) * [1, np.inf, 1]), x)
    with pytest.raises(ValueError, match="constant in all"):
        compare(data(x=np.zeros((2, 9))), data(x=np.zeros((2, 9))))
    with pytest.raises(TypeError, match="rows='all' is not an integer"):
        compare(x, x, rows="all")


def test_examples():
    assert doctest.testmod(comparison).failed == 0
