"""One stored draw as one call of one compiled function: a scan over the inner steps.

    q', state', sums, ... = kernel(q, *state, H, *sequences, W, *rows, Z, origin, *coefficients,
                                   *numbers)

Nothing random, scheduled or adaptive lives in the graph: step sizes H and whatever else a sampler
plans for each step (steps,), row indices (steps, n) for each group of observed variables with
W (groups,) = N / n, and standard normals Z (steps, k, d) come from outside. q is in the coordinates
of the estimator, whose `numbers` also come from outside.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np
import pytensor
import pytensor.tensor as pt

from pymc_sgmcmc.backends import Backend, CompiledGraph
from pymc_sgmcmc.compat import scan
from pymc_sgmcmc.estimator import Estimator
from pymc_sgmcmc.moments import moment_sums, wide

__all__ = ["Kernel", "KernelOutput"]


@dataclass(frozen=True)
class KernelOutput:
    """What one call of the kernel returns."""

    q: np.ndarray
    state: tuple[np.ndarray, ...]
    sums: np.ndarray
    """Sums of `MOMENTS` over the inner steps, shape (8, d), float64."""
    grad_norm: float
    """Euclidean norm of the last gradient."""
    logp: float
    """Minus the estimate of U at the point and on the rows of the last gradient."""
    end_logp: float
    """The same at the returned q."""
    kinetic_temperature: float
    """Mean of p.p / d over the inner steps; NaN without momentum."""
    largest_energy: float
    """The largest p.p before an inner step; NaN without momentum."""

    @classmethod
    def joined(cls, parts: "Sequence[tuple[int, KernelOutput]]") -> "KernelOutput":
        """That of several calls one after the other, each with its number of inner steps."""
        steps, outputs = zip(*parts, strict=True)
        return replace(
            outputs[-1],
            sums=sum(output.sums for output in outputs),
            kinetic_temperature=np.average(
                [output.kinetic_temperature for output in outputs], weights=steps
            ),
            largest_energy=max(output.largest_energy for output in outputs),
        )

    def is_finite(self) -> bool:
        """Whether the state, the last gradient, and U there and at the end are finite."""
        return isfinite(self.grad_norm + self.logp + self.end_logp) and all(
            np.isfinite(value).all() for value in (self.q, *self.state)
        )


class _Trace:
    """Gives `update` its gradient and its noise, and records what it asked for."""

    def __init__(self, estimate: Callable, rows, weights, normals):
        self._estimate, self._rows, self._weights, self._normals = estimate, rows, weights, normals
        self.n_noise = 0
        self.points, self.estimates = [], []

    def grad(self, q):
        """The gradient at `q` on this step's rows."""
        self.points.append(q)
        self.estimates.append(self._estimate(q, self._rows, self._weights))
        return self.estimates[-1][1]

    def noise(self):
        """The next of this step's normals."""
        self.n_noise += 1
        return self._normals[self.n_noise - 1]


class Kernel:
    """The compiled inner loop of a sampler on a target.

    Parameters
    ----------
    estimator : Estimator
    update : callable
        ``update(q, *state, grad=, h=, noise=, **sequences, **coefficients)`` returns the new
        (q, *state).
    state : mapping of str to array
        Values with the shapes of the carried variables; "p" and "xi" enter the running sums.
    coefficients : mapping of str to array
        Values with the shapes of the update's parameters, which are inputs of every call.
    kinetic : callable
        ``kinetic(p_before, p_after, g, h)``: the kinetic temperature over the inner steps.
    virial : callable
        ``virial(q, *state, g=, h=, **sequences, **coefficients)``: the mean of q g by the balance
        of the sampler, (steps, d), or None.
    backend : Backend
    sequences : iterable of str
        Names of the numbers that each call gives for each inner step.
    numbers : mapping of str to array
        Values with the shapes of the estimator's inputs.

    Attributes
    ----------
    n_noise : int
        k, the normals of length d that one inner step needs.
    """

    def __init__(
        self,
        estimator: Estimator,
        update: Callable,
        state: Mapping[str, np.ndarray],
        coefficients: Mapping[str, np.ndarray],
        kinetic: Callable,
        virial: Callable,
        backend: Backend,
        sequences: Iterable[str],
        numbers: Mapping[str, np.ndarray],
    ):
        self.dtype = pytensor.config.floatX
        start = {"q": pt.tensor("q", dtype=self.dtype, shape=(estimator.size,))}
        start |= _symbols(state, self.dtype)
        data, frame = _symbols(coefficients, self.dtype), _symbols(numbers, self.dtype)
        step_sizes = pt.vector("H", dtype=self.dtype)
        planned = {name: pt.vector(name, dtype=self.dtype) for name in sequences}
        weighting = pt.vector("W", dtype=self.dtype)
        rows = [pt.lmatrix(f"rows_{group.name}") for group in estimator.groups]
        normals = pt.tensor("Z", dtype=self.dtype, shape=(None, None, estimator.size))
        origin = pt.tensor("origin", dtype=self.dtype, shape=(estimator.size,))
        estimate = estimator.bind(frame)
        weights = [weighting[k] for k in range(len(rows))]  # scalars, for the loop to carry along

        def advance(h, numbers, on_rows, z, *values):
            """One inner step: the new values, and what it asked for."""
            trace = _Trace(estimate, on_rows, weights, z)
            own = dict(zip(planned, numbers, strict=True)) | data
            new = update(*values, grad=trace.grad, h=h, noise=trace.noise, **own)
            if len(trace.estimates) != 1:
                raise ValueError(
                    f"update asked for {len(trace.estimates)} gradients: an inner step has one."
                )
            return [value.astype(self.dtype) for value in new], trace

        def inner_step(h, *args):
            numbers, args = args[: len(planned)], args[len(planned) :]
            on_rows, (z, *args) = args[: len(rows)], args[len(rows) :]
            new, trace = advance(h, numbers, on_rows, z, *args[: len(start)])
            return [*new, trace.estimates[0][1]]

        *paths, g = scan(
            inner_step,
            sequences=[step_sizes, *planned.values(), *rows, normals],
            outputs_info=[*start.values(), None],
            non_sequences=[*weights, *data.values(), *frame.values()],
            mode=backend.scan_mode,
        )
        after = dict(zip(start, paths, strict=True))
        before = {name: pt.concatenate([start[name][None], after[name][:-1]]) for name in start}
        # The last step again, for the value of U where its gradient was taken; and U at its end,
        # which is infinite outside the support.
        last_rows, last_values = [row[-1] for row in rows], [path[-1] for path in before.values()]
        _, last = advance(
            step_sizes[-1],
            [values[-1] for values in planned.values()],
            last_rows,
            normals[-1],
            *last_values,
        )
        self.n_noise = last.n_noise
        end, _ = estimate(after["q"][-1], last_rows, weights)
        # Of q that the chain returns: elsewhere they would be blind to the error of the step.
        relative = before | {"q": before["q"] - origin}
        pairs = relative["q"], g
        if last.points[0] is not last_values[0]:
            _, first = estimate(start["q"], [row[0] for row in rows], weights)
            pairs = relative["q"][:1], first[None]
        own = {name: wide(values) for name, values in planned.items()} | data
        balance = virial(*map(wide, relative.values()), g=wide(g), h=wide(step_sizes), **own)
        temperature = energy = pt.as_tensor(np.nan)
        if "p" in start:
            temperature = kinetic(before["p"], after["p"], g, step_sizes)
            energy = pt.max(pt.sum(wide(before["p"]) ** 2, axis=1))
        outputs = [
            *(path[-1] for path in paths),
            moment_sums(before, g, pairs, balance),
            pt.sum(g[-1] ** 2),  # not its root: for d = 1 PyTensor rewrites that to a NaN
            -last.estimates[0][0],
            -end,
            temperature,
            energy,
        ]
        given = [step_sizes, *planned.values(), *([weighting] if rows else []), *rows, normals]
        given += [origin, *data.values(), *frame.values()]
        self._function = CompiledGraph([*start.values(), *given], outputs, backend)
        self._n_state, self._minibatched, self._planned = len(state), bool(rows), list(planned)

    def __call__(
        self, q, state, step_sizes, weights, rows, normals, origin, coefficients, sequences, numbers
    ) -> KernelOutput:
        """Advance (q, *state) by the inner steps that the inputs describe."""
        q, *rest = self._function(
            self._array(q),
            *map(self._array, state),
            self._array(step_sizes),
            *(self._array(sequences[name]) for name in self._planned),
            *([self._array(weights)] if self._minibatched else []),
            *rows,
            self._array(normals),
            self._array(origin),
            *map(self._array, coefficients.values()),
            *map(self._array, numbers.values()),
        )
        state, (sums, squared_norm, *scalars) = tuple(rest[: self._n_state]), rest[self._n_state :]
        return KernelOutput(q, state, sums, float(squared_norm) ** 0.5, *map(float, scalars))

    def _array(self, value) -> np.ndarray:
        return np.asarray(value, dtype=self.dtype)


def _symbols(values: Mapping[str, np.ndarray], dtype: str) -> dict[str, pt.TensorVariable]:
    return {
        name: pt.tensor(name, dtype=dtype, shape=np.shape(value)) for name, value in values.items()
    }
