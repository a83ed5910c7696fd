"""`relabel` on draws whose true labels are known."""

import doctest
import sys

import numpy as np
import pytest
import xarray as xr

from pymc_sgmcmc import relabel
from pymc_sgmcmc._utils.groups import from_groups
from pymc_sgmcmc.results.relabel import best_order

CHAINS, DRAWS, K = 3, 400, 4
LEAD = ("chain", "draw")


def switched(values, order):
    """Each draw with its components in another order; values (chain, draw, component, ...)."""
    index = order.reshape(*order.shape, *(1,) * (values.ndim - 3))
    return np.take_along_axis(values, index, axis=2)


class Mixture:
    """Draws of a mixture of K components in two dimensions: as they are, and switched."""

    def __init__(self, seed=0, each_draw=True):
        rng = np.random.default_rng(seed)
        lead = (CHAINS, DRAWS)
        mu = np.array([[0, 0], [4, 0], [0, 4], [4.5, 4]]) + rng.normal(size=(*lead, K, 2)) / 2
        sigma = np.exp([0, 0.5, 1, 1.5] + 0.1 * rng.normal(size=(*lead, K)))
        w = rng.dirichlet([50, 40, 30, 20], size=lead)
        z = rng.integers(K, size=(*lead, 30))
        self.right = {"mu": mu, "sigma": sigma, "w": w, "z": z}
        self.order = np.array([rng.permutation(K) for _ in range(CHAINS * DRAWS)])
        self.order = self.order.reshape(*lead, K)
        if not each_draw:
            self.order = np.broadcast_to(self.order[:, :1], self.order.shape)
        names = np.argsort(self.order, axis=2)
        self.given = {
            name: switched(v, self.order) for name, v in self.right.items() if name != "z"
        }
        self.given["z"] = np.take_along_axis(names, z, axis=2)

    def data(self, values):
        dims = {"mu": (*LEAD, "component", "axis"), "sigma": (*LEAD, "component"),
                "w": (*LEAD, "component"), "z": (*LEAD, "row")}  # fmt: skip
        posterior = xr.Dataset({name: (dims[name], v) for name, v in values.items()},
                               {"axis": ["x", "y"], "component": list("abcd")})  # fmt: skip
        posterior["alpha"] = (LEAD, np.ones((CHAINS, DRAWS)))
        stats = xr.Dataset({"lp": (LEAD, np.arange(CHAINS * DRAWS).reshape(CHAINS, DRAWS))})
        return from_groups({"posterior": posterior, "sample_stats": stats})


def names_of(values, right):
    """The one order of the components that takes `right` to `values`."""
    return [int(np.argmin(np.abs(values[0, 0, i, 0] - right[0, 0, :, 0]))) for i in range(K)]


@pytest.mark.parametrize("each_draw", [True, False], ids=["draws", "chains"])
def test_switched_draws_agree_again(each_draw):
    mixture = Mixture(each_draw=each_draw)
    given = mixture.data(mixture.given)
    before = given.posterior.mu.values.copy()
    found = relabel(given, labels=["z"])
    assert type(found) is type(given)
    posterior = found.posterior
    names = names_of(posterior.mu.values, mixture.right["mu"])
    for name in ("mu", "sigma", "w"):
        np.testing.assert_array_equal(posterior[name], mixture.right[name][:, :, names])
        assert posterior[name].dims == given.posterior[name].dims
    np.testing.assert_array_equal(posterior.z, np.argsort(names)[mixture.right["z"]])
    assert posterior.z.dtype == given.posterior.z.dtype
    assert list(posterior.axis.values) == ["x", "y"] and "alpha" in posterior
    np.testing.assert_array_equal(found.sample_stats.lp, given.sample_stats.lp)
    np.testing.assert_array_equal(given.posterior.mu, before)
    # The row means are what no order changes: which component a row is of.
    of_rows = [np.take_along_axis(v["mu"].values[..., 0], v["z"].values, axis=2)
               for v in (given.posterior, posterior)]  # fmt: skip
    np.testing.assert_array_equal(*of_rows)
    # Without it, the means of the components say nothing.
    if each_draw:
        spread = given.posterior.mu.mean(LEAD).std("component").max()
        assert spread < 0.2 < 1.5 < posterior.mu.mean(LEAD).std("component").min()


def test_right_draws_stay_as_they_are():
    mixture = Mixture()
    given = mixture.data(mixture.right)
    found = relabel(given, labels="z").posterior
    xr.testing.assert_identical(xr.Dataset(dict(found.items())),
                                xr.Dataset(dict(given.posterior.items())))  # fmt: skip
    few = mixture.right["mu"].copy()
    few[:, 7] = few[:, 7, ::-1]
    np.testing.assert_array_equal(
        relabel(mixture.data(mixture.right | {"mu": few}), "mu").posterior.mu, mixture.right["mu"]
    )


def test_one_variable_tells_them_apart():
    """All that have the dimension are permuted with it."""
    mixture = Mixture()
    found = relabel(mixture.data(mixture.given), "mu").posterior
    names = names_of(found.mu.values, mixture.right["mu"])
    np.testing.assert_array_equal(found.w, mixture.right["w"][:, :, names])
    np.testing.assert_array_equal(found.z, mixture.given["z"])


def test_dimensions_without_a_common_name():
    mixture = Mixture()
    data = xr.Dataset({name: ((*LEAD, *(f"{name}_dim_{i}" for i in range(v.ndim - 2))), v)
                       for name, v in mixture.given.items()})  # fmt: skip
    idata = from_groups({"posterior": data})
    found = relabel(idata, dim={"mu": "mu_dim_0", "w": "w_dim_0"}).posterior
    names = names_of(found.mu.values, mixture.right["mu"])
    np.testing.assert_array_equal(found.w, mixture.right["w"][:, :, names])
    np.testing.assert_array_equal(found.sigma, mixture.given["sigma"])


def test_widths_count():
    """A draw far from a wide component's mean is still its own: as good as the best rule."""
    rng, n = np.random.default_rng(1), 4000
    mean, sd = np.array([0.0, 2.0]), np.array([0.1, 2.0])
    x = mean + sd * rng.normal(size=(n, 2))
    flip = rng.random(n) < 0.5
    given = np.where(flip[:, None], x[:, ::-1], x)
    order = best_order(given[..., None])
    wrong = np.mean((order[:, 0] == 1) != flip)

    def log_density(a, b):
        return -0.5 * np.sum(((np.stack([a, b], axis=1) - mean) / sd) ** 2, axis=1)

    best = np.mean(log_density(x[:, 1], x[:, 0]) > log_density(x[:, 0], x[:, 1]))
    by_means = np.mean(x[:, 0] > x[:, 1])  # the nearest means: in the order of size
    assert min(wrong, 1 - wrong) < best + 0.01 and by_means > best + 0.05


def test_many_components():
    rng, n, k = np.random.default_rng(2), 1000, 12
    x = np.arange(k) + 0.25 * rng.normal(size=(n, k))
    order = np.array([rng.permutation(k) for _ in range(n)])
    given = np.take_along_axis(x, order, axis=1)[..., None]
    found = np.take_along_axis(order, best_order(given), axis=1)
    common = np.array([np.bincount(column).argmax() for column in found.T])
    assert sorted(common) == list(range(k)) and np.mean(found == common) > 0.95


def test_refusals():
    mixture = Mixture()
    idata = mixture.data(mixture.given)
    with pytest.raises(ValueError, match=r"dim='k': no variable has this dimension.*'component'"):
        relabel(idata, dim="k")
    with pytest.raises(ValueError, match=r"'z' has no dimension 'component', but \('row',\)"):
        relabel(idata, ["mu", "z"])
    with pytest.raises(ValueError, match=r"the posterior has no \['tau'\]"):
        relabel(idata, ["mu", "tau"])
    with pytest.raises(ValueError, match=r"has no \['y'\]"):
        relabel(idata, labels="y")
    with pytest.raises(
        ValueError, match=r"dim=\{'mu': 'k'\}: there is only \('component', 'axis'\)"
    ):
        relabel(idata, dim={"mu": "k"})
    with pytest.raises(ValueError, match=r"dim=\{'tau': 'k'\}: there is no such variable"):
        relabel(idata, dim={"tau": "k"})
    with pytest.raises(ValueError, match=r"differ in number of components: \{'mu': 4, 'z': 30\}"):
        relabel(idata, dim={"mu": "component", "z": "row"})
    with pytest.raises(ValueError, match=r"labels='z': its values are not the numbers .* 0 to 3"):
        relabel(mixture.data(mixture.given | {"z": mixture.given["z"] + 1}), labels="z")
    with pytest.raises(ValueError, match=r"labels='alpha': its values are not"):
        relabel(idata, labels="alpha")
    bad = mixture.given["sigma"].copy()
    bad[1, 2, 3] = np.nan
    with pytest.raises(ValueError, match="'sigma' is not finite in some draws"):
        relabel(mixture.data(mixture.given | {"sigma": bad}))


def test_examples():
    assert doctest.testmod(sys.modules["pymc_sgmcmc.results.relabel"]).failed == 0
