"""W, the ratio of the variance of the draws to the variance that the gradients imply: 1 is right.

At stationarity E[(q_i - E q_i) dU/dq_i] = 1 if q is from the posterior and its density vanishes at
the boundary. Draws of another width give about the ratio of their variance to the right one. The
"direct" W is this mean over the chain. The "implied" W follows from the sampler's balance, its
momentum and its gradients, and often has the smaller error.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from pymc_sgmcmc.chain.running_sums import RunningSums

__all__ = ["KINDS", "POOLED_TOLERANCE", "TOLERANCE", "Width", "width_ratio"]

KINDS = ("direct", "implied")

TOLERANCE, POOLED_TOLERANCE = 0.10, 0.05
"""Accepted relative errors of a variance, in one coordinate and on average."""


def width_ratio(kind: str, means: Mapping[str, Any] | xr.Dataset, correction: Any) -> Any:
    """Return W, in the shape of the means.

    Parameters
    ----------
    kind : {"direct", "implied"}
    means : mapping of str to array
        Means of `MOMENTS` over the inner steps: of a chain that samples, or as they are stored.
    correction : array
        `Width.correction` of the same chain: what a covariance about the chain's own means lacks.
    """
    if kind == "implied":
        # The virial is about the origin and needs no centring, because E g = 0; the mean of g
        # has noise that is not in the virial.
        return means["virial"]
    return means["qg"] - means["q"] * means["g_at_q"] + correction


@dataclass(frozen=True)
class Width:
    """W of one chain, from its running sums.

    The standard errors are those of batch means.
    """

    sums: RunningSums

    @property
    def freedom(self) -> int:
        """Degrees of freedom of the standard errors."""
        return len(self.sums.ends) - 1

    @cached_property
    def _of_batches(self) -> dict[str, np.ndarray]:
        """W in each batch, about the mean of the chain, (batches, d), by kind."""
        q, g, qg, virial, _ = self.sums.batch_means()
        m, mean_g = self.sums.mean("q"), self.sums.mean("g_at_q")
        return {"direct": qg - m * g - mean_g * (q - m), "implied": virial}

    def ratio(self, kind: str) -> np.ndarray:
        """Return W, (d,)."""
        return width_ratio(kind, self.sums.means(), self.correction)

    @property
    def correction(self) -> np.ndarray:
        """Correction of the covariance of q and g for the use of the chain's own means, (d,)."""
        if self.freedom < 1:
            return 0.0 * self.sums.origin
        q, g, *_ = self.sums.batch_means()
        products = (q - q.mean(axis=0)) * (g - g.mean(axis=0))
        return products.sum(axis=0) / (len(q) * self.freedom)

    def error(self, kind: str) -> np.ndarray:
        """Return the standard error of W, (d,)."""
        return _error(self._of_batches[kind])

    def pooled(self, kind: str) -> tuple[float, float]:
        """Return the mean of W over the coordinates, and its standard error."""
        return float(self.ratio(kind).mean()), float(_error(self._of_batches[kind].mean(axis=1)))


def _error(batches: np.ndarray) -> np.ndarray:
    """Return the standard error of the mean of batches, (batches, ...); NaN for fewer than 2."""
    if len(batches) < 2:
        return np.full(batches.shape[1:], np.nan)
    return batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
