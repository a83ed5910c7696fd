"""Sample stat of all chains over their draws, including those of tuning if they were kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from pymc_sgmcmc._utils.inference_data import sampler_stat
from pymc_sgmcmc._utils.validation import natural
from pymc_sgmcmc.plots.panels import panels
from pymc_sgmcmc.plots.style import BACKGROUND, BLACK, add_legend, line_style

__all__ = ["Paths", "draw_lines", "label_axes", "shade_tuning", "side_by_side", "stat_paths"]


@dataclass(frozen=True, eq=False)
class Paths:
    """A sample stat over draws.

    Attributes
    ----------
    values : array, shape (chains, draws, step methods), float64
        Values of the stat, with those of tuning first.
    draw : array, shape (draws,)
        Numbers of the draws. Draws of tuning have the numbers before the first draw after tuning.
    tuning : int
        Number of draws from tuning.
    chains : list of str
    """

    values: np.ndarray
    draw: np.ndarray
    tuning: int
    chains: list[str]

    @property
    def samplers(self) -> int:
        """Number of step methods that have the stat."""
        return self.values.shape[2]

    @property
    def kept(self) -> np.ndarray:
        """The values without tuning."""
        return self.values[:, self.tuning :]

    def window(self, length: int | None) -> int:
        """Check and return the length of a window; by default a fiftieth of the kept draws."""
        return max(1, self.kept.shape[1] // 50) if length is None else natural("window", length)

    def windows(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Compute means of the finite values over windows of `length` draws.

        No window holds draws of tuning and later draws.

        Returns
        -------
        draw : array, shape (windows,)
            The middle of each window.
        means : array, shape (chains, windows, step methods)
        """
        starts = [*range(0, self.tuning, length), *range(self.tuning, len(self.draw), length)]
        finite = np.isfinite(self.values)
        sums = np.add.reduceat(np.where(finite, self.values, 0.0), starts, axis=1)
        with np.errstate(invalid="ignore"):
            means = sums / np.add.reduceat(finite, starts, axis=1, dtype=int)
        number = np.diff([*starts, len(self.draw)])
        return np.add.reduceat(self.draw, starts) / number, means


def stat_paths(idata: Any, name: str, missing: str) -> Paths:
    """Return the stat of that name; raise a ValueError with the text `missing` if none exists."""
    values = sampler_stat(idata, name)
    if values is None:
        raise ValueError(f"There is no sample stat {name}: {missing}")
    coordinates = idata.sample_stats.coords
    draw = np.asarray(coordinates.get("draw", np.arange(values.shape[1])))
    chains = np.asarray(coordinates.get("chain", np.arange(len(values))))
    before = sampler_stat(_warmup(idata), name)
    tuning = 0
    if before is not None and before.shape[::2] == values.shape[::2]:
        tuning = before.shape[1]
        values = np.concatenate([before, values], axis=1)
        draw = np.concatenate([draw[0] + np.arange(-tuning, 0), draw])
    return Paths(values.astype(float), draw, tuning, [f"chain {chain}" for chain in chains])


def _warmup(idata: Any) -> SimpleNamespace:
    return SimpleNamespace(sample_stats=getattr(idata, "warmup_sample_stats", {}))


def draw_lines(
    ax: Any, draw: np.ndarray, values: np.ndarray, labels: Sequence[str | None] | None, **style: Any
) -> None:
    """Draw a line for each chain of `values` (chains, draws), or one if all are the same."""
    if labels is None:
        labels = [None] * len(values)
    elif len(values) > 1 and (values == values[:1]).all():
        ax.plot(draw, values[0], label="all chains", color=BLACK, **style)
        return
    for number, (path, label) in enumerate(zip(values, labels, strict=True)):
        ax.plot(draw, path, label=label, **line_style(number), **style)


def shade_tuning(ax: Any, paths: Paths) -> None:
    """Mark the draws of tuning, and fit the axes to all of them."""
    if paths.tuning:
        ends = paths.draw[0] - 0.5, paths.draw[paths.tuning] - 0.5
        ax.axvspan(*ends, color=BACKGROUND, linewidth=0, label="tuning", zorder=0)
    ax.set_xlim(paths.draw[0] - 0.5, paths.draw[-1] + 0.5)


def side_by_side(axes: Any, paths: Paths, what: str) -> tuple[np.ndarray, bool]:
    """Return a wide axes over draws and a narrow one beside it per step method, like `panels`."""
    return panels(
        axes, paths.samplers, 2, size=(8, 2.6), sharex="col", sharey="row", what=what,
        width_ratios=[3, 1],
    )  # fmt: skip


def label_axes(axes: np.ndarray, paths: Paths, having: str, ylabel: str, *, ours: bool) -> None:
    """Add titles, labels and a legend to the axes over draws, one for each step method."""
    for number, ax in enumerate(axes):
        if paths.samplers > 1:
            ax.set_title(f"step method {number} with {having}", fontsize=9)
        ax.set_ylabel(ylabel)
    axes[-1].set_xlabel("draw")
    add_legend(axes, ours=ours)
