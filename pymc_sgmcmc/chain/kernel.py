"""One stored draw as one call of a compiled function: a scan over the inner steps.

    q', state', ..., sums, ... = kernel(q, *state, H, *sequences, *rows, Z, W, *coefficients,
                                        *numbers, origin, summed)

Nothing in the graph is random, scheduled or adaptive. Its inputs are: step sizes H and other
sequences of the sampler, (steps,); batches for each group of observed variables, which are row
indices (steps, n) and rows that are read, with W (groups,) = N / n; standard normals Z
(steps, k, d); the estimator's `numbers`; and the indices of the steps to sum over, `summed`, (m,).
The position q is in the coordinates of the estimator.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from pymc_sgmcmc._utils.types import Array, Graph, Number, Vector
from pymc_sgmcmc.chain.draw_sums import draw_summary
from pymc_sgmcmc.chain.kernel_output import KernelOutput
from pymc_sgmcmc.compile.backend import Backend
from pymc_sgmcmc.compile.compiled_graph import CompiledGraph
from pymc_sgmcmc.compile.pytensor_versions import scan
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.setting import Context
from pymc_sgmcmc.posterior.gradient_estimator import Estimate, Estimator, symbols_of

__all__ = ["Kernel", "arrays"]


class _Trace:
    """Source of gradients and noise for `update` that records its requests."""

    def __init__(
        self,
        estimate: Estimate,
        rows: Sequence[Graph],
        weights: Sequence[Graph],
        normals: Graph,
    ):
        self._estimate, self._rows, self._weights, self._normals = estimate, rows, weights, normals
        self.n_noise = 0
        self.points: list[Graph] = []
        self.gradients: list[Graph] = []

    def __call__(self, q: Graph) -> Graph:
        """Return the gradient at `q` on this step's rows."""
        self.points.append(q)
        self._value, gradient = self._estimate(q, self._rows, self._weights)
        self.gradients.append(gradient)
        return gradient

    def potential(self) -> Graph:
        """Return U at the point of the last gradient, on the same rows."""
        return self._value

    def keep(self, g: Graph) -> None:
        """Record `g` as the gradient of this step."""
        self.gradients[-1] = g

    def noise(self) -> Graph:
        """Return the next normals of this step."""
        self.n_noise += 1
        return self._normals[self.n_noise - 1]


class Kernel:
    """The compiled inner loop of a sampler on a target.

    Parameters
    ----------
    estimator : Estimator
    algorithm : Algorithm
        Its update is an inner step. Of what it carries, "p" and "xi" enter the running sums.
    context : Context
        A chain before its first draw, from which the names and shapes of the algorithm's numbers
        follow: what it carries, its coefficients, and what is planned for each inner step.
    numbers : mapping of str to TensorVariable
        The estimator's inputs.
    backend : Backend
    constant : bool
        Whether the inner steps of a call all have the size of its first one.
    leaps : bool
        Whether to compile a second function, for steps that are not summed.

    Attributes
    ----------
    n_noise : int
        Number k of vectors of d normals that one inner step needs.
    carried : list of str
        Names of the carried variables, in the order of the state.
    constant, leaps : bool
        The arguments of these names.
    """

    def __init__(
        self,
        estimator: Estimator,
        algorithm: Algorithm,
        context: Context,
        numbers: Mapping[str, pt.TensorVariable],
        backend: Backend,
        *,
        constant: bool,
        leaps: bool,
    ):
        dtype = pytensor.config.floatX
        self.dtype, self.constant, self.leaps = np.dtype(dtype), constant, leaps
        # The coefficients first: they raise where a hyper-parameter is out of range.
        data = symbols_of(algorithm.coefficients(context))
        state = algorithm.initial_state(np.random.default_rng(0), context)
        start = symbols_of({"q": np.zeros(estimator.size), **state})
        step_sizes = pt.vector("H", dtype=dtype)
        names = algorithm.planned(np.zeros(1, dtype=int), tuning=True)
        planned = {name: pt.vector(name, dtype=dtype) for name in names}
        weighting = pt.vector("W", dtype=dtype)
        rows = [_of_all_steps(one) for group in estimator.groups for one in group.inputs()]
        normals = pt.tensor("Z", dtype=dtype, shape=(None, None, estimator.size))
        origin = pt.tensor("origin", dtype=dtype, shape=(estimator.size,))
        summed = pt.lvector("summed")
        in_steps = [step_sizes, *planned.values(), *rows, normals]
        estimate = estimator.bind(numbers)
        # Scalars, which are constant in the loop.
        weights = [weighting[k] for k in range(len(estimator.groups))]
        ahead = False

        def inner_step(*given: Any) -> list[Graph]:
            nonlocal ahead
            *args, h = given if constant else (*given[1:], given[0])
            now, args = args[: len(planned)], args[len(planned) :]
            on_rows, (z, *args) = args[: len(rows)], args[len(rows) :]
            trace, values = _Trace(estimate, on_rows, weights, z), args[: len(start)]
            own = dict(zip(planned, now, strict=True)) | data
            new = algorithm.update(*values, grad=trace, h=h, noise=trace.noise, **own)
            if len(trace.gradients) != 1:
                raise ValueError(
                    f"update asked for {len(trace.gradients)} gradients: an inner step has one."
                )
            self.n_noise, ahead = trace.n_noise, trace.points[0] is not values[0]
            return [*(value.astype(dtype) for value in new), trace.gradients[0]]

        *paths, gradients = scan(
            inner_step,
            # With a constant step size, quantities that depend on it are computed once.
            sequences=in_steps[1:] if constant else in_steps,
            # The gradient is carried as well: Numba writes outputs that a scan only collects number
            # by number, with a division for each.
            outputs_info=[*start.values(), pt.zeros_like(start["q"])],
            non_sequences=[*weights, *data.values(), *numbers.values(), step_sizes[0]],
            n_steps=step_sizes.shape[0],
            mode=backend.of_loops,
        )
        last = [path[-1] for path in paths]
        end, first = estimate(last[0], [row[-1] for row in rows], weights)[0], None
        if ahead:
            _, first = estimate(start["q"], [row[0] for row in rows], weights)
        moments, scalars = draw_summary(
            algorithm,
            dict(zip(start, paths, strict=True)),
            planned,
            data,
            gradients=gradients,
            step_sizes=step_sizes,
            first=first,
            end=end,
            origin=origin,
            summed=summed,
        )
        of_summary = [*paths, gradients, step_sizes, *planned.values(), *data.values()]
        of_summary += [*([first] if ahead else []), end, origin, summed]
        moments, scalars = backend.as_one(of_summary, [moments, scalars])
        given = [*start.values(), *in_steps, *([weighting] if rows else [])]
        given += [*data.values(), *numbers.values()]
        self._function = CompiledGraph([*given, origin, summed], [*last, moments, scalars], backend)
        # If only the last step is summed, the others need no paths in memory: with many coordinates
        # writing paths takes as long as everything else.
        self._leap = CompiledGraph(given, last, backend) if leaps else None
        self._planned, self.carried = list(planned), list(state)

    def fixed(
        self,
        weights: np.ndarray,
        coefficients: Mapping[str, np.ndarray],
        numbers: Mapping[str, np.ndarray],
    ) -> list[np.ndarray]:
        """Return the inputs shared by many calls: W if there are groups, coefficients, numbers."""
        given = chain([weights] if len(weights) else [], coefficients.values())
        return [*(np.asarray(value, self.dtype) for value in given), *numbers.values()]

    def __call__(
        self,
        q: Vector,
        state: Sequence[Number],
        step_sizes: Vector,
        rows: Sequence[np.ndarray],
        normals: Array,
        origin: Vector,
        sequences: Mapping[str, Vector],
        fixed: Sequence[Array],
        every: int = 1,
    ) -> KernelOutput:
        """Advance (q, *state) by the inner steps that the inputs describe.

        `fixed` comes from the method of that name. The sums are over the first step and each
        `every`-th step after it. If the kernel leaps and `every` is at least the number of steps,
        they are over the last step only; with `every` 0 there are no sums.
        """
        steps, array, dtype = len(step_sizes), np.asarray, self.dtype
        start = [array(value, dtype) for value in (q, *state)]
        planned = [array(sequences[name], dtype) for name in self._planned]
        of_steps = [array(step_sizes, dtype), *planned, *rows, array(normals, dtype)]
        if self.leaps and not 0 < every < steps:
            leapt = steps - min(every, 1)
            if leapt:
                assert self._leap is not None  # it leaps
                start = self._leap(*start, *(of[:leapt] for of in of_steps), *fixed)
            if leapt == steps:
                return KernelOutput(start[0], tuple(start[1:]))
            steps, of_steps = 1, [of[leapt:] for of in of_steps]
        summed = _every_so_many(steps, every)
        given = [*start, *of_steps, *fixed, array(origin, dtype), summed]
        *end, sums, scalars = self._function(*given)
        return KernelOutput.read(end, len(summed), sums, scalars)


def arrays(values: Mapping[str, Number]) -> dict[str, Array]:
    """Return `values` as arrays in the working precision."""
    return {name: np.asarray(value, pytensor.config.floatX) for name, value in values.items()}


@lru_cache(maxsize=16)
def _every_so_many(steps: int, every: int) -> np.ndarray:
    return np.arange(0, steps, every)


def _of_all_steps(one: pt.TensorVariable) -> pt.TensorVariable:
    """Return a variable for all inner steps' values of a quantity that is `one` in each."""
    return pt.TensorType(one.dtype, shape=(None, *one.type.shape))(one.name)
