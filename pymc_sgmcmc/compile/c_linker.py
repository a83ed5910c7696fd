"""Linker that compiles a whole graph to one C function.

PyTensor's virtual machine calls one function for each operation, compiles each in a module of its
own, and keeps track of computed values. With little data this overhead exceeds the computation, and
starting the compiler so often takes as long as compiling.
"""

from hashlib import sha256
from itertools import takewhile

from pytensor.configdefaults import config

from pymc_sgmcmc.compile.pytensor_internals import (
    FAILURE,
    RUN,
    CLinker,
    MethodNotDefined,
    VMLinker,
    failure_code,
    struct_gen,
)

__all__ = ["OneFunction"]


class OneFunction(CLinker):
    """PyTensor's C linker, if each operation of a graph has C code.

    If an operation has none and Python must compute it, use PyTensor's virtual machine.
    """

    def accept(self, fgraph, no_recycling=None, profile=None):
        whole = _joined(fgraph, no_recycling)
        try:
            whole.code_gen()
            version, _ = whole.cmodule_key()
        except (NotImplementedError, MethodNotDefined):
            version = ()
        if version:  # without a version each process would compile the code again
            return whole
        whole.forget()
        return VMLinker(use_cloop=True).accept(fgraph, no_recycling, profile)


class _Joined(CLinker):
    """A C linker that also syncs intermediate results to their Python objects.

    The C code of some operations reads the Python object of a result. PyTensor provides it for the
    inputs and outputs of a function only.
    """

    def code_gen(self):
        if code := getattr(self, "struct_code", ""):
            return code
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
        # GCC takes the code after each error check for less probable. After some hundred checks it
        # treats the rest as cold and does not vectorize its loops.
        self.struct_code = whole.replace(RUN, f"__attribute__((hot)) {RUN}")
        return self.struct_code

    def compile_args(self):
        # The code nests one block for each result and operation, and clang stops at 256 levels.
        deep = ["-fbracket-depth=100000"] if "clang" in config.cxx else []
        return super().compile_args() + deep

    def make_thunk(self, **kwargs):
        made = super().make_thunk(**kwargs)
        self.forget()
        return made

    def forget(self) -> None:
        """Remove the clients that the linker added to the graph, which cannot be pickled."""
        for parameters in self.node_params.values():
            self.fgraph.clients.pop(parameters, None)

    def __reduce__(self):
        return _joined, (self.fgraph, self.no_recycling)

    def cmodule_key(self):
        # PyTensor's key has the operations. It ignores the order of constants and outputs, which
        # are passed by position: two such graphs would share code, and one would return the numbers
        # of the other. And a process unpickles the keys of all modules in the cache when it first
        # compiles, and hashes their operations: 2 ms for each module of a graph. The whole of the
        # code tells graphs apart, in 64 characters.
        version, signature = super().cmodule_key()
        code = sha256(self.get_src_code().encode()).hexdigest()
        options = takewhile(_is_text, signature)
        return version and (*version, "pymc_sgmcmc", 4), (*options, code)


def _is_text(part) -> bool:
    """Return whether a part of PyTensor's key is of the compiler's options, and no operation."""
    return isinstance(part, str) or all(isinstance(option, str) for option in part)


def _joined(fgraph, no_recycling) -> CLinker:
    for given in fgraph.inputs:  # PyTensor 2's rewrites may forget one that is not used
        fgraph.clients.setdefault(given, [])
    return _Joined().accept(fgraph, no_recycling)
