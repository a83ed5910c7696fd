"""Data that come with the package."""

from importlib.resources import files

import numpy as np

__all__ = ["wells"]


def wells() -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Households in Bangladesh that did or did not switch to a safe well (3020 rows).

    Gelman and Hill (2006), chapter 5; copied from posteriordb, see NOTICE.

    Returns
    -------
    features : array, shape (3020, 4)
        A constant, the distance to the nearest safe well (100 m), the arsenic level of the own well
        (100 micrograms per litre), and years of education divided by four.
    switched : array of int, shape (3020,)
    names : list of str
        The names of the features.

    Examples
    --------
    >>> features, switched, names = wells()
    >>> features.shape, float(switched.mean().round(3)), names
    ((3020, 4), 0.575, ['intercept', 'dist100', 'arsenic', 'educ4'])
    """
    with files("pymc_sgmcmc.data").joinpath("wells.csv").open() as file:
        table = np.genfromtxt(file, delimiter=",", names=True)
    features = [np.ones(len(table)), table["dist"] / 100, table["arsenic"], table["educ"] / 4]
    names = ["intercept", "dist100", "arsenic", "educ4"]
    return np.column_stack(features), table["switched"].astype(int), names
