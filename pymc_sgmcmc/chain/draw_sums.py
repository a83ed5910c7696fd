"""Summary of a draw, as a graph of the paths of its inner steps."""

from collections.abc import Mapping

import numpy as np
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc.chain.moments import MOMENTS, moment_sums, wide
from pymc_sgmcmc.compile.take_rows import take_rows
from pymc_sgmcmc.dynamics.algorithm import Algorithm

__all__ = ["draw_summary"]


def draw_summary(
    algorithm: Algorithm,
    paths: Mapping[str, TensorVariable],
    planned: Mapping[str, TensorVariable],
    data: Mapping[str, TensorVariable],
    *,
    gradients: TensorVariable,
    step_sizes: TensorVariable,
    first: TensorVariable | None,
    end: TensorVariable,
    origin: TensorVariable,
    summed: TensorVariable,
) -> list[TensorVariable]:
    """Build the sums of `MOMENTS`, (9, d), and the scalars that `KernelOutput.read` takes, (7,).

    Parameters
    ----------
    algorithm : Algorithm
        It has the kinetic energy and the virial.
    paths : mapping of str to graph
        Position q and the state by name, at the start and after each step, (steps + 1, ...).
    planned, data : mappings of str to graph
        The sequences of the update, (steps,), and its coefficients.
    gradients : graph, shape (steps + 1, d)
        The first element belongs to no step.
    step_sizes : graph, shape (steps,)
    first : graph, shape (d,), or None
        The gradient at the start on the rows of the first step. None if the step itself takes its
        gradient there.
    end : graph, shape ()
        U at the end.
    origin : graph, shape (d,)
        The point that is subtracted from positions.
    summed : graph of int, shape (m,)
        Indices of the steps to sum over.
    """
    last = [path[-1] for path in paths.values()]
    # Outside the support U may be infinite at the end while every gradient is finite.
    finite = pt.add(*map(pt.sum, last))  # finite if all elements are
    # Return the squared norm: for d = 1 PyTensor rewrites its root to a NaN.
    at_end = [pt.sum(gradients[-1] ** 2), -end, finite, pt.sum(wide(last[0]) ** 2)]
    # The sums are over some steps only: with many coordinates, summing over all takes longer than
    # the steps themselves. The indices are an input: slices would add a thousand nodes of integer
    # arithmetic, and take most of PyTensor 2's time.
    before = {name: take_rows(path, summed) for name, path in paths.items()}
    planned = {name: wide(take_rows(values, summed)) for name, values in planned.items()}
    g, h = take_rows(gradients, summed + 1), take_rows(step_sizes, summed)
    # Use the q that the chain returns: at other points the pairs would not show the step's error.
    relative = before | {"q": before["q"] - origin}
    pairs, each = (relative["q"], g), 1.0
    if first is not None:
        pairs, each = (relative["q"][:1], first[None]), summed.shape[0].astype("float64")
    state, numbers = map(wide, relative.values()), planned | dict(data)
    balance = algorithm.virial(*state, g=wide(g), h=wide(h), **numbers)
    energy = largest = pt.as_tensor(np.nan)
    if "p" in paths:
        energy = algorithm.kinetic(before["p"], take_rows(paths["p"], summed + 1), g, h)
        largest = pt.max(pt.sum(wide(before["p"]) ** 2, axis=1))
    moments = moment_sums(before, g, pairs, balance, each)
    friction = pt.sum(moments[MOMENTS.index("xi")]) / gradients.type.shape[1]
    return [moments, pt.stack([*at_end, energy, largest, friction])]
