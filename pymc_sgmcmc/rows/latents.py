"""Latent variables of the rows: continuous variables with about as many entries as rows.

Each row brings a new unknown, so more data do not narrow the posterior of any entry: each entry is
as wide as its prior and its few rows leave it. The scale that the entries share is known only
through all of them together, and at the joint mode, where tuning starts, that scale is zero. An
entry with many rows (a group) is not of this kind, nor is a coefficient on which each row depends.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.warn_user import warn_user
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.rows.model_terms import ModelTerms

__all__ = ["rows_per_entry", "warn_about_row_latents"]

ROWS_PER_ENTRY = 3.0
"""Average number of rows an entry below which a variable is a latent variable of the rows. From
about here on, an entry's posterior owes more to its rows than to its prior, if one row is as
informative as the prior."""

MANY = 200
"""Number of entries from which on a warning is given. Variables with fewer entries have a dense
metric, and their rows exact gradients."""

LOOKED_AT = 5
"""Number of rows whose dependence on a variable is examined."""

Point = Mapping[str, np.ndarray]


def warn_about_row_latents(model_terms: ModelTerms, vars: Sequence[TensorVariable]) -> None:
    """Warn of each of the sampled `vars` that is a latent variable of the rows.

    Nothing is compiled.
    """
    model, terms, point = model_terms.model, model_terms.terms, model_terms.point
    for var in vars:
        size = int(np.size(point[var.name]))
        if size < MANY:
            continue
        for rv in model.observed_RVs:
            rows = rows_per_entry(terms[rv], var, point, most=ROWS_PER_ENTRY * size)
            if rows is None or not rows < ROWS_PER_ENTRY:
                continue
            name = model.values_to_rvs[var].name
            warn_user(
                f"{name!r} has {size:,} entries, with {rows:.2g} rows of {rv.name!r} each: "
                "stochastic gradients seldom find the posterior of a latent variable of the rows, "
                "so integrate it out (an observed pm.CustomDist with the marginal log-likelihood), "
                f"or sample it beside this step method, as in step=[SGNHT([...]), "
                f"Gibbs({name}, conditional)], or use NUTS if the rows are few.",
            )
            break


def rows_per_entry(
    term: TensorVariable, var: TensorVariable, point: Point, most: float = np.inf
) -> float | None:
    """Return the average number of elements of `term` that depend on an entry of `var`.

    The estimate uses the gradients of some elements at a point near `point`. None: the term does
    not depend on `var`, has no elements, or has more than `most`.
    """
    leaves = list(graph_inputs([term]))
    if var not in leaves or term.type.ndim == 0:
        return None
    kept = SharedVariable | Constant  # the values of other step methods, and data
    values = [leaf for leaf in leaves if leaf.name in point and not isinstance(leaf, kept)]
    rng = np.random.default_rng(0)
    arrays = [
        np.asarray(point[leaf.name] + 0.1 * rng.standard_normal(np.shape(point[leaf.name])))
        if leaf.dtype.startswith("float")
        else np.asarray(point[leaf.name])
        for leaf in values
    ]
    arrays = [array.astype(leaf.dtype) for leaf, array in zip(values, arrays, strict=True)]
    number = int(interpreted(values, [term.size])(*arrays)[0])
    if number == 0 or number > most:
        return None
    row = pt.lscalar("row")
    gradient = pt.grad(term.ravel()[row], var, disconnected_inputs="ignore")
    function = interpreted([*values, row], [pt.sum(pt.neq(gradient, 0))])
    chosen = rng.choice(number, size=min(LOOKED_AT, number), replace=False)
    touched = [int(function(*arrays, np.asarray(i))[0]) for i in chosen]
    return number * float(np.mean(touched)) / int(np.size(point[var.name]))
