"""Graphs built anew on inputs of other shapes."""

from collections.abc import Iterable, Mapping
from copy import copy

from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.traversal import toposort
from pytensor.graph.type import Type
from pytensor.tensor.type import TensorType

from pymc_sgmcmc.compile.pytensor_internals import Scan, forget_compiled, inner_graph, remake_scan

__all__ = ["rebuild"]


def rebuild(
    outputs: Iterable[Variable],
    replacements: Mapping[Variable, Variable],
    strip: type[Op] | tuple = (),
) -> dict[Variable, Variable]:
    """Rebuild the variables that depend on replaced ones, whose static shapes may differ.

    Parameters
    ----------
    outputs : iterable of variables
    replacements : mapping
        From a variable, with an owner or an input, to its replacement.
    strip : type of Op, optional
        Replace nodes of such an op by their first input.

    Returns
    -------
    dict
        `replacements`, and each rebuilt variable by its original. Other variables are unchanged.
    """
    rebuilt = dict(replacements)
    for node in toposort(list(outputs)):
        if isinstance(node.op, strip):
            rebuilt[node.outputs[0]] = rebuilt.get(node.inputs[0], node.inputs[0])
            continue
        inputs = [rebuilt.get(variable, variable) for variable in node.inputs]
        if rebuilt.keys() >= set(node.outputs) or all(
            new is old for new, old in zip(inputs, node.inputs, strict=True)
        ):
            continue
        for old, new in zip(node.outputs, _remake(node, inputs).outputs, strict=True):
            if old not in replacements:
                new.name = old.name
                rebuilt[old] = new
    return rebuilt


def _remake(node: Apply, inputs: list[Variable]) -> Apply:
    if any(new.type != old.type for new, old in zip(inputs, node.inputs, strict=True)):
        if isinstance(node.op, OpFromGraph):
            return Apply(*_retyped(node.op, inputs))
        if isinstance(node.op, Scan):
            return _loosened(node.op).make_node(*inputs)
    return node.clone_with_new_inputs(inputs, strict=False)


def _retyped(op: OpFromGraph, inputs: list[Variable]):
    """Return a copy of `op` for `inputs`, these inputs, and new outputs, as arguments of `Apply`.

    The static shapes of the inner graph are rebuilt for the types of `inputs`. PyMC writes
    mixtures, censored and custom distributions as such ops and recognizes them by their class, so
    the new op has the same class.
    """
    graph = inner_graph(op)
    new = _on(graph, [variable.type() for variable in inputs])
    result = copy(op)
    result.input_types = [variable.type for variable in new.inputs]
    result.output_types = [variable.type for variable in new.outputs]
    result.fgraph = new if graph is op.fgraph else new.freeze()
    forget_compiled(result)
    return result, inputs, [type() for type in result.output_types]


def _loosened(op: Scan) -> Scan:
    """Return `op` with unknown lengths in its inner graph, because it checks static lengths."""
    graph = inner_graph(op)
    new = _on(graph, [_of_any_length(variable.type)() for variable in graph.inputs])
    return remake_scan(op, new.inputs, new.outputs)


def _of_any_length(type: Type) -> Type:
    """Return `type` without its static lengths, except lengths of 1."""
    if not isinstance(type, TensorType):
        return type
    return type.clone(shape=[1 if n == 1 else None for n in type.shape])


def _on(graph: FunctionGraph, inputs: list[Variable]) -> FunctionGraph:
    """Return a copy of `graph` with these inputs."""
    rebuilt = rebuild(graph.outputs, dict(zip(graph.inputs, inputs, strict=True)))
    return FunctionGraph(inputs, [rebuilt.get(v, v) for v in graph.outputs], clone=True)
