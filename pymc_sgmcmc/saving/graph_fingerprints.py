"""Digests of PyTensor graphs, of their operations, and of models."""

from collections.abc import Sequence
from typing import Any

from pymc import Model
from pytensor.compile import Function
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import HasInnerGraph, Op
from pytensor.graph.traversal import toposort
from pytensor.graph.type import Type
from pytensor.tensor.random.type import RandomType

from pymc_sgmcmc.saving.fingerprints import Fingerprints, NotIdentified
from pymc_sgmcmc.saving.libraries import is_library

__all__ = ["GraphFingerprints", "describe_model", "value_of_data"]

ASIDE = {"fgraph", "mode", "profile", "name", "allow_gc", "strict"}
"""Attributes of operations that do not change their results."""


class GraphFingerprints(Fingerprints):
    """Digests of values, including graphs.

    Constants are identified by their place in the graph and their data, and shared variables by
    their place and their present value. Other inputs are identified by their place if they are
    declared, else by their name.
    """

    def special(self, value: Any) -> tuple | None:
        if isinstance(value, Variable):
            return "graph", self.graph([value])
        if isinstance(value, Op):
            return self._op(value)
        if isinstance(value, Type):
            return "type", type(value).__name__, value
        if isinstance(value, Function):
            graph = value.maker.fgraph
            kept = [container.value for container in value.input_storage]
            inputs = len(graph.inputs) - len(value.get_shared())
            return (
                "compiled graph",
                self.graph(graph.outputs, graph.inputs),
                *self._each(kept[inputs:]),
            )
        if isinstance(value, Model):
            parts, data, unknown = describe_model(value)
            if unknown:
                raise NotIdentified("; ".join(unknown.values()))
            held = {name: value_of_data(variable) for name, variable in data.items()}
            return "model", *self._each((parts, held))
        return None

    def graph(self, outputs: Sequence[Variable], inputs: Sequence[Variable] = ()) -> bytes:
        """Return the digest of `outputs` as functions of `inputs`."""
        known = {v: self._hash("input", place, v.type) for place, v in enumerate(inputs)}
        for node in toposort(outputs, blockers=inputs):
            digests = [self._known(known, variable) for variable in node.inputs]
            digest = self._hash("node", self.digest(node.op), *digests)
            for place, output in enumerate(node.outputs):
                known.setdefault(output, self._hash("output", digest, place, output.type))
        return self._hash("outputs", *(self._known(known, output) for output in outputs))

    def _known(self, known: dict[Variable, bytes], variable: Variable) -> bytes:
        if variable not in known:
            known[variable] = self._hash(*self.leaf(variable))
        return known[variable]

    def leaf(self, variable: Variable) -> tuple:
        """Return the parts that identify a variable without an owner."""
        if isinstance(variable, Constant):
            return "constant", variable.type, self.digest(variable.data)
        if isinstance(variable, SharedVariable):
            return "shared", variable.type, self.digest(variable.get_value(borrow=True))
        return "free", variable.name, variable.type

    def _op(self, op: Op) -> tuple:
        names = getattr(op, "__props__", None)
        if names is None:
            names = [name for name in vars(op) if name not in ASIDE]
            if is_library(type(op).__module__):  # a library's private attributes are caches
                names = [name for name in names if not name.startswith("_")]
        inner = b""
        if isinstance(op, HasInnerGraph):
            inner = self.graph(op.inner_outputs, op.inner_inputs)
        kept = {name: getattr(op, name) for name in names}
        return "operation", self.digest(type(op)), inner, *self._items(kept)


class ModelFingerprints(GraphFingerprints):
    """Digests of the graphs of one model, with data identified by the name of their variable.

    Attributes
    ----------
    data : dict of str to variable
        The data found so far: `pm.Data` and other shared variables, and observed constants.
    """

    def __init__(self, model: Model):
        super().__init__()
        self.data: dict[str, Variable] = {}
        self._names: dict[Variable, str] = {}
        self._observed = {model.rvs_to_values[rv]: rv.name for rv in model.observed_RVs}

    def leaf(self, variable: Variable) -> tuple:
        if variable in self._observed and isinstance(variable, Constant):
            return "data", self._name(variable, f"observed {self._observed[variable]}")
        if isinstance(variable, SharedVariable) and isinstance(variable.type, RandomType):
            return "random numbers", variable.type
        if isinstance(variable, SharedVariable):
            return "data", variable.type, self._name(variable, variable.name or "unnamed")
        return super().leaf(variable)

    def _name(self, variable: Variable, name: str) -> str:
        """Return the name of these data, with their place if other data have the same name."""
        if variable not in self._names:
            if name in self.data:
                name = f"{name} ({len(self.data)})"
            self._names[variable], self.data[name] = name, variable
        return self._names[variable]


def describe_model(model: Model) -> tuple[dict[str, Any], dict[str, Variable], dict[str, str]]:
    """Return the parts of a model without its data; its data by name; and unidentified parts."""
    prints, unknown = ModelFingerprints(model), {}

    def describe(name: str, graph: Variable) -> str:
        try:
            return prints.graph([graph]).hex()[:32]
        except (NotIdentified, RecursionError) as error:
            unknown[name] = str(error)
            return "not identified"

    terms = [*model.free_RVs, *model.observed_RVs, *model.potentials]
    densities = zip(terms, model.logp(sum=False), strict=True)
    graphs = model.replace_rvs_by_values(model.unobserved_RVs)
    stored = zip(model.unobserved_RVs, graphs, strict=True)
    parts = {
        "variables": {value.name: str(value.type) for value in model.value_vars},
        "log-density": {term.name: describe(term.name, graph) for term, graph in densities},
        "stored variables": {var.name: describe(var.name, graph) for var, graph in stored},
    }
    return parts, prints.data, unknown


def value_of_data(variable: Variable) -> Any:
    """Return the present value, not a copy, of a variable that `describe_model` lists as data."""
    return variable.data if isinstance(variable, Constant) else variable.get_value(borrow=True)
