"""Evaluation of graphs node by node, because rewriting and compiling them takes far longer."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.exceptions import AxisError
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Variable
from pytensor.graph.op import HasInnerGraph, Op
from pytensor.graph.traversal import toposort

from pymc_sgmcmc.compile.few_operands import has_too_many_operands
from pymc_sgmcmc.compile.in_python import interpreted
from pymc_sgmcmc.compile.numpy_functions import by_numpy
from pymc_sgmcmc.compile.pytensor_internals import inner_graph

__all__ = ["evaluate"]


def evaluate(graphs: Sequence[Variable], given: Mapping[Variable, np.ndarray]) -> list[np.ndarray]:
    """Return the values of `graphs`, with the `given` values of variables without an owner.

    If an operation cannot be computed by itself, evaluate the graphs as one function in Python.
    """
    try:
        return _node_by_node(graphs, given)
    except (NotImplementedError, AxisError):  # PyTensor has sums of a number along its last axis
        return interpreted(list(given), list(graphs))(*given.values())


def _node_by_node(graphs, given) -> list[np.ndarray]:
    nodes = list(toposort(graphs))
    # Drop values after their last use, because each may be as long as the data.
    last = {x: node for node in nodes for x in node.inputs}
    for x in graphs:
        last.pop(x, None)
    storage = {x: [value] for x, value in given.items()}
    computed = {x: [True] for x in given}

    def cell(x: Variable) -> list:
        if x not in storage:
            is_shared = isinstance(x, SharedVariable)
            storage[x] = [x.get_value(borrow=True) if is_shared else x.data]
            computed[x] = [True]
        return storage[x]

    for node in nodes:
        if has_too_many_operands(node):
            raise NotImplementedError(f"{node.op} of {len(node.inputs)} operands")
        inputs = [cell(x)[0] for x in node.inputs]
        for x in node.outputs:
            storage[x], computed[x] = [None], [False]
        if isinstance(node.op, OpFromGraph):  # it would compile its graph
            inner = inner_graph(node.op)
            found = _node_by_node(inner.outputs, dict(zip(inner.inputs, inputs, strict=True)))
            for x, value in zip(node.outputs, found, strict=True):
                storage[x][0] = value
        else:
            op = _own(node.op)
            op.prepare_node(node, storage, computed, "py")
            op.perform(node, inputs, [storage[x] for x in node.outputs])
        for x in node.outputs:
            computed[x][0] = True
        for x in node.inputs:
            if x.owner is not None and last.get(x) is node:
                storage[x][0] = None
    return [cell(x)[0] for x in graphs]


def _own(op: Op) -> Op:
    """Return the operation to perform for `op`: NumPy's where PyTensor's is slow, a copy of a scan.

    A scan would keep the graph that it rewrites, of which no gradient can be taken.
    """
    return op.clone() if isinstance(op, HasInnerGraph) else by_numpy(op)
