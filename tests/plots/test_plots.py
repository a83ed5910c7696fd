"""Plots: what they draw is what the data and the package's figures say."""

import ast
from pathlib import Path

import arviz as az
import matplotlib
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from matplotlib.colors import to_rgba
from scipy.stats import norm

import pymc_sgmcmc
from pymc_sgmcmc import (
    kinetic_temperature,
    plot_compare,
    plot_phase,
    plot_step_sizes,
    plot_temperature,
    plot_thermostat,
    plot_width,
)
from pymc_sgmcmc._utils.groups import from_groups
from pymc_sgmcmc._utils.significance import ALPHA, critical
from pymc_sgmcmc.chain.stored_sums import ROWS
from pymc_sgmcmc.chain.width import TOLERANCE
from pymc_sgmcmc.plots.exact_density import exact_log_density
from tests.drawn import dataset_of

matplotlib.use("agg")
from matplotlib import pyplot as plt

EXPECTED = "0.25"


@pytest.fixture(autouse=True)
def no_figures_left():
    """Close them, once they can be drawn: constrained layout warns of what does not fit."""
    yield
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    plt.close("all")


def dataset(values, start=0):
    """Variables or stats, each (chain, draw, ...)."""
    chains, draws = next(iter(values.values())).shape[:2]
    coords = {"draw": start + np.arange(draws), "chain": np.arange(chains)}
    return dataset_of(values, coords)


def data(stats=None, warmup=None, start=0, **values):
    """What pm.sample would return."""
    groups = {"posterior": dataset(values or {"x": np.zeros((2, 8))})}
    if stats is not None:
        groups["sample_stats"] = dataset(stats, start)
    if warmup is not None:
        groups["warmup_sample_stats"] = dataset(warmup)
    return from_groups(groups)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def lines(ax, prefix="chain "):
    """Data of the lines with such a label, (x, y), in order."""
    return [line.get_data() for line in ax.lines if str(line.get_label()).startswith(prefix)]


def dashed(ax):
    """Heights of what is expected."""
    return [line.get_ydata()[0] for line in ax.lines if line.get_color() == EXPECTED]


def legend_texts(ax):
    legend = ax.get_legend() or ax.figure.legends[0]
    return [text.get_text() for text in legend.get_texts()]


# The kinetic temperature


def test_temperature():
    stats, before = 1.1 + 0.1 * normal(3, 200), 2.0 + normal(3, 30, seed=1)
    idata = data({"kinetic_temperature": stats}, {"kinetic_temperature": before})
    axes = plot_temperature(idata)
    assert axes.shape == (1, 2)
    (left, right), found = axes[0], kinetic_temperature(idata)
    drawn = lines(left)
    assert len(drawn) == 3
    for k, (x, y) in enumerate(drawn):  # windows of 4 draws; none of tuning and sampling both
        exact = [before[k, i : i + 4].mean() for i in range(0, 30, 4)]
        exact += [stats[k, i : i + 4].mean() for i in range(0, 200, 4)]
        np.testing.assert_allclose(y, exact)
        np.testing.assert_allclose(x[:2], [-28.5, -24.5])
        np.testing.assert_allclose(x[7:9], [-1.5, 1.5])  # the last two of tuning, the first four
    means = [c for c in right.containers if c.has_yerr]
    assert len(means) == 3
    for k, bar in enumerate(means):
        assert bar.lines[0].get_ydata() == [float(found["mean"][k])]
        ends = bar.lines[2][0].get_segments()[0][:, 1]
        half = 2 * found["mcse"][k]
        np.testing.assert_allclose(ends, [found["mean"][k] - half, found["mean"][k] + half])
    assert dashed(left) == [1.0] and dashed(right) == [1.0]
    assert legend_texts(left) == ["chain 0", "chain 1", "chain 2", "tuning", "expected"]
    assert "mean of 4 draws" in left.get_ylabel() and left.get_xlim() == (-30.5, 199.5)


def test_temperature_that_is_expected():
    stats = {"kinetic_temperature": 0.5 + 0.1 * normal(2, 40)}
    axes = plot_temperature(data(stats), temperature=0.5, window=1)
    assert dashed(axes[0, 0]) == [0.5] == dashed(axes[0, 1])
    np.testing.assert_array_equal(lines(axes[0, 0])[1][1], stats["kinetic_temperature"][1])
    # What Santa anneals.
    plan = np.geomspace(10, 1, 40)
    (left, right), *_ = plot_temperature(data(stats | {"temperature": np.stack([plan, plan])}))
    np.testing.assert_array_equal(lines(left, "expected")[0][1], plan)
    assert dashed(right) == [1.0]
    # Beside another step method it is not known which of them anneals.
    both = {"kinetic_temperature": normal(2, 40, 2), "temperature": np.stack([plan, plan])}
    assert not dashed(plot_temperature(data(both))[0, 0])
    axes = plot_temperature(data(both), temperature=[1.0, 0.3])
    assert [dashed(ax) for ax in axes[:, 0]] == [[1.0], [0.3]]
    # What the running sums say.
    stored = sums(2, 40, {"temperature": np.full(2, 0.5)})
    axes = plot_temperature(data(stats | {"running_sums": stored}))
    assert dashed(axes[0, 0]) == [0.5]


def test_temperature_of_several_step_methods():
    stats = 1 + 0.1 * normal(8, 60, 2)
    stats[2, 7, 1] = np.nan  # a divergence
    stats[..., 1] += 1
    axes = plot_temperature(data({"kinetic_temperature": stats}), window=20)
    assert axes.shape == (2, 2)
    for k, (left, right) in enumerate(axes):
        assert f"step method {k}" in left.get_title() and len(lines(left)) == 8
        exact = np.nanmean(stats[..., k].reshape(8, 3, 20), axis=2)
        np.testing.assert_allclose([y for _, y in lines(left)], exact)
        means = [bar.lines[0].get_ydata()[0] for bar in right.containers if bar.has_yerr]
        np.testing.assert_allclose(np.array(means, float), np.nanmean(stats[..., k], axis=1))
    # So do those of a ZarrTrace.
    flat = {f"sampler_{k}__kinetic_temperature": stats[..., k] for k in (1, 0)}
    again = plot_temperature(data(flat), window=20)
    np.testing.assert_array_equal(lines(again[1, 0]), lines(axes[1, 0]))


def test_chains_are_told_apart():
    (left, _), *_ = plot_temperature(data({"kinetic_temperature": normal(8, 40)}))
    looks = {(line.get_color(), line.get_linestyle()) for line in left.lines[:8]}
    assert len(looks) == 8
    (left, _), *_ = plot_temperature(data({"kinetic_temperature": normal(20, 40)}))
    assert len(lines(left)) == 20 and legend_texts(left) == ["expected"]


# The thermostat


def test_thermostat():
    xi, before = 3 + normal(2, 100), 5 + normal(2, 20, seed=1)
    idata = data({"thermostat": xi}, {"thermostat": before}, start=20)
    axes = plot_thermostat(idata, diffusion=2.5)
    (left, right), *_ = axes
    pale = [line.get_data() for line in left.lines if line.get_alpha()]
    for k, (x, y) in enumerate(pale):
        np.testing.assert_array_equal(y, np.r_[before[k], xi[k]])
        np.testing.assert_array_equal(x, np.arange(120))  # PyMC may go on counting after tuning
    for k, (_, y) in enumerate(lines(left)):
        exact = np.r_[before[k], xi[k]].reshape(-1, 2).mean(axis=1)
        np.testing.assert_allclose(y, exact)
    assert dashed(left) == [2.5] == dashed(right) and "injected diffusion" in legend_texts(left)
    for k, patch in enumerate(right.patches):  # without tuning
        values, edges, _ = patch.get_data()
        np.testing.assert_allclose(values, np.histogram(xi[k], edges, density=True)[0])
        assert edges[0] == xi.min() and edges[-1] == xi.max()
    assert left.get_shared_y_axes().joined(left, right)


def test_thermostat_of_several_step_methods():
    idata = data({"thermostat": normal(1, 50, 2)})
    axes = plot_thermostat(idata, diffusion=[1.0, 2.0])
    assert axes.shape == (2, 2) and [dashed(ax) for ax in axes[:, 1]] == [[1.0], [2.0]]
    assert not dashed(plot_thermostat(idata)[0, 0])
    with pytest.raises(ValueError, match="one for each of the 2 step methods that are plotted"):
        plot_thermostat(idata, diffusion=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match=r"diffusion=-1\.0 must be non-negative and finite"):
        plot_thermostat(idata, diffusion=-1.0)


# Step sizes


def test_step_sizes():
    h = np.geomspace(0.1, 0.02, 50) * np.array([[1.0], [1.1]])
    (ax,) = plot_step_sizes(data({"step_size": h}))
    np.testing.assert_array_equal([y for _, y in lines(ax)], h)
    assert ax.get_yscale() == "linear" and ax.get_ylim()[0] == 0
    before = np.full((2, 10), 1.0)
    (ax,) = plot_step_sizes(data({"step_size": h}, {"step_size": before}))
    assert ax.get_yscale() == "log"  # with tuning they span decades
    np.testing.assert_array_equal(lines(ax)[1][1], np.r_[before[1], h[1]])
    np.testing.assert_array_equal(lines(ax)[1][0], np.arange(-10, 50))
    (shade,) = [patch for patch in ax.patches if patch.get_label() == "tuning"]
    assert shade.get_extents().transformed(ax.transData.inverted()).x1 == pytest.approx(-0.5)


def test_step_sizes_of_schedules():
    """All chains have the same; cycles are on a linear scale and their stages marked."""
    cycle = pymc_sgmcmc.CyclicalCosine(0.5, 20, exploration=0.25)
    counts = np.arange(100)
    stats = {"step_size": cycle(counts), "sampling": ~cycle.explores(counts)}
    stats = {name: np.stack([values] * 3) for name, values in stats.items()}
    (ax,) = plot_step_sizes(data(stats))
    ((_, y),) = lines(ax, "all chains")
    np.testing.assert_array_equal(y, cycle(counts))
    assert ax.get_yscale() == "linear"
    assert hatched(ax) == [(20 * k - 0.5, 20 * k + 4.5) for k in range(5)]
    # Beside a constant step size it is the other that has the stages.
    constant = np.full((3, 100), 0.3)
    stats["step_size"] = np.stack([constant, stats["step_size"]], axis=2)
    axes = plot_step_sizes(data(stats))
    assert axes.shape == (2,) and not hatched(axes[0]) and len(hatched(axes[1])) == 5


def hatched(ax):
    spans = [patch for patch in ax.patches if patch.get_label() == "exploration stage"]
    return [(span.get_x(), span.get_x() + span.get_width()) for span in spans]


# The width


def sums(chains, draws, figures, *, places=None):
    """The running sums of a coordinate for each value of the figures, as they are stored."""
    size = len(next(iter(figures.values())))
    rows = np.zeros((len(ROWS), size))
    places = np.arange(size) if places is None else places
    for name, values in (
        {"size": size, "coordinate": np.arange(size), "place": places, "steps": 10_000,
         "freedom": 40, "temperature": 1.0, "noise": 0.0, "pooled_direct": 1.0,
         "pooled_implied": 1.0}
        | figures
    ).items():  # fmt: skip
        rows[ROWS.index(name)] = values
    for name in ("qg", "virial", "q", "g_at_q"):
        rows[ROWS.index(name)] *= 10_000  # sums
    wide = np.zeros((chains, draws, len(ROWS), 4))
    turns = (4 * np.arange(draws)[:, None] + np.arange(4)) % size
    wide[:] = np.moveaxis(rows[:, turns], 0, 1)
    return wide


RATIO = np.array([1.0, 1.3, 1.05, 1.12, 0.8])
SPREAD = np.array([2.0, 4.0, 1.0, 12.0, 1.0])


def of_width(**more):
    figures = {"qg": RATIO + 0.06, "q": np.full(5, 0.3), "g_at_q": np.full(5, 0.2),
               "virial": RATIO - 0.1, "direct_spread": SPREAD,
               "implied_spread": SPREAD / 2}  # fmt: skip
    return sums(2, 6, figures | more)


def drawn_widths(ax):
    """Ratios and ends of intervals by row, and the rows that are an alarm."""
    ratios, ends, wrong = {}, {}, set()
    for line in ax.lines:
        if line.get_marker() in ("o", "s"):
            rows = [int(row) for row in line.get_ydata()]
            ratios |= dict(zip(rows, line.get_xdata(), strict=True))
            wrong |= set(rows) if line.get_marker() == "s" else set()
    for collection in ax.collections:
        for segment in collection.get_segments():
            ends[int(segment[0, 1])] = tuple(segment[:, 0])
    return ratios, ends, wrong


@pytest.fixture(scope="module")
def five():
    with pm.Model() as model:
        pm.Normal("beta", shape=3)
        pm.HalfNormal("tau")
        pm.Normal("mu")
    return model


def five_draws(stored):
    return data({"running_sums": stored}, beta=normal(2, 6, 3), tau=np.exp(normal(2, 6)),
                mu=normal(2, 6))  # fmt: skip


def test_width(five):
    idata = five_draws(of_width())
    ax = plot_width(idata, five)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == ["beta[0]", "beta[1]", "beta[2]", "tau_log__", "mu"]
    ratios, ends, wrong = drawn_widths(ax)
    # Two chains, 40 degrees of freedom each, five coordinates looked at.
    half = critical(ALPHA, 80, 5) * SPREAD / np.sqrt(2 * 10_000) / np.minimum(RATIO, 1)
    for k in range(5):
        assert ratios[k] == pytest.approx(RATIO[k])
        np.testing.assert_allclose(ends[k], [RATIO[k] - half[k], RATIO[k] + half[k]])
    alarms = (np.abs(RATIO - 1) > TOLERANCE) & (np.abs(RATIO - 1) > half)
    assert wrong == set(np.flatnonzero(alarms)) == {1, 4}
    assert [line.get_xdata()[0] for line in ax.lines if line.get_color() == "0.4"] == [1]
    band = ax.patches[0]
    assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx((0.9, 1.1))
    # It is what `check` has.
    dataset = pymc_sgmcmc.check(idata, five, progressbar=False).dataset
    np.testing.assert_allclose(dataset.width, RATIO)
    np.testing.assert_allclose(dataset.width_error, SPREAD / np.sqrt(20_000))
    implied = drawn_widths(plot_width(idata, five, kind="implied"))[0]
    np.testing.assert_allclose([implied[k] for k in range(5)], RATIO - 0.1)


def test_width_of_some_variables(five):
    idata = five_draws(of_width())
    with five:
        ax = plot_width(idata, var_names=["mu", "tau"])
    assert [label.get_text() for label in ax.get_yticklabels()] == ["tau_log__", "mu"]
    assert drawn_widths(ax)[0] == pytest.approx({0: RATIO[3], 1: RATIO[4]})
    ax = plot_width(idata)
    assert [label.get_text() for label in ax.get_yticklabels()][4] == "coordinate 4"
    with pytest.raises(ValueError, match=r"var_names='mu' needs the model"):
        plot_width(idata, var_names="mu")
    with pytest.raises(ValueError, match=r"no free variables \['nu'\]"):
        plot_width(idata, five, var_names="nu")


def test_width_of_several_step_methods(five):
    """Each has its own coordinates."""
    one = sums(2, 6, {"qg": np.array([1.05, 0.95])}, places=np.array([4, 0]))
    two = sums(2, 6, {"qg": np.array([1.2])}, places=np.array([3]))
    ax = plot_width(five_draws(np.stack([one, two], axis=-1)), five)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["beta[0]", "tau_log__", "mu"]
    assert drawn_widths(ax)[0] == pytest.approx({0: 0.95, 1: 1.2, 2: 1.05})


def test_width_of_many_coordinates():
    stored = sums(1, 40, {"qg": np.linspace(0.95, 1.05, 160), "direct_spread": np.ones(160)})
    ax = plot_width(data({"running_sums": stored}))
    assert len(drawn_widths(ax)[0]) == 160 and len(ax.get_yticks()) == 80


def test_width_that_is_not_known(five):
    with pytest.raises(ValueError, match="no step method of this run is of this package"):
        plot_width(data({"step_size": np.ones((2, 6))}), five)
    with pytest.raises(ValueError, match="fewer than 250 draws"):
        plot_width(five_draws(of_width(freedom=0)), five)
    with pytest.raises(ValueError, match=r"kind='implied'.*Choose kind='direct'"):
        plot_width(five_draws(of_width(pooled_implied=np.nan)), five, kind="implied")
    with pytest.raises(ValueError, match="kind="):
        plot_width(five_draws(of_width()), five, kind="virial")


# Samplers side by side


@pytest.mark.compiled
def test_compare():
    x, wide = normal(4, 500, 2), normal(4, 500, 2, seed=1) * [2, 4] + 5
    wide[0, :10] = np.nan  # as `where` leaves them
    axes = plot_compare({"NUTS": data(x=x)}, {"SGHMC": data(x=wide)}, data(x=x))
    assert axes.shape == (2,) and [ax.get_title() for ax in axes] == ["x[0]", "x[1]"]
    for k, ax in enumerate(axes):
        (fill,) = ax.collections
        np.testing.assert_array_equal(fill.get_facecolor()[0], to_rgba("0.75"))
        height = fill.get_paths()[0].vertices[:, 1].max()
        assert height == pytest.approx(norm.pdf(0), rel=0.15)
        (grid, density), (_, same) = (line.get_data() for line in ax.lines)
        mean = np.sum(grid * density) / density.sum()
        sd = np.sqrt(np.sum((grid - mean) ** 2 * density) / density.sum())
        own = wide[..., k][np.isfinite(wide[..., k])]
        np.testing.assert_allclose([mean, sd], [own.mean(), own.std()], rtol=0.05)
        assert same.max() == pytest.approx(height)
        assert ax.get_xlim()[0] < -2.5 and ax.get_xlim()[1] > 10
    assert legend_texts(axes[0]) == ["NUTS", "SGHMC", "2"]


def test_compare_by_labels():
    long = "the logarithm of the distance to the next well in metres"
    labelled = xr.Dataset({"beta": (("chain", "draw", "w"), normal(2, 50, 3))},
                          {"w": ["a", "b", long]})  # fmt: skip
    idata = from_groups({"posterior": labelled})
    titles = [ax.get_title() for ax in plot_compare(idata, idata)]
    assert titles[:2] == ["beta[a]", "beta[b]"]
    assert titles[2].startswith("beta\n[the log") and titles[2].endswith("metres]")
    assert max(map(len, titles[2].splitlines())) <= 30
    snake = "x" * 30 + "_" + "y" * 90
    (ax,) = plot_compare(data(**{snake: normal(2, 50)}))
    assert ax.get_title().startswith("xxx") and len(ax.get_title()) == 30


def test_compare_counts():
    n = np.random.default_rng(0).poisson(2, (2, 300))
    (ax,) = plot_compare(data(n=n), data(n=n + 1))
    points, counts = np.unique(n, return_counts=True)
    np.testing.assert_allclose([bar.get_height() for bar in ax.patches], counts / 600)
    np.testing.assert_array_equal(ax.lines[0].get_xdata(), points + 1)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), counts / 600)
    assert ax.get_ylabel() == "probability"


def test_compare_of_what_is_constant_or_missing():
    (ax,) = plot_compare(data(x=normal(2, 50)), data(x=np.full((2, 50), 1.5)))
    assert ax.lines[0].get_xdata()[0] == 1.5
    with pytest.raises(ValueError, match=r"'1' has no finite draw of x"):
        plot_compare(data(x=normal(2, 50)), data(x=np.full((2, 50), np.nan)))
    with pytest.raises(ValueError, match="no variable in common"):
        plot_compare(data(x=normal(2, 50)), data(y=normal(2, 50)))
    with pytest.raises(ValueError, match=r"posterior has no \['z'\]"):
        plot_compare(data(x=normal(2, 50)), var_names="z")


def test_compare_draws_no_more_panels_than_arviz():
    idata = data(x=normal(1, 20, 7))
    with az.rc_context({"plot.max_subplots": 5}):
        with pytest.warns(UserWarning, match=r"7 entries and 5 of them.*max_subplots"):
            axes = plot_compare(idata)
    assert [ax.get_title() for ax in axes] == [f"x[{k}]" for k in range(5)]
    assert len(axes[0].figure.axes) == 5  # no empty ones


# Draws on a density


@pytest.mark.compiled
def test_phase_in_one_dimension():
    """sigma of an improper scale: the density of a half-normal, not that of its logarithm."""
    with pm.Model() as model:
        pm.HalfNormal("sigma", 2.0)
    draws = np.abs(2 * normal(2, 400))
    ax = plot_phase(data(sigma=draws), model, path=5)
    grid, density = next(line.get_data() for line in ax.lines if line.get_label()[:5] == "exact")
    inside = grid > 0
    np.testing.assert_allclose(density[inside], norm.pdf(grid[inside] / 2), rtol=0.02)
    assert not density[grid < 0].any() and (grid < 0).any()
    assert -0.1 < ax.get_xlim()[0] <= 0
    heights = [bar.get_height() for bar in ax.patches]
    np.testing.assert_allclose(heights, np.histogram(draws, 50, density=True)[0])
    (right,) = [other for other in ax.figure.axes if other is not ax]
    np.testing.assert_array_equal(right.lines[0].get_data(), (draws[0, :5], np.arange(5)))


@pytest.mark.compiled
def test_phase_in_two_dimensions():
    """Contours of a narrow ridge: lines of known probability; the first variable is across."""
    with pm.Model() as model:
        a = pm.Normal("a", 1.0, 0.5)
        pm.Normal("b", a**2, 0.05)
    a = 1 + 0.5 * normal(2, 500)
    draws = {"a": a, "b": a**2 + 0.05 * normal(2, 500, seed=1)}
    ax = plot_phase(data(**draws), model, var_names=["b", "a"], path=7)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("b", "a")
    points = next(line for line in ax.lines if line.get_label() == "draws")
    np.testing.assert_array_equal(points.get_data(), (draws["b"].ravel(), draws["a"].ravel()))
    path = next(line for line in ax.lines if line.get_label() == "first draws")
    np.testing.assert_array_equal(path.get_data(), (draws["b"][0, :7], draws["a"][0, :7]))
    (contours,) = ax.collections
    held = []
    for contour in contours.get_paths():
        b, a = contour.vertices.T
        squares = ((b - a**2) / 0.05) ** 2 + ((a - 1) / 0.5) ** 2
        assert np.ptp(squares) < 0.15 * squares.mean()
        held.append(1 - np.exp(-squares.mean() / 2))
    np.testing.assert_allclose(held, [0.99, 0.95, 0.8, 0.5], atol=0.015)


@pytest.mark.compiled
def test_phase_within_given_ranges():
    with pm.Model() as model:
        pm.Normal("x", shape=2)
    ax = plot_phase(data(x=normal(2, 20, 2)), model, ranges=[(-1, 2), (-3, 4)], resolution=5)
    assert ax.get_xlim() == (-1, 2) and ax.get_ylim() == (-3, 4)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("x[0]", "x[1]")


@pytest.mark.compiled
def test_exact_log_density():
    """Of a transform that depends on another variable, and with data."""
    y = np.array([0.4, 0.1, 0.3])
    with pm.Model() as model:
        top = pm.HalfNormal("top", 1.0)
        x = pm.Uniform("x", 0, top)
        pm.Normal("y", x, 0.3, observed=y)
    rng = np.random.default_rng(0)
    top, x = rng.uniform(0.2, 2, 50), rng.uniform(-0.2, 1, 50)
    x[0] = 0.1
    exact = norm.pdf(top) / top * (x > 0) * (x < top)
    exact *= np.prod(norm.pdf(y, x[:, None], 0.3), axis=1)
    found = np.exp(exact_log_density(model, {"top": top, "x": x}))
    np.testing.assert_allclose(found, exact / exact.max(), rtol=1e-9)
    assert 0 < np.mean(found == 0) < 1


def test_phase_refusals():
    with pm.Model() as model:
        pm.Normal("x", shape=2)
        pm.Normal("y")
    idata = data(x=normal(2, 9, 2), y=normal(2, 9))
    with pytest.raises(ValueError, match="3 entries in all"):
        plot_phase(idata, model)
    with pytest.raises(ValueError, match=r"var_names='x' must be all free variables"):
        plot_phase(idata, model, var_names="x")
    with pm.Model() as counted:
        pm.Poisson("n", 2.0)
    with pytest.raises(ValueError, match=r"discrete variables \(n\)"):
        plot_phase(data(n=np.ones((2, 9), dtype=int)), counted)
    with pm.Model() as one:
        pm.Normal("y")
    with pytest.raises(ValueError, match="path=10 must be from 0 to 9"):
        plot_phase(idata, one, path=10)
    for ranges in ([(1, 0)], [(0, 1), (0, 1)], [(0, np.inf)]):
        with pytest.raises(ValueError, match=r"must be .*pairs"):
            plot_phase(idata, one, ranges=ranges)
    with pytest.raises(ValueError, match="resolution=1 must be at least 2"):
        plot_phase(idata, one, resolution=1)
    with pm.Model() as simplex:
        pm.Dirichlet("p", np.ones(2))
    with pytest.raises(ValueError, match="manifold or a simplex"):
        plot_phase(data(p=np.full((2, 9, 2), 0.5)), simplex, resolution=2)


# All of them


@pytest.mark.compiled
def test_they_draw_on_given_axes(five):
    stats = {"kinetic_temperature": normal(2, 20), "thermostat": normal(2, 20),
             "step_size": np.ones((2, 20))}  # fmt: skip
    idata = data(stats, x=normal(2, 20, 2))
    _, grid = plt.subplots(2, 3)
    for plot, own in (
        (plot_temperature, grid[0, :2]),
        (plot_thermostat, grid[1, :2]),
        (plot_step_sizes, grid[0, 2]),
        (plot_compare, grid[1, :2]),
    ):
        returned = np.ravel(plot(idata, axes=own))
        assert list(returned) == list(np.ravel(own))
        with pytest.raises(ValueError, match="axes= holds 6 axes, and"):
            plot(idata, axes=grid)
    assert plot_width(five_draws(of_width()), five, ax=grid[1, 2]) is grid[1, 2]
    with pm.Model() as one:
        pm.Normal("x")
    assert plot_phase(data(x=normal(2, 20)), one, ax=grid[0, 2]) is grid[0, 2]
    with pytest.raises(ValueError, match="is not one matplotlib axes"):
        plot_width(five_draws(of_width()), five, ax=grid)
    assert len(plt.get_fignums()) == 1


def test_they_say_what_is_missing():
    nothing = data({"lp": np.zeros((2, 8))})
    with pytest.raises(ValueError, match=r"kinetic_temperature.*SGHMC"):
        plot_temperature(nothing)
    with pytest.raises(ValueError, match=r"no sample stat thermostat.*SGNHT, gSGNHT and Santa"):
        plot_thermostat(nothing)
    with pytest.raises(ValueError, match=r"no sample stat step_size.*NUTS and HMC"):
        plot_step_sizes(nothing)
    momentum = data({"kinetic_temperature": np.ones((2, 8))})
    with pytest.raises(ValueError, match="temperature=-1 must be positive"):
        plot_temperature(momentum, temperature=-1)
    with pytest.raises(ValueError, match="window=0"):
        plot_temperature(momentum, window=0)


def test_importing_the_package_imports_no_matplotlib():
    """Where a module of it does so, it is within a function."""
    files = Path(pymc_sgmcmc.__file__).parent.rglob("*.py")
    for file in (file for file in files if file.name != "__main__.py"):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [getattr(node, "module", None) or "", *(name.name for name in node.names)]
                assert not any(name.startswith("matplotlib") for name in names), file
