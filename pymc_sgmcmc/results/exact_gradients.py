"""Exact gradients at some of the draws, and the sds and means that they imply."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import numpy as np
from pymc import Model

from pymc_sgmcmc._utils.inference_data import spread
from pymc_sgmcmc._utils.progress_bar import with_bar
from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.model.full_data import full_data
from pymc_sgmcmc.model.total_sizes import check_total_sizes
from pymc_sgmcmc.model.unconstrain import FlatDraws
from pymc_sgmcmc.posterior.target import Target
from pymc_sgmcmc.results.gradient_regression import BLOCKS, GradientRegression, regress_gradients
from pymc_sgmcmc.rows.requests import AUTO

__all__ = ["ExactGradients", "thinned"]

_log = logging.getLogger("pymc.sgmcmc")

FEWEST, MOST = 40, 400
"""Bounds on the number of draws at which gradients are taken, which is four per coordinate."""


class ExactGradients:
    """Exact gradients of a model's U at draws, reusable for many sets of draws.

    The gradient is compiled at its first use.

    Parameters
    ----------
    model : pymc.Model
        The model. `pm.Minibatch` is replaced by all rows.
    backend : Backend, optional

    Raises
    ------
    ValueError
        If a ``total_size`` of the model is not its number of rows.
    """

    def __init__(self, model: Model, *, backend: Backend | None = None):
        self.model, self._backend = full_data(model), backend
        check_total_sizes(model, self.model)
        self._target: Target | None = None

    def at(
        self, draws: FlatDraws, *, most: bool = False, progressbar: bool = True
    ) -> GradientRegression:
        """Compare the draws with the sds and means that gradients at some of them imply.

        There must be at least 40 draws, finite and not constant in any coordinate. With `most`, the
        number of gradients is the maximum.
        """
        index = thinned(len(draws.flat()), draws.size, most=most)
        gradients, straight = self.gradients(draws, index, progressbar=progressbar), ~draws.curved
        found = regress_gradients(draws.flat()[:, straight], index, gradients[:, straight])
        return found.embed(straight)

    def gradients(
        self, draws: FlatDraws, index: np.ndarray, *, progressbar: bool = True
    ) -> np.ndarray:
        """Return the gradient of U, (m, d), on all rows, at rows `index` (m,) of `draws.flat()`."""
        return self.energies(draws, index, progressbar=progressbar)[1]

    def energies(
        self, draws: FlatDraws, index: np.ndarray, *, progressbar: bool = True
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return U, (m,), and its gradient, (m, d), on all rows, at the draws `index`, (m,).

        U must be finite at the first of them.
        """
        if self._target is None:
            self._target = self._target_at(draws.point(int(index[0])))
        self._target.examine()
        points = draws.flat()[index]
        others = [draws.others_at(int(i)) for i in index] if draws.others else []
        values, gradients = np.zeros(len(points)), np.zeros(points.shape)
        # Evaluate all draws on one part of the data after the other, to read the data once.
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
        settings: dict[str, Any] = {"initial_point": point, "backend": self._backend}
        with _quiet():
            try:
                return Target(self.model, vars, batch_size=AUTO, **settings)
            except ValueError:  # Without separable rows, evaluate all rows at once.
                return Target(self.model, vars, **settings)


def thinned(n: int, size: int, *, most: bool = False) -> np.ndarray:
    """Return evenly spread indices into `n` draws of `size` coordinates, for gradients."""
    m = min(n, MOST if most else int(np.clip(4 * size, FEWEST, MOST)))
    return spread(n, m)


def obstacle(draws: FlatDraws) -> str:
    """Return a text on why gradients cannot be compared with these draws, or an empty one."""
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
    """Suppress log lines of this thread on minibatches, because gradients here use all rows."""
    thread = get_ident()

    def is_wanted(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR or record.thread != thread

    _log.addFilter(is_wanted)
    try:
        yield
    finally:
        _log.removeFilter(is_wanted)


assert FEWEST >= 2 * BLOCKS  # The jackknife leaves out a block of at least two.
