"""A scan as a loop in C, where its inner function is one function in C.

PyTensor's own is written in Python around a loop in Cython: with little data, the slices that it
takes for each step take longer than all computing.
"""

from copy import copy

from pytensor.compile import Function, optdb
from pytensor.graph.basic import Apply
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.link.c.op import COp
from pytensor.link.c.type import generic
from pytensor.scan.op import Scan
from pytensor.tensor.type import TensorType

__all__ = ["LOOP", "Loop"]

LOOP = "pymc_sgmcmc_loop"
"""What a mode includes to have it."""


class Loop(COp):
    """A scan over sequences that keeps paths.

    A path is a buffer that begins with its start; one with fewer elements than there are steps, and
    a start, keeps the last ones in order.

    The inner function is in the tag of a node: PyTensor writes operations, as parts of the keys of
    compiled code, to disk.
    """

    __props__ = ("n_sequences", "n_paths", "in_place")
    params_type = generic

    def __init__(self, scan: Scan):
        self.n_sequences, self.n_paths = scan.info.n_seqs, scan.info.n_sit_sot
        self.destroy_map, self.in_place = scan.destroy_map, tuple(sorted(scan.destroy_map))

    def of(self, node: Apply, function: Function) -> Apply:
        """The loop of a scan with that inner function."""
        loop = Apply(self, node.inputs, [output.type() for output in node.outputs])
        loop.tag.step = _Step(function)
        return loop

    def perform(self, node, inputs, outputs):
        raise NotImplementedError("a loop has C code alone")

    def get_params(self, node):
        return node.tag.step

    def c_headers(self, **kwargs):
        return ["<algorithm>", "<vector>"]

    def c_code_cache_version(self):
        return (2,)

    def c_support_code(self, **kwargs):
        return _SUPPORT

    def c_support_code_struct(self, node, name):
        return f"pymc_sgmcmc_step step_{name};"

    def c_init_code_struct(self, node, name, sub):
        return f"if (!step_{name}.read({sub['params']})) {sub['fail']}"

    def c_cleanup_code_struct(self, node, name):
        return f"step_{name}.forget();"

    def c_code(self, node, name, inputs, outputs, sub):
        n_steps, *given = inputs
        buffers = enumerate(given[self.n_sequences :][: self.n_paths])
        own = [f"pymc_sgmcmc_own({path}, {int(k in self.in_place)})" for k, path in buffers]
        return f"""
        {{
            PyArrayObject* given[] = {{{", ".join(given)}}};
            PyArrayObject* paths[] = {{{", ".join(own)}}};
            const npy_intp n_steps = PyArray_PyIntAsIntp((PyObject*) {n_steps});
            const bool good = step_{name}.loop(
                n_steps, given, paths, {self.n_sequences}, {self.n_paths}, {len(given)});
            step_{name}.empty();
            if (!good) {{
                for (PyArrayObject* path : paths) Py_XDECREF(path);
                {sub["fail"]}
            }}
            {"".join(f"Py_XDECREF({out}); {out} = paths[{k}];" for k, out in enumerate(outputs))}
        }}
        """


class _Step:
    """The inner function as C code calls it: cells, lists of one, hold what it reads and writes.

    It pickles as its graph: where it is loaded, it is linked when the loop is.
    """

    def __init__(self, function: Function):
        self._maker, self._function = function.maker, function

    def __getstate__(self):
        return {"_maker": self._maker, "_function": None}

    @property
    def function(self) -> Function:
        if self._function is None:
            self._function = self._maker.create([None] * len(self._maker.inputs))
        return self._function

    thunk = property(lambda self: self.function.vm.cthunk)
    errors = property(lambda self: self.function.vm.error_storage)
    inputs = property(lambda self: [cell.storage for cell in self.function.input_storage])
    outputs = property(lambda self: [cell.storage for cell in self.function.output_storage])


_SUPPORT = """
// One element along the first axis of an array, as a view that moves.
struct pymc_sgmcmc_view
{
    PyArrayObject *of = NULL, *element = NULL;

    ~pymc_sgmcmc_view() { Py_XDECREF(element); }

    bool start(PyArrayObject* array, npy_intp least)
    {
        of = array;
        if (of == NULL) return false;
        if (PyArray_DIM(of, 0) < least) {
            PyErr_SetString(PyExc_ValueError, "there are more steps than elements in a sequence");
            return false;
        }
        Py_INCREF(PyArray_DESCR(of));
        element = (PyArrayObject*) PyArray_NewFromDescr(
            &PyArray_Type, PyArray_DESCR(of), PyArray_NDIM(of) - 1, PyArray_DIMS(of) + 1,
            PyArray_STRIDES(of) + 1, PyArray_BYTES(of), NPY_ARRAY_WRITEABLE, NULL);
        return element != NULL;
    }
    npy_intp length() { return PyArray_DIM(of, 0); }
    char* address(npy_intp k) { return PyArray_BYTES(of) + k % length() * PyArray_STRIDE(of, 0); }
    PyArrayObject* at(npy_intp k)
    {
        ((PyArrayObject_fields*) element)->data = address(k);
        return element;
    }
    // Let element k be `made`, which may have been written there already.
    bool keep(npy_intp k, PyArrayObject* made)
    {
        const int ndim = PyArray_NDIM(of) - 1;
        if (made == element && PyArray_BYTES(made) == address(k) && PyArray_NDIM(made) == ndim
            && PyArray_CompareLists(PyArray_DIMS(made), PyArray_DIMS(of) + 1, ndim)) {
            return true;  // and it has not been given another shape
        }
        pymc_sgmcmc_view there;
        return there.start(of, 1) && PyArray_CopyInto(there.at(k), made) == 0;
    }
    // Where the last elements of a path have been written in a circle, put the first one first.
    void order(npy_intp end)
    {
        if (end <= length()) return;
        char* begin = PyArray_BYTES(of);
        std::rotate(begin, address(end), begin + length() * PyArray_STRIDE(of, 0));
    }
};

// A path as one block of memory to write to: itself, or a copy.
static PyArrayObject* pymc_sgmcmc_own(PyArrayObject* path, bool in_place)
{
    if (!in_place || !PyArray_IS_C_CONTIGUOUS(path)) {
        return (PyArrayObject*) PyArray_NewCopy(path, NPY_CORDER);
    }
    Py_INCREF(path);
    return path;
}

static void pymc_sgmcmc_put(PyObject* cells, int k, void* value)
{
    PyObject *cell = PyList_GET_ITEM(cells, k), *before = PyList_GET_ITEM(cell, 0);
    Py_INCREF((PyObject*) value);
    PyList_SET_ITEM(cell, 0, (PyObject*) value);
    Py_XDECREF(before);
}

static PyArrayObject* pymc_sgmcmc_get(PyObject* cells, int k)
{
    return (PyArrayObject*) PyList_GET_ITEM(PyList_GET_ITEM(cells, k), 0);
}

struct pymc_sgmcmc_step
{
    PyObject *thunk, *errors, *inputs, *outputs;

    bool read(PyObject* step)
    {
        return (thunk = PyObject_GetAttrString(step, "thunk")) != NULL
            && (errors = PyObject_GetAttrString(step, "errors")) != NULL
            && (inputs = PyObject_GetAttrString(step, "inputs")) != NULL
            && (outputs = PyObject_GetAttrString(step, "outputs")) != NULL;
    }
    void forget()
    {
        Py_XDECREF(thunk);
        Py_XDECREF(errors);
        Py_XDECREF(inputs);
        Py_XDECREF(outputs);
    }

    bool run()
    {
        int (*function)(void*) = (int (*)(void*)) PyCapsule_GetPointer(thunk, NULL);
        if (function(PyCapsule_GetContext(thunk)) == 0) return true;
        PyObject* error[3];
        for (int k = 0; k < 3; k++) {
            error[k] = PyList_GET_ITEM(errors, k);
            Py_INCREF(Py_None);
            PyList_SET_ITEM(errors, k, Py_None);
        }
        if (error[2] == Py_None) Py_CLEAR(error[2]);  // no traceback
        PyErr_Restore(error[0], error[1], error[2]);
        return false;
    }

    // given: sequences, starts of paths, and what is fixed.
    bool loop(npy_intp n_steps, PyArrayObject** given, PyArrayObject** paths,
              int n_sequences, int n_paths, int n_given)
    {
        if (PyErr_Occurred()) return false;
        std::vector<pymc_sgmcmc_view> sequences(n_sequences), before(n_paths), after(n_paths);
        for (int k = 0; k < n_sequences; k++) {
            if (!sequences[k].start(given[k], n_steps)) return false;
        }
        for (int k = 0; k < n_paths; k++) {
            if (!before[k].start(paths[k], 1) || !after[k].start(paths[k], 1)) return false;
        }
        for (int k = n_sequences + n_paths; k < n_given; k++) pymc_sgmcmc_put(inputs, k, given[k]);
        for (npy_intp i = 0; i < n_steps; i++) {
            for (int k = 0; k < n_sequences; k++) {
                pymc_sgmcmc_put(inputs, k, sequences[k].at(i));
            }
            for (int k = 0; k < n_paths; k++) {
                pymc_sgmcmc_put(inputs, n_sequences + k, before[k].at(i));
                // In a path of one, it would be written while its last value is still read.
                const bool apart = after[k].length() > 1;
                pymc_sgmcmc_put(outputs, k, apart ? (void*) after[k].at(i + 1) : Py_None);
            }
            if (PyErr_CheckSignals() != 0 || !run()) return false;
            for (int k = 0; k < n_paths; k++) {
                if (!after[k].keep(i + 1, pymc_sgmcmc_get(outputs, k))) return false;
            }
        }
        for (int k = 0; k < n_paths; k++) after[k].order(n_steps + 1);
        return true;
    }
    // Hold on to no data between calls.
    void empty()
    {
        for (int k = 0; k < PyList_GET_SIZE(inputs); k++) pymc_sgmcmc_put(inputs, k, Py_None);
        for (int k = 0; k < PyList_GET_SIZE(outputs); k++) pymc_sgmcmc_put(outputs, k, Py_None);
    }
};
"""


@node_rewriter([Scan])
def _loop(fgraph, node):
    op, info = node.op, node.op.info
    others = info.n_mit_mot, info.n_mit_sot, info.n_nit_sot, info.n_untraced_sit_sot
    if info.as_while or any(others):
        return None
    if not all(isinstance(v.type, TensorType) for v in (*node.inputs, *node.outputs)):
        return None
    # That of a copy: the graph keeps `op` in its history, and would pickle its function with it.
    function = copy(op.clone()).fn
    return Loop(op).of(node, function).outputs if hasattr(function.vm, "cthunk") else None


# After all that looks for scans.
optdb.register(LOOP, in2out(_loop), position=102)
