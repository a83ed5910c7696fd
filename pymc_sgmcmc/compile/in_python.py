"""Graphs that run in Python and NumPy: slow to call, but there at once."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytensor
from pytensor.compile import Function
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import graph_inputs

from pymc_sgmcmc.compile.additions import plainly
from pymc_sgmcmc.compile.compiling import one_at_a_time
from pymc_sgmcmc.compile.few_operands import FEW_OPERANDS
from pymc_sgmcmc.compile.inlined import INLINED
from pymc_sgmcmc.compile.numpy_functions import NUMPY_FUNCTIONS
from pymc_sgmcmc.compile.pytensor_internals import Mode

__all__ = ["MULTIPLIED_OUT", "interpreted", "interpreting", "simplified"]

MULTIPLIED_OUT = "local_mul_canonizer", "local_greedy_distributor"
"""Rewrites of products that take a third of the time on second derivatives, and save none."""


def _mode(optimizer: str, *more: str) -> Mode:
    mode = Mode(linker="py", optimizer=optimizer)
    return mode.including(FEW_OPERANDS, INLINED, *more).excluding(*MULTIPLIED_OUT)


def interpreted(
    inputs: Sequence[Variable], outputs: Sequence[Variable], *, optimizer: str = "fast_compile"
) -> Function:
    """Return a function that runs in Python; `optimizer`: "merge" for what is `simplified`."""
    with one_at_a_time():
        mode = _mode(optimizer, NUMPY_FUNCTIONS)
        return pytensor.function(inputs, outputs, mode=mode, on_unused_input="ignore")


def simplified(outputs: Sequence[Variable]) -> Sequence[Variable]:
    """Return the graphs as an interpreted function has them, of the same variables."""
    inputs = [x for x in graph_inputs(outputs) if not isinstance(x, Constant)]
    with one_at_a_time():
        graph = FunctionGraph(inputs, list(outputs), clone=True)
        _mode("fast_compile").optimizer.rewrite(graph)
    return clone_replace(graph.outputs, dict(zip(graph.inputs, inputs, strict=True)))


@contextmanager
def interpreting() -> Iterator[dict[str, Any]]:
    """Leave our additions out, and yield `compile_kwargs` with which kernels run in Python."""
    with plainly():
        yield {"mode": Mode(linker="py", optimizer="fast_compile")}
