"""Operations whose C code calls the C function of an inner graph."""

from pytensor.compile import Function
from pytensor.graph.basic import Apply

from pymc_sgmcmc.compile.c_header import HeaderOp
from pymc_sgmcmc.compile.pytensor_internals import call_parts, generic, link

__all__ = ["CallsInner", "Inner"]


class CallsInner(HeaderOp):
    """An operation whose C code has an object ``inner_{name}`` that calls the inner function.

    The inner function is stored in the tag of a node, not in the operation: PyTensor writes
    operations to disk, as parts of the keys of compiled code.
    """

    header, version = "c_call.h", 4
    params_type = generic

    def of(self, node: Apply, inner: "Inner") -> Apply:
        """Return a node of this op with the inputs of `node` and with `inner` in its tag."""
        made = Apply(self, node.inputs, [output.type() for output in node.outputs])
        made.tag.inner = inner
        return made

    def perform(self, node, inputs, outputs):
        raise NotImplementedError(f"{self} has C code alone")

    def get_params(self, node):
        return node.tag.inner

    def c_support_code_struct(self, node, name):
        return f"pymc_sgmcmc_inner inner_{name};"

    def c_init_code_struct(self, node, name, sub):
        return f"if (!inner_{name}.read({sub['params']})) {sub['fail']}"

    def c_cleanup_code_struct(self, node, name):
        return f"inner_{name}.forget();"


class Inner:
    """An inner function in the form that C code calls.

    Its inputs and outputs are cells: lists of one element. The function pickles as its graph and
    is linked again when the operation that calls it is linked.
    """

    def __init__(self, function: Function):
        self._maker, self._function = function.maker, function

    def __getstate__(self):
        return {"_maker": self._maker, "_function": None}

    @property
    def function(self) -> Function:
        if self._function is None:
            self._function = link(self._maker)
        return self._function

    thunk = property(lambda self: call_parts(self.function)[0])
    errors = property(lambda self: call_parts(self.function)[1])
    inputs = property(lambda self: call_parts(self.function)[2])
    outputs = property(lambda self: call_parts(self.function)[3])
