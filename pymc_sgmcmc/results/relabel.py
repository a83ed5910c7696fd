"""Relabelling of mixture components, to undo label switching."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_sgmcmc._utils.argument_rows import DIM, DRAWS_OF, NAMES
from pymc_sgmcmc._utils.arguments import takes
from pymc_sgmcmc._utils.constraints import Names
from pymc_sgmcmc._utils.groups import with_group
from pymc_sgmcmc._utils.inference_data import posterior_of

__all__ = ["relabel"]

STARTS = 8
"""Number of draws whose order of the components serves as a starting point."""

TRIED = 500
"""Approximate number of draws on which the starting points are tried."""

BLOCK = 2**20
"""Number of distances between components computed at once: 8 MB."""

SMALLEST_VARIANCE = 1e-12
"""Least variance of a figure of one component, relative to that over all components."""


@takes(idata=DRAWS_OF, var_names=NAMES, dim=DIM, labels=Names())
def relabel(
    idata: Any,
    var_names: str | Sequence[str] | None = None,
    dim: str | Mapping[str, str] = "component",
    *,
    labels: str | Sequence[str] = (),
) -> Any:
    r"""Put the components of a mixture in the same order in all draws.

    The posterior of a mixture does not depend on the order of its components. Chains may use
    different orders, or change the order while sampling. Means over draws are then those of no
    component.

    All draws are permuted such that components of the same number are alike. The method alternates
    two steps until nothing changes (Stephens, 1997 and 2000). For each draw it finds the most
    likely order under a normal distribution with a mean and variance for each figure of each
    component (an assignment problem). Then the means and variances are recomputed. The method
    starts from the orders in several draws, and keeps the best result. Components are finally
    numbered as in most draws, so that draws without label switching are returned unchanged.

    Quantities that do not depend on labels, such as the density or predictions, do not need
    relabelling. Components that overlap too much to be distinguished cannot be relabelled.

    Parameters
    ----------
    idata : arviz.InferenceData or xarray.DataTree
        The result of `pm.sample`.
    var_names : str or sequence of str, optional
        Variables that distinguish the components, by default all that have the dimension.
    dim : str or dict of str to str
        The dimension of the components. All variables of the posterior that have it are permuted,
        also those not in `var_names`. If the model gives it no name, pass the dimension of each
        variable by its name, as in ``{"mu": "mu_dim_0", "w": "w_dim_0"}``. These variables are
        permuted.
    labels : str or sequence of str
        Discrete variables whose values are numbers of components, 0, 1, ... They are renumbered
        accordingly.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        New data like `idata` with another posterior. The other groups are shared with `idata`.

    Raises
    ------
    ValueError
        If there is no such variable, one in `var_names` lacks the dimension, lengths differ,
        values are not finite, or labels are not numbers of components; the message names it.

    References
    ----------
    - Stephens, M. (1997). Bayesian methods for mixtures of normal distributions. DPhil thesis,
      University of Oxford.
    - Stephens, M. (2000). Dealing with label switching in mixture models. Journal of the Royal
      Statistical Society B.

    Examples
    --------
    >>> import numpy as np, xarray as xr
    >>> from types import SimpleNamespace
    >>> mu = np.array([[[-2.0, 2.0], [2.1, -2.1], [-1.9, 1.9], [-2.2, 2.2], [2.0, -2.0]]])
    >>> z = np.array([[0, 1, 0, 0, 1]])
    >>> lead = ("chain", "draw")
    >>> draws = xr.Dataset({"mu": ((*lead, "component"), mu), "z": (lead, z)})
    >>> found = relabel(SimpleNamespace(posterior=draws), labels="z")
    >>> found.posterior.mu.values[0].T
    array([[-2. , -2.1, -1.9, -2.2, -2. ],
           [ 2. ,  2.1,  1.9,  2.2,  2. ]])
    >>> found.posterior.z.values
    array([[0, 0, 0, 0, 0]])
    """
    posterior = posterior_of(idata)
    dims = _dims(posterior, dim)
    chosen = posterior_of(idata, list(dims) if var_names is None else var_names)
    names = [str(name) for name in chosen]
    for name in names:
        if name not in dims:
            raise ValueError(
                f"{name!r} has no dimension {dim!r}, but {posterior[name].dims[2:]}: leave it out "
                "of var_names=, or say what its components are with dim={name: dimension}."
            )
    lengths = {name: posterior.sizes[own] for name, own in dims.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(f"dim={dim!r}: the variables differ in number of components: {lengths}.")
    figures = [_figures(name, posterior[name], dims[name]) for name in names]
    order = best_order(np.concatenate(figures, axis=2))
    order = order.reshape(*(posterior.sizes[d] for d in ("chain", "draw")), -1)
    changed = {name: _permuted(posterior[name], dims[name], order) for name in dims}
    for name in map(str, posterior_of(idata, labels)):
        changed[name] = _renamed(name, posterior[name], order)
    return with_group(idata, "posterior", posterior.assign(changed))


def _dims(posterior: xr.Dataset, dim: str | Mapping[str, str]) -> dict[str, str]:
    """Return the dimension of the components of each variable to permute."""
    if isinstance(dim, str):
        found = {str(name): dim for name, variable in posterior.items() if dim in variable.dims[2:]}
        if not found:
            known = {name: variable.dims[2:] for name, variable in posterior.items()}
            raise ValueError(f"dim={dim!r}: no variable has this dimension. They have {known}.")
        return found
    for name, own in dim.items():
        if name not in posterior or own not in posterior[name].dims[2:]:
            has = f"only {posterior[name].dims[2:]}" if name in posterior else "no such variable"
            raise ValueError(f"dim={{{name!r}: {own!r}}}: there is {has}.")
    return dict(dim)


def _figures(name: str, variable: xr.DataArray, dim: str) -> np.ndarray:
    """Return the values of each component in each draw, (draws, components, figures)."""
    values = variable.transpose("chain", "draw", dim, ...).values
    figures = values.reshape(values.shape[0] * values.shape[1], values.shape[2], -1)
    if not np.isfinite(figures).all():
        raise ValueError(f"{name!r} is not finite in some draws: components cannot be compared.")
    return figures.astype(np.float64)


def best_order(figures: np.ndarray) -> np.ndarray:
    """Return the new order of the components of each draw, (draws, components).

    Entry i is the number of the component that becomes the i-th.

    Parameters
    ----------
    figures : array, shape (draws, components, figures)
        Values of each component.
    """
    n, k, _ = figures.shape
    spread = figures.std(axis=(0, 1))
    figures = (figures - figures.mean(axis=(0, 1)))[..., spread > 0] / spread[spread > 0]
    some = figures[:: -(-n // TRIED)]
    starts = [_moments(some, np.tile(np.arange(k), (len(some), 1)))]
    for draw in np.linspace(0, n - 1, min(STARTS, n)).astype(int):
        starts.append((figures[draw], np.ones_like(figures[draw])))
    best = min((_settled(some, *start) for start in starts), key=lambda found: found[0])[1]
    order = _settled(figures, *_moments(some, best))[1]
    # Number the components as in most draws.
    same = np.array([[np.sum(order[:, i] == j) for j in range(k)] for i in range(k)])
    of, name = _assignment(-same)
    return order[:, of[np.argsort(name)]]


def _settled(
    figures: np.ndarray, means: np.ndarray, variances: np.ndarray
) -> tuple[float, np.ndarray]:
    """Iterate from moments of each component to convergence.

    Return a value that is minus the log-likelihood up to scale and constants, and the orders.
    """
    order: np.ndarray | None = None
    best = np.inf
    while True:
        found = np.concatenate([_nearest(part, means, variances) for part in _parts(figures)])
        means, variances = _moments(figures, found)
        value = float(np.sum(np.log(variances)))
        if value >= best:  # the value falls as long as anything changes
            assert order is not None  # the first value is finite
            return best, order
        order, best = found, value


def _moments(figures: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and variance of each figure of each component, (components, figures)."""
    ordered = np.take_along_axis(figures, order[..., None], axis=1)
    return ordered.mean(axis=0), np.maximum(ordered.var(axis=0), SMALLEST_VARIANCE)


def _parts(figures: np.ndarray) -> Iterator[np.ndarray]:
    n, k, _ = figures.shape
    size = max(1, BLOCK // k**2)
    return (figures[start : start + size] for start in range(0, n, size))


def _nearest(figures: np.ndarray, means: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """Return the most likely order of the components of each draw."""
    weights = 1 / variances
    # Minus twice the log-density of component j of a draw as component i: (draws, i, j).
    cost = np.einsum("njf,if->nij", figures**2, weights)
    cost -= 2 * np.einsum("njf,if->nij", figures, means * weights)
    cost += np.sum(means**2 * weights + np.log(variances), axis=1)[:, None]
    return np.array([_assignment(each)[1] for each in cost])


def _assignment(cost: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    from scipy.optimize import linear_sum_assignment  # importing it takes long

    return linear_sum_assignment(cost)


def _permuted(variable: xr.DataArray, dim: str, order: np.ndarray) -> xr.DataArray:
    moved = variable.transpose("chain", "draw", dim, ...)
    index = order.reshape(*order.shape, *(1,) * (moved.ndim - 3))
    permuted = moved.copy(data=np.take_along_axis(moved.values, index, axis=2))
    return permuted.transpose(*variable.dims)


def _renamed(name: str, variable: xr.DataArray, order: np.ndarray) -> xr.DataArray:
    values, k = variable.values, order.shape[2]
    if values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= k:
        raise ValueError(
            f"labels={name!r}: its values are not the numbers of components 0 to {k - 1}."
        )
    new_names = np.argsort(order, axis=2).astype(values.dtype)
    lead = values.shape[:2]
    renamed = np.take_along_axis(new_names, values.reshape(*lead, -1).astype(np.intp), axis=2)
    return variable.copy(data=renamed.reshape(values.shape))
