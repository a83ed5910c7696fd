"""Models with posteriors that are known exactly, of unit scale: normal ones."""

from dataclasses import dataclass

import numpy as np
import pymc as pm

__all__ = ["N_ROWS", "Gaussians", "normal_posterior", "regression"]

N_ROWS = 20
"""Of the data of the models."""
_SHARE = 0.7
"""What the data contribute to the precision of the posterior; the prior has the rest."""


def _data() -> tuple[np.ndarray, np.ndarray, float]:
    """Return features (rows, 2), outcomes (rows,), and the sd of an outcome."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(N_ROWS, 2))
    sd = float(np.sqrt(N_ROWS / _SHARE))
    return x, x @ [1.0, -0.5] + sd * rng.normal(size=N_ROWS), sd


def regression() -> pm.Model:
    """Return a regression with two coefficients, whose posterior has sds of about 1."""
    x, y, sd = _data()
    with pm.Model(coords={"row": range(N_ROWS), "feature": ["a", "b"]}) as model:
        features = pm.Data("x", x, dims=("row", "feature"))
        outcome = pm.Data("y", y, dims="row")
        beta = pm.Normal("beta", 0.0, (1 - _SHARE) ** -0.5, dims="feature")
        pm.Normal("obs", features @ beta, sd, observed=outcome, dims="row")
    return model


def normal_posterior() -> tuple[np.ndarray, np.ndarray]:
    """Return the precision P (2, 2) and P times the mean (2,) of `regression`."""
    x, y, sd = _data()
    return x.T @ x / sd**2 + (1 - _SHARE) * np.eye(2), x.T @ y / sd**2


@dataclass(frozen=True, eq=False)
class Gaussians:
    """Independent normal coordinates, with gradient noise that is known exactly.

    Attributes
    ----------
    precision : array, shape (d,)
        That of the posterior.
    noise : array, shape (d,)
        V, the variance of a gradient of two rows.
    """

    precision: np.ndarray
    noise: np.ndarray

    BATCH = 2

    @property
    def mean(self) -> np.ndarray:
        """Mean of the posterior, (d,): half an sd."""
        return 0.5 / np.sqrt(self.precision)

    def model(self) -> pm.Model:
        """Return the model: y_ij ~ N(q_j, s_j^2) with a normal prior of q."""
        # All columns hold the same skewed numbers in another order: with mean 0 and variance 1.
        rng = np.random.default_rng(30)
        numbers = np.sort(rng.exponential(size=N_ROWS))
        numbers = (numbers - numbers.mean()) / numbers.std()
        columns = rng.permuted(np.tile(numbers[:, None], len(self.precision)), axis=0)
        of_data = _SHARE * self.precision
        y = self.mean / _SHARE + columns * np.sqrt(self.BATCH * self.noise) / of_data
        with pm.Model() as model:
            q = pm.Normal("q", 0.0, ((1 - _SHARE) * self.precision) ** -0.5)
            pm.Normal("y", q, np.sqrt(N_ROWS / of_data), observed=pm.Data("data", y))
        return model
