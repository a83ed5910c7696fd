// Calls of a C function, once or in a loop, and views that move along its arrays.

#pragma once

#include <Python.h>
#include <numpy/arrayobject.h>

#include <algorithm>
#include <vector>

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
static inline PyArrayObject* pymc_sgmcmc_own(PyArrayObject* path, bool in_place)
{
    if (!in_place || !PyArray_IS_C_CONTIGUOUS(path)) {
        return (PyArrayObject*) PyArray_NewCopy(path, NPY_CORDER);
    }
    Py_INCREF(path);
    return path;
}

static inline void pymc_sgmcmc_put(PyObject* cells, int k, void* value)
{
    PyObject *cell = PyList_GET_ITEM(cells, k), *before = PyList_GET_ITEM(cell, 0);
    Py_INCREF((PyObject*) value);
    PyList_SET_ITEM(cell, 0, (PyObject*) value);
    Py_XDECREF(before);
}

static inline PyArrayObject* pymc_sgmcmc_get(PyObject* cells, int k)
{
    return (PyArrayObject*) PyList_GET_ITEM(PyList_GET_ITEM(cells, k), 0);
}

// The function of an object `Inner` of Python.
struct pymc_sgmcmc_inner
{
    PyObject *thunk, *errors, *inputs, *outputs;

    bool read(PyObject* inner)
    {
        return (thunk = PyObject_GetAttrString(inner, "thunk")) != NULL
            && (errors = PyObject_GetAttrString(inner, "errors")) != NULL
            && (inputs = PyObject_GetAttrString(inner, "inputs")) != NULL
            && (outputs = PyObject_GetAttrString(inner, "outputs")) != NULL;
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

    // Call it once. made: references to what it returns.
    bool call(PyArrayObject** given, int n_given, PyArrayObject** made, int n_made)
    {
        if (PyErr_Occurred()) return false;
        for (int k = 0; k < n_given; k++) pymc_sgmcmc_put(inputs, k, given[k]);
        if (!run()) return false;
        for (int k = 0; k < n_made; k++) {
            made[k] = pymc_sgmcmc_get(outputs, k);
            Py_INCREF(made[k]);
        }
        return true;
    }
    // Call it in a loop. given: sequences, starts of paths, and what is fixed.
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
