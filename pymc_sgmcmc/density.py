"""The terms of a PyMC model's log-density."""

from collections.abc import Mapping

from pymc import Model
from pymc.logprob.utils import local_check_parameter_to_ninf_switch
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import clone_replace
from pytensor.graph.rewriting.basic import in2out
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.tensor.variable import TensorVariable

__all__ = ["log_density_terms", "stabilized"]


def log_density_terms(
    model: Model, shared: Mapping[TensorVariable, SharedVariable]
) -> dict[TensorVariable, TensorVariable]:
    """Return the elementwise log-density of each random variable and potential, with Jacobians.

    A parameter outside its range makes it -inf, where PyMC's graph raises: a chain that leaves the
    support is rolled back, it does not end. `shared` stand for the values that are not sampled.
    """
    variables = [*model.free_RVs, *model.observed_RVs, *model.potentials]
    terms = clone_replace(model.logp(vars=variables, sum=False), shared, rebuild_strict=False)
    graph = FunctionGraph(outputs=terms, clone=False)
    in2out(local_check_parameter_to_ninf_switch).rewrite(graph)
    return dict(zip(variables, graph.outputs, strict=True))


def stabilized(value: TensorVariable) -> TensorVariable:
    """The same value by numerically stable operations."""
    return rewrite_graph(value, include=("stabilize",), clone=False)
