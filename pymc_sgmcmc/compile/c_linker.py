"""The C code of a whole graph as one function.

PyTensor's virtual machine calls a function for each operation, each in a module that is compiled by
itself, and keeps account of what has been computed: with little data that takes longer than all
computing, and starting the compiler so often as long as compiling.
"""

from hashlib import sha256

from pytensor.configdefaults import config
from pytensor.graph.utils import MethodNotDefined
from pytensor.link.c.basic import CLinker, failure_code, struct_gen
from pytensor.link.vm import VMLinker

__all__ = ["OneFunction"]

FAILURE = "__failure"

RUN = "int run(void)"
"""How the function begins."""


class OneFunction(CLinker):
    """PyTensor's linker of C code, where each operation of a graph has some.

    Where one has none, and Python has to step in, it is PyTensor's virtual machine.
    """

    def accept(self, fgraph, no_recycling=None, profile=None):
        whole = _joined(fgraph, no_recycling)
        try:
            whole.code_gen()
            version, _ = whole.cmodule_key()
        except (NotImplementedError, MethodNotDefined):
            version = ()
        if version:  # else each process would compile it anew
            return whole
        whole.forget()
        return VMLinker(use_cloop=True).accept(fgraph, no_recycling, profile)


class _Joined(CLinker):
    """One that also tells operations which Python object an intermediate result is.

    Some ask for it, and PyTensor says it of the inputs and outputs of a function alone.
    """

    def code_gen(self):
        if getattr(self, "struct_code", False):
            return self.struct_code
        super().code_gen()
        tasks = zip(self.tasks, self.blocks, strict=True)
        steps = [(number, block) for (_, kind, number), block in tasks if kind == "code"]
        code = "".join(block.behavior for _, block in steps)
        for node, (number, block) in zip(self.node_order, steps, strict=True):
            fail = failure_code({"failure_var": FAILURE, "id": number})
            for result in node.outputs:
                name = self.r2symbol[result]
                if f"py_{name}" in code:
                    block.behavior += f"{{ {result.type.c_sync(name, {'fail': fail})} }}"
        names = {"failure_var": FAILURE, "name": self.struct_name}
        whole = struct_gen(self.args, self.init_blocks, self.blocks, names)
        # Each check for an error makes what follows it less probable: after some hundred, GCC takes
        # the rest for cold, and makes no vector code of its loops.
        self.struct_code = whole.replace(RUN, f"__attribute__((hot)) {RUN}")
        return self.struct_code

    def compile_args(self):
        # A block within a block for each result and operation: clang stops at 256, unless told.
        deep = ["-fbracket-depth=100000"] if "clang" in config.cxx else []
        return super().compile_args() + deep

    def make_thunk(self, **kwargs):
        made = super().make_thunk(**kwargs)
        self.forget()
        return made

    def forget(self) -> None:
        """Take from the graph what the linker has put there, and what cannot be pickled."""
        for parameters in self.node_params.values():
            self.fgraph.clients.pop(parameters, None)

    def __reduce__(self):
        return _joined, (self.fgraph, self.no_recycling)

    def cmodule_key(self):
        # PyTensor's key is the same for graphs whose constants or outputs, passed by position, are
        # in another order: one would be given the code, and with it the numbers, of the other.
        version, signature = super().cmodule_key()
        code = sha256(self.code_gen().encode()).hexdigest()
        return version and (*version, "pymc_sgmcmc", 3, code), signature


def _joined(fgraph, no_recycling) -> CLinker:
    return _Joined().accept(fgraph, no_recycling)
