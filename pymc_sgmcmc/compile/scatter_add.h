// Addition at indices.

#pragma once

#include <Python.h>
#include <numpy/arrayobject.h>

// Move `to` along an axis of `of` to the index that `it` is at, and `it` to the next index.
template <typename index_t>
static inline bool pymc_sgmcmc_move(
    char*& to, PyArrayObject* of, int axis, PyArrayIterObject* it)
{
    const npy_intp n = PyArray_DIM(of, axis);
    npy_intp k = *(index_t*) PyArray_ITER_DATA(it);
    k += k < 0 ? n : 0;
    if (k < 0 || k >= n) return false;
    to += k * PyArray_STRIDE(of, axis);
    PyArray_ITER_NEXT(it);
    return true;
}

// Let *out be x with y added at `indices`, arrays of one shape for its first axes. The type of each
// may be another. Return false with Python's error set if it cannot be.
template <typename number, typename... index_t>
static inline bool pymc_sgmcmc_scatter_add(
    PyArrayObject* x, PyArrayObject* y, PyArrayObject* const (&indices)[sizeof...(index_t)],
    bool in_place, PyArrayObject** out)
{
    const int axes = sizeof...(index_t), ndim = PyArray_NDIM(indices[0]);
    if (in_place && PyArray_IS_C_CONTIGUOUS(x)) {
        Py_INCREF(x);
        Py_XDECREF(*out);
        *out = x;
    } else {
        Py_XDECREF(*out);
        *out = (PyArrayObject*) PyArray_NewCopy(x, NPY_CORDER);
        if (*out == NULL) return false;
    }
    for (PyArrayObject* other : indices) {
        if (!PyArray_SAMESHAPE(indices[0], other)) {
            PyErr_SetString(PyExc_ValueError, "indices have different shapes");
            return false;
        }
    }
    npy_intp shape[NPY_MAXDIMS], block = 1;
    for (int k = 0; k < ndim; k++) shape[k] = PyArray_DIM(indices[0], k);
    for (int k = axes; k < PyArray_NDIM(*out); k++) {
        shape[ndim - axes + k] = PyArray_DIM(*out, k);
        block *= PyArray_DIM(*out, k);
    }
    const int all = ndim - axes + PyArray_NDIM(*out);
    PyArrayIterObject* y_it = (PyArrayIterObject*) PyArray_BroadcastToShape(
        (PyObject*) y, shape, all);
    if (y_it == NULL) return false;
    PyArrayIterObject* its[axes];
    for (int axis = 0; axis < axes; axis++) {  // one may be that of two axes: a diagonal
        its[axis] = (PyArrayIterObject*) PyArray_IterNew((PyObject*) indices[axis]);
    }
    const npy_intp length = PyArray_SIZE(indices[0]);
    const bool plain = PyArray_IS_C_CONTIGUOUS(y) && PyArray_SIZE(y) == length * block;
    const number* from = (const number*) PyArray_DATA(y);
    bool inside = true;
    for (npy_intp i = 0; i < length && inside; i++) {
        char* to = PyArray_BYTES(*out);
        int axis = 0;
        const int moved[] = {  // in order, as lists in braces are
            (inside = pymc_sgmcmc_move<index_t>(to, *out, axis, its[axis]) && inside, axis++)...};
        (void) moved;
        if (!inside) break;
        number* sum = (number*) to;
        if (plain) {
            for (npy_intp j = 0; j < block; j++) sum[j] += *from++;
        } else {
            for (npy_intp j = 0; j < block; j++) {
                sum[j] += *(number*) PyArray_ITER_DATA(y_it);
                PyArray_ITER_NEXT(y_it);
            }
        }
    }
    Py_DECREF(y_it);
    for (PyArrayIterObject* it : its) Py_XDECREF(it);
    if (!inside) PyErr_SetString(PyExc_IndexError, "index out of range");
    return inside;
}
