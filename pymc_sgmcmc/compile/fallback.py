"""PyTensor's plain mode, for graphs that this package's code fails to compile."""

from collections.abc import Sequence

from pytensor.graph.basic import Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.traversal import toposort

from pymc_sgmcmc.compile.c_linker import OneFunction
from pymc_sgmcmc.compile.c_subgraph import Part
from pymc_sgmcmc.compile.pytensor_internals import Mode, Scan, get_mode, inner_graph, remake_scan
from pymc_sgmcmc.compile.take_rows import TakeRows

__all__ = ["plain_graph", "plain_mode"]


def plain_mode(mode: str | Mode) -> Mode:
    """Return `mode` without the rewrite "gemm_optimizer", which gives wrong results.

    PyTensor (2.38 and 3.3) turns the sum of a matrix product and other terms into one call of BLAS
    and drops terms of another type: the integers y in y - (X @ b + z), for instance.
    """
    return get_mode(mode).excluding("gemm_optimizer")


def plain_graph(outputs: Sequence[Variable], mode: Mode) -> list[Variable]:
    """Return `outputs` computed by PyTensor's own operations alone, with scans in `mode`."""
    made: dict[Variable, Variable] = {}
    for node in toposort(list(outputs)):
        inputs = [made.get(variable, variable) for variable in node.inputs]
        if isinstance(node.op, TakeRows):
            x, rows = inputs
            new = [x[rows]]
        elif isinstance(node.op, Part):
            new = clone_replace(node.op.outputs, dict(zip(node.op.inputs, inputs, strict=True)))
        elif isinstance(node.op, Scan):
            new = _plain_scan(node.op, mode).make_node(*inputs).outputs
        elif any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
            new = node.clone_with_new_inputs(inputs, strict=False).outputs
        else:
            continue
        made.update(zip(node.outputs, new, strict=True))
    return [made.get(variable, variable) for variable in outputs]


def _plain_scan(op: Scan, mode: Mode) -> Scan:
    inner = inner_graph(op)
    plain = FunctionGraph(inner.inputs, plain_graph(inner.outputs, mode), clone=True)
    is_ours = isinstance(get_mode(op.mode).linker, OneFunction)
    return remake_scan(op, plain.inputs, plain.outputs, mode=mode if is_ours else op.mode)
