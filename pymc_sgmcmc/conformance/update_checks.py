"""Checks of an algorithm on bare arrays, without a chain or a compiler."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.tensor.variable import TensorVariable

from pymc_sgmcmc._utils.values import equal_values
from pymc_sgmcmc.chain.at_rest import draw_rows
from pymc_sgmcmc.chain.kernel import arrays
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.conformance.models import N_ROWS, normal_posterior
from pymc_sgmcmc.conformance.report import Failed, NotApplicable
from pymc_sgmcmc.conformance.subject import Subject, begin
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.dynamics.setting import Context

__all__ = ["check_arrays", "check_update", "hides_not_finite"]

STEPS = 5
ROUNDING = 1e-8
_PURE = (
    "It must be a function of its arguments and of the hyper-parameters: no clock, no generator "
    "of its own, nothing that it remembers."
)


class NormalGradient:
    """The gradient of U = q'Pq / 2 - b'q, as the kernel gives it to an update."""

    def __init__(self, precision: np.ndarray, slope: np.ndarray):
        self._precision, self._slope, self.count = precision, slope, 0

    def __call__(self, q: TensorVariable) -> TensorVariable:
        """Return the gradient at `q`."""
        self.count += 1
        self._at, self._pull = q, pt.dot(self._precision, q)
        return self._pull - self._slope

    def potential(self) -> TensorVariable:
        """Return U at the point of the last gradient."""
        return pt.dot(self._at, self._pull / 2 - self._slope)

    def keep(self, gradient: TensorVariable) -> None:
        """Do nothing: no sums are made of gradients here."""


class BareUpdate:
    """One call of `update`: a graph of arrays, as PyTensor's interpreter runs it."""

    def __init__(
        self,
        algorithm: Algorithm,
        state: Mapping[str, np.ndarray],
        numbers: Mapping[str, np.ndarray],
        gradient: NormalGradient,
    ):
        dtype = pytensor.config.floatX

        def symbols(values):
            return [pt.tensor(name, dtype=dtype, shape=np.shape(v)) for name, v in values.items()]

        q, h = pt.tensor("q", dtype=dtype, shape=(algorithm.size,)), pt.scalar("h", dtype=dtype)
        normals = pt.matrix("z", dtype=dtype)
        carried, given = symbols(state), symbols(numbers)
        self.n_noise = 0

        def noise():
            self.n_noise += 1
            return normals[self.n_noise - 1]

        new = algorithm.update(
            q, *carried, grad=gradient, h=h, noise=noise, **dict(zip(numbers, given, strict=True))
        )
        if not isinstance(new, tuple | list):
            raise Failed("`update` returns no tuple: return (q, *state), also where state is none.")
        self.new, self._inputs = list(new), [q, *carried, h, normals, *given]

    @property
    def function(self) -> Callable:
        """Return the function of q, the state, h, normals and numbers."""
        return interpreted(self._inputs, self.new)


def check_update(subject: Subject) -> str:
    """Check that `update` and what it needs are functions, and agree on what is carried."""
    algorithm = subject.bare
    before = _held(algorithm)
    context = _context(subject)
    state = _twice("initial_state", lambda: algorithm.initial_state(_rng(), context))
    numbers = _twice("coefficients", lambda: algorithm.coefficients(context))
    counts = np.arange(100, 100 + STEPS)
    planned = _twice("planned", lambda: algorithm.planned(counts, tuning=False))
    for name, values in planned.items():
        if np.shape(values) != counts.shape:
            raise Failed(
                f"`planned` returns {name!r} of shape {np.shape(values)} for {STEPS} steps: "
                "return one number for each."
            )
        parts = [algorithm.planned(part, tuning=False)[name] for part in (counts[:2], counts[2:])]
        if not np.array_equal(np.concatenate(parts), values):
            raise Failed(
                f"`planned` returns another {name!r} for step {counts[2]} when it is the first "
                "one asked for: compute it from the absolute counts in `steps` alone."
            )
    numbers = {name: values[0] for name, values in planned.items()} | numbers
    outcomes = [_outcome(algorithm, state, numbers) for _ in range(2)]
    if not equal_values(*outcomes):
        raise Failed(f"`update` gives two results for the same inputs. {_PURE}")
    if not equal_values(before, _held(algorithm)):
        raise Failed(f"The algorithm is changed by its own methods. {_PURE}")
    return (
        f"Two calls with the same inputs return the same, carry {', '.join(['q', *state])}, and "
        "leave the algorithm as it was."
    )


def _context(subject: Subject) -> Context:
    size = subject.bare.size
    return Context(step_size=subject.settings["step_size"], noise=np.zeros(size), n_rows=N_ROWS)


def hides_not_finite(subject: Subject) -> bool:
    """Return whether `update` makes finite numbers of a gradient that is NaN."""
    algorithm, context = subject.bare, _context(subject)
    planned = algorithm.planned(np.arange(1), tuning=False)
    numbers = {name: values[0] for name, values in planned.items()}
    numbers |= algorithm.coefficients(context)
    state = algorithm.initial_state(_rng(), context)
    outcome = _outcome(algorithm, state, numbers, slope=np.full(algorithm.size, np.nan))
    return all(np.isfinite(x).all() for x in outcome)


def _outcome(algorithm, state, numbers, slope: np.ndarray | None = None) -> list[np.ndarray]:
    """Return the result of one update, of a graph that is made anew."""
    size = algorithm.size
    slope = np.linspace(-1.0, 1.0, size) if slope is None else slope
    gradient = NormalGradient(np.diag(np.linspace(1.0, 2.0, size)), slope)
    bare = BareUpdate(algorithm, state, numbers, gradient)
    if len(bare.new) != 1 + len(state):
        raise Failed(
            f"`update` returns {len(bare.new)} variables, and it should return q and what "
            f"`initial_state` names, {list(state)}: name there all that is carried."
        )
    if gradient.count != 1:
        raise Failed(f"`update` asks for {gradient.count} gradients: an inner step has one.")
    rng = _rng()
    q, z = rng.normal(size=size), rng.normal(size=(max(bare.n_noise, 1), size))
    given = [np.array(value, dtype=float) for value in (q, *state.values(), 0.1, z)]
    given += [np.array(value, dtype=float) for value in numbers.values()]
    kept = copy.deepcopy(given)
    outcome = bare.function(*given)
    if not equal_values(given, kept):
        raise Failed("`update` overwrites its inputs: return new variables.")
    for name, old, new in zip(["q", *state], [q, *state.values()], outcome, strict=True):
        if np.shape(new) != np.shape(old):
            raise Failed(
                f"`update` returns {name} of shape {np.shape(new)}, and it was given one of shape "
                f"{np.shape(old)}: shapes must stay."
            )
    return outcome


def check_arrays(subject: Subject) -> str:
    """Check that compiled inner steps are those of `update` on bare arrays."""
    if subject.has_own_model:
        raise NotApplicable("It knows the gradients of its own model only.")
    chain, rng = subject.built[1].chain, _rng()
    begin(subject.built[1])
    parts, state, algorithm = chain.parts, chain.state, chain.parts.algorithm
    carried = arrays(algorithm.initial_state(rng, chain.context()))
    counts, h = np.arange(STEPS), subject.settings["step_size"]
    planned, fixed = algorithm.planned(counts, tuning=False), arrays(chain.frame.coefficients)
    first = {name: values[0] for name, values in planned.items()} | fixed
    bare = BareUpdate(algorithm, carried, first, NormalGradient(*normal_posterior()))
    function, size = bare.function, algorithm.size
    # All rows, each once: the gradient is that of the posterior.
    rows, _ = draw_rows(parts, state, chain.frame, rng, 0)
    rows = [np.tile(np.arange(N_ROWS), (STEPS, 1)) for _ in rows]
    normals = rng.standard_normal((STEPS, parts.kernel.n_noise, size))
    q = rng.standard_normal(size)
    # W is N / n, 1 for all rows.
    inputs = parts.kernel.fixed(np.ones(len(rows)), fixed, parts.estimator.numbers(state.tuned))
    output = parts.kernel(
        q, tuple(carried.values()), np.full(STEPS, h), rows, normals, 0 * q, planned, inputs
    )
    here = [q, *carried.values()]
    for step in range(STEPS):
        numbers = {name: values[step] for name, values in planned.items()} | fixed
        given = [np.asarray(v, dtype=float) for v in (*here, h, normals[step], *numbers.values())]
        here = function(*given)
    for name, one, other in zip(["q", *carried], here, (output.q, *output.state), strict=True):
        if not np.allclose(one, other, rtol=ROUNDING, atol=ROUNDING, equal_nan=True):
            raise Failed(
                f"After {STEPS} steps {name} is {other}, and by `update` on bare arrays it is "
                f"{one}: look for an operation whose compiled code differs from its Python."
            )
    return f"{STEPS} compiled steps are those of `update` on bare arrays, to rounding."


def _twice(name: str, call: Callable[[], Any]) -> Any:
    first, again = call(), call()
    if not isinstance(first, Mapping):
        raise Failed(f"`{name}` returns a {type(first).__name__}: return a dict of arrays.")
    if not equal_values(*(_as_arrays(each) for each in (first, again))):
        raise Failed(f"`{name}` returns other values for the same inputs. {_PURE}")
    return first


def _as_arrays(values: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in values.items()}


def _held(algorithm: Algorithm) -> dict[str, Any]:
    """Return copies of what an algorithm holds; what cannot be copied, itself."""
    held = {}
    for owner in (type(algorithm), algorithm):
        for name, value in vars(owner).items():
            if isinstance(value, list | dict | set | np.ndarray | int | float):
                held[name] = copy.copy(value)
    return held


def _rng() -> np.random.Generator:
    return np.random.default_rng(3)
