"""A sample stat of all chains over their draws, with those of tuning where they were kept."""

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
        Tuning first.
    draw : array, shape (draws,)
        Numbers of the draws; those of tuning come before that of the first.
    tuning : int
        How many of them are from tuning.
    chains : list of str
    """

    values: np.ndarray
    draw: np.ndarray
    tuning: int
    chains: list[str]

    @property
    def samplers(self) -> int:
        """How many step methods have the stat."""
        return self.values.shape[2]

    @property
    def kept(self) -> np.ndarray:
        """`values` without tuning."""
        return self.values[:, self.tuning :]

    def window(self, length: int | None) -> int:
        """Draws in a window, checked; default a fiftieth of those after tuning."""
        return max(1, self.kept.shape[1] // 50) if length is None else natural("window", length)

    def windows(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Means over so many draws each, of what is finite; none of both tuning and draws.

        Returns
        -------
        draw : array, shape (windows,)
            The middle of each.
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
    """The stat of that name; a ValueError that says `missing` if there is none."""
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
    ax: Any, draw: np.ndarray, values: np.ndarray, labels: list[str] | None, **style
) -> None:
    """A line for each chain, `values` (chains, draws); one for all where they are the same."""
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
    """A wide axes over draws and a narrow one beside it, for each step method: as `panels`."""
    return panels(
        axes, paths.samplers, 2, size=(8, 2.6), sharex="col", sharey="row", what=what,
        width_ratios=[3, 1],
    )  # fmt: skip


def label_axes(axes: np.ndarray, paths: Paths, having: str, ylabel: str, *, ours: bool) -> None:
    """Titles, labels and a legend of the axes over draws, one for each step method."""
    for number, ax in enumerate(axes):
        if paths.samplers > 1:
            ax.set_title(f"step method {number} with {having}", fontsize=9)
        ax.set_ylabel(ylabel)
    axes[-1].set_xlabel("draw")
    add_legend(axes, ours=ours)
