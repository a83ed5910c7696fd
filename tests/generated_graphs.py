"""Random graphs compiled with this package's rewrites, against Python and NumPy.

    python -m tests.generated_graphs --count 2000 --seed 0

compiles them by fifties, as starting the compiler takes most of the time, evaluates each on values
of several layouts, and prints those that do not compile or whose numbers differ by more than
rounding: of these also whether PyTensor's own mode, without the rewrites, gives the same.
"""

import argparse
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import graph_inputs
from pytensor.printing import debugprint

from pymc_sgmcmc.compile.additions import SAID, quiet_compiler
from pymc_sgmcmc.compile.backend import FASTER_C, Backend
from pymc_sgmcmc.compile.c_subgraph import AS_ONE, as_one
from pymc_sgmcmc.compile.compiling import compiling
from pymc_sgmcmc.compile.fallback import plain_graph
from pymc_sgmcmc.compile.pytensor_versions import scan
from pymc_sgmcmc.compile.take_rows import take_rows
from tests.helpers import PYTHON
from tests.random_graphs import KNOWN, ONE, Graphs
from tests.rounding import Reference, agree

__all__ = ["failures"]

TOGETHER = 50
"""Graphs of a compiled function."""

LAYOUTS = {
    "C": np.copy,
    "Fortran": lambda x: x.copy(order="F"),
    "reversed": lambda x: np.flip(np.flip(x).copy()),
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x,
    "apart": lambda x: np.repeat(x, 3, axis=0)[::3] if x.ndim else x,
}


class Compiler:
    """A backend with some of its rewrites, and without its fallback."""

    def __init__(self, name: str, included: tuple[str, ...] | None = None):
        self._backend, self._included = Backend(name), included
        self._backend._register_numba_code()

    @property
    def mode(self):
        mode = self._backend.mode
        return mode.excluding(*(set(FASTER_C) - set(self._included))) if self._included else mode

    def __call__(self, inputs, outputs):
        with compiling(), _patiently():
            function = pytensor.function(inputs, outputs, mode=self.mode, on_unused_input="ignore")
        if SAID:
            raise RuntimeError(f"a rewrite failed: {SAID.pop()}")
        function.trust_input = True
        return function

    def plain(self, inputs, outputs):
        """The same without anything of this package."""
        mode = self._backend.plain
        with compiling(), _patiently():
            return pytensor.function(
                inputs, plain_graph(outputs, mode), mode=mode, on_unused_input="ignore"
            )

    def parts(self, graphs: list[Variable], rng: np.random.Generator) -> list[Variable]:
        """Return the graphs: of fifty, one as a function of its own, two as a loop's start."""
        mode, made = self._backend.one_function and self.mode, list(graphs)
        for k in rng.permutation(len(made))[: len(made) // 25]:
            made[k] = _looped(made[k], rng, mode)
        if mode is not None and (self._included is None or AS_ONE in self._included):
            for k in rng.permutation(len(made))[: len(made) // 50]:
                given = [v for v in graph_inputs([made[k]]) if not isinstance(v, Constant)]
                with compiling(), _patiently():
                    [made[k]] = as_one(given, [made[k]], mode)
        return made


def _looped(start: Variable, rng: np.random.Generator, mode) -> Variable:
    """Return the path of a loop like that of inner steps, or its end."""
    if not start.type.dtype.startswith("float") or start.type.ndim > 2:
        return start
    function, limit = ONE[rng.integers(len(ONE))], pt.constant(4, dtype=start.type.dtype)

    def step(u, row, q, data):
        moved = pt.tanh(function(pt.clip(q, -limit, limit))) * u + 0.5 * q
        return (moved + take_rows(data, row).mean()).astype(q.type.dtype)

    sequences = [pt.constant(rng.normal(size=4)), pt.constant(rng.integers(5, size=(4, 2)))]
    data = pt.constant(rng.normal(size=(5, 2)))
    kwargs = {"outputs_info": [start], "non_sequences": [data], "mode": mode}
    [path] = scan(step, sequences=sequences, **kwargs)
    return path if rng.random() < 0.5 else path[-1]


@contextmanager
def _patiently():
    """Leave out rewrites of PyTensor that fail, without a word."""
    with quiet_compiler(), pytensor.config.change_flags(on_opt_error="ignore"):
        logging.disable(logging.ERROR)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def values_of(graphs: Graphs, layout: str, rng: np.random.Generator) -> list[np.ndarray]:
    n, m = (rng.choice([0, 1], size=2) if graphs.empty else rng.choice([2, 4, 7], size=2)).tolist()
    length = {"n": n, "m": m, "k": KNOWN, "1": 1}
    values = []
    for given in graphs.inputs:
        shape, dtype = tuple(length[axis] for axis in given.axes), given.dtype
        if hasattr(given.of.tag, "below"):
            below = length[given.of.tag.below]
            value = rng.integers(-below, below, size=shape) if below else np.zeros(shape)
            value = value.clip(1 - below, None) if below else value  # also for its absolute value
        elif given.is_float:
            value = 2 * rng.normal(size=shape)
            value = np.where(rng.random(shape) < 0.1, np.round(value), value)
            if layout == "apart":
                value = np.where(rng.random(shape) < 0.03, rng.choice([np.nan, np.inf]), value)
        else:
            value = rng.integers(0 if dtype in ("uint8", "bool") else -5, 6, size=shape)
        values.append(np.asarray(LAYOUTS[layout](np.asarray(value).astype(dtype))))
    return values


def failures(
    compiler: Compiler, seed: int, count: int = TOGETHER, empty: bool = False
) -> Iterator[str]:
    """Yield a description of each of `count` random graphs that fails."""
    rng = np.random.default_rng(seed)
    graphs = Graphs(rng, empty)
    outputs = compiler.parts([graphs.graph() for _ in range(count)], rng)
    yield from _failures(compiler, graphs, outputs, seed)


def _failures(compiler, graphs, outputs, seed):
    inputs = [x.of for x in graphs.inputs]
    try:
        function = compiler(inputs, outputs)
    except Exception as error:
        yield from _halves(compiler, graphs, outputs, seed, error)
        return
    reference, bad = Reference(inputs, plain_graph(outputs, PYTHON)), {}
    for k, layout in enumerate(LAYOUTS):
        values = values_of(graphs, layout, np.random.default_rng([seed, k]))
        copies = [value.copy() for value in values]
        try:
            found = function(*values)
        except Exception as error:
            yield from _halves(compiler, graphs, outputs, seed, error)
            return
        if any(not np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
               for a, b in zip(values, copies, strict=True)):  # fmt: skip
            yield f"seed {seed}: an input was overwritten"
        for i, (value, (exact, bounds)) in enumerate(
            zip(found, reference.bounds(values, seed), strict=True)
        ):
            if not agree(value, exact, bounds):
                bad.setdefault(i, (layout, values, value, exact))
    for i, (layout, values, value, exact) in bad.items():
        own = compiler.plain(inputs, [outputs[i]])(*values)[0]
        as_own = own.dtype == value.dtype and np.array_equal(
            own, value, equal_nan=own.dtype.kind == "f"
        )
        verdict = "as PyTensor's own mode" if as_own else "PyTensor's own mode: " + _short(own)
        yield (
            f"{'own' if as_own else 'WRONG'}: seed {seed}, graph {i}, layout {layout}: "
            f"{_short(value)} is not {_short(exact)} ({verdict})\n{_text(outputs[i])}"
        )


def _halves(compiler, graphs, outputs, seed, error):
    if len(outputs) > 1:
        middle = len(outputs) // 2
        for half in (outputs[:middle], outputs[middle:]):
            yield from _failures(compiler, graphs, half, seed)
        return
    try:
        inputs = [x.of for x in graphs.inputs]
        own = compiler.plain(inputs, outputs)
        for k, layout in enumerate(LAYOUTS):
            own(*values_of(graphs, layout, np.random.default_rng([seed, k])))
    except Exception as of_plain:
        if type(of_plain) is type(error):
            yield f"own: seed {seed}: {type(error).__name__}: {str(error).splitlines()[0][:200]}"
            return
    yield f"ERROR: seed {seed}: {type(error).__name__}: {str(error)[:1500]}\n{_text(outputs[0])}"


def _short(value):
    return f"{np.asarray(value).dtype}{np.asarray(value).shape} " + np.array2string(
        np.asarray(value), threshold=12, precision=17
    ).replace("\n", "")


def _text(output):
    return debugprint(output, file="str", print_type=True)


def compilers(backend: str, rng: np.random.Generator) -> Compiler:
    """All rewrites, or some of them."""
    if backend != "c" or rng.random() < 0.5:
        return Compiler(backend)
    return Compiler(backend, tuple(name for name in FASTER_C if rng.random() < 0.5))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    pytensor.config.traceback__limit = 0
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="c")
    given = parser.parse_args()
    start, failed, own = time.perf_counter(), 0, 0
    for k in range(-(-given.count // TOGETHER)):
        rng = np.random.default_rng([given.seed, k])
        seed, empty = int(rng.integers(2**31)), rng.random() < 0.15
        compiler = compilers(given.backend, rng)
        for text in failures(compiler, seed, min(TOGETHER, given.count - k * TOGETHER), empty):
            failed += not text.startswith("own")
            own += text.startswith("own")
            print(text, flush=True)
        print(f"{k}: {time.perf_counter() - start:.0f} s", flush=True)
    print(f"{given.count} graphs, {failed} failures ({own} as in PyTensor's own mode), "
          f"{time.perf_counter() - start:.0f} s")  # fmt: skip


if __name__ == "__main__":
    main()
