"""Exact gradients at some of the draws, and what they say of the reported sds and means."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident

import numpy as np
from pymc import Model

from pymc_sgmcmc._utils.inference_data import spread
from pymc_sgmcmc._utils.progress_bar import with_bar
from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.model.full_data import full_data
from pymc_sgmcmc.model.total_sizes import total_sizes
from pymc_sgmcmc.model.unconstrain import FlatDraws
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.results.gradient_regression import BLOCKS, Implied, implied
from pymc_sgmcmc.rows.requests import AUTO

__all__ = ["ExactGradients", "thinned"]

_log = logging.getLogger("pymc.sgmcmc")

FEWEST, MOST = 40, 400
"""Draws at which gradients are taken: four for each coordinate, within these."""


class ExactGradients:
    """The exact gradient of a model's U at draws; made once for many sets of draws.

    Nothing is compiled before the first use.

    Parameters
    ----------
    model : pymc.Model
        One with `pm.Minibatch` is taken on all rows.
    backend : Backend, optional

    Raises
    ------
    ValueError
        If a ``total_size`` of the model is not its number of rows.
    """

    def __init__(self, model: Model, *, backend: Backend | None = None):
        self.model, self._backend = full_data(model), backend
        for total in total_sizes(model, self.model):
            total.check()
        self._target: Target | None = None

    def at(self, draws: FlatDraws, *, most: bool = False, progressbar: bool = True) -> Implied:
        """Compare the draws with what gradients at some of them imply.

        `draws` must be finite and at least 40 in all, and move in each coordinate. `most`: take as
        many gradients as are ever taken.
        """
        index = thinned(len(draws.flat()), draws.size, most=most)
        gradients, straight = self.gradients(draws, index, progressbar=progressbar), ~draws.curved
        return implied(draws.flat()[:, straight], index, gradients[:, straight]).among(straight)

    def gradients(
        self, draws: FlatDraws, index: Sequence[int], *, progressbar: bool = True
    ) -> np.ndarray:
        """The gradient of U, on all rows, at the rows `index` (m,) of `draws.flat()`: (m, d)."""
        return self.energies(draws, index, progressbar=progressbar)[1]

    def energies(
        self, draws: FlatDraws, index: Sequence[int], *, progressbar: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """U and its gradient, on all rows, there: (m,) and (m, d). U is finite at the first."""
        if self._target is None:
            self._target = self._target_at(draws.point(int(index[0])))
        self._target.examine()
        points = draws.flat()[index]
        others = [draws.others_at(int(i)) for i in index] if draws.others else []
        values, gradients = np.zeros(len(points)), np.zeros(points.shape)
        # All draws in turn on one part of the data: it is then read from memory once.
        work = [(part, k) for part in self._target.parts() for k in range(len(points))]
        for part, k in with_bar(work, "Exact gradients", progressbar):
            if others:
                for var, value in others[k].items():
                    self._target.shared[var].set_value(value)
            value, gradient = part(points[k])
            values[k] += value
            gradients[k] += gradient
        return values, gradients

    def _target_at(self, point: dict[str, np.ndarray]) -> Target:
        vars = self.model.continuous_value_vars
        settings = {"initial_point": point, "backend": self._backend}
        with _quiet():
            try:
                return Target(self.model, vars, batch_size=AUTO, **settings)
            except ValueError:  # Rows that do not separate, say: all of them at once, then.
                return Target(self.model, vars, **settings)


def thinned(n: int, size: int, *, most: bool = False) -> np.ndarray:
    """Rows out of `n` draws of `size` coordinates, spread evenly, at which to take gradients."""
    m = min(n, MOST if most else int(np.clip(4 * size, FEWEST, MOST)))
    return spread(n, m)


def obstacle(draws: FlatDraws) -> str:
    """Why gradients cannot be compared with these draws, or nothing."""
    n, values = len(draws.flat()), draws.flat()
    if n < FEWEST:
        return f"There are {n} draws, and at least {FEWEST} are needed."
    lowest, highest = values.min(axis=0), values.max(axis=0)
    if draws.curved.all():
        return (
            "All variables are on manifolds, where gradients imply no sd and no mean: judge them "
            "by their mixing, and by GMC, which is exact, on a part of the data."
        )
    if not (np.isfinite(lowest) & np.isfinite(highest) & (lowest < highest)).all():
        return "A coordinate is constant or not finite, and all are compared together."
    return ""


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep this thread from logging what is minibatched: here it is all rows."""
    thread = get_ident()

    def is_wanted(record):
        return record.levelno >= logging.ERROR or record.thread != thread

    _log.addFilter(is_wanted)
    try:
        yield
    finally:
        _log.removeFilter(is_wanted)


assert FEWEST >= 2 * BLOCKS  # The jackknife leaves out a block of at least two.
