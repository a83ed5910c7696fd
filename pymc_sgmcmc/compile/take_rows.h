// Rows of an array by their indices.

#pragma once

#include <Python.h>
#include <numpy/arrayobject.h>

#include <cstring>

// Copy rows that may lie anywhere. SIZE: the bytes of a row where the compiler may know them, or 0.
// AHEAD: by how many rows prefetching runs ahead; LINES: how many cache lines of a row it fetches.
template <npy_intp SIZE, npy_intp AHEAD, npy_intp LINES>
static inline void pymc_sgmcmc_copy_rows(
    char* to, const char* from, npy_intp row_bytes, PyArrayObject* rows)
{
    const npy_intp n = PyArray_DIM(rows, 0), size = SIZE ? SIZE : row_bytes;
    for (npy_intp i = 0; i < n; i++) {
        if (i + AHEAD < n) {
            const char* soon = from + *(const npy_int64*) PyArray_GETPTR1(rows, i + AHEAD) * size;
            for (npy_intp line = 0; line < size && line < LINES * 64; line += 64) {
                __builtin_prefetch(soon + line);
            }
        }
        const npy_intp row = *(const npy_int64*) PyArray_GETPTR1(rows, i);
        memcpy(to + i * size, from + row * size, size);
    }
}

// Let *out be x[rows], in its own memory where that fits. rows: int64, one axis.
// Return false with Python's error set if it cannot be.
template <npy_intp AHEAD, npy_intp LINES>
static inline bool pymc_sgmcmc_take_rows(
    PyArrayObject* x, PyArrayObject* rows, PyArrayObject** out)
{
    const int ndim = PyArray_NDIM(x);
    npy_intp shape[NPY_MAXDIMS], row_bytes = PyArray_ITEMSIZE(x);
    shape[0] = PyArray_DIM(rows, 0);
    bool fits = *out != NULL && PyArray_IS_C_CONTIGUOUS(*out) && PyArray_DIM(*out, 0) == shape[0];
    for (int k = 1; k < ndim; k++) {
        shape[k] = PyArray_DIM(x, k);
        row_bytes *= shape[k];
        fits = fits && PyArray_DIM(*out, k) == shape[k];
    }
    if (!fits) {
        Py_XDECREF(*out);
        *out = (PyArrayObject*) PyArray_EMPTY(ndim, shape, PyArray_TYPE(x), 0);
        if (*out == NULL) return false;
    }
    const npy_intp length = PyArray_DIM(x, 0);
    const npy_intp first = shape[0] ? *(const npy_int64*) PyArray_GETPTR1(rows, 0) : 0;
    bool consecutive = true;
    for (npy_intp i = 0; i < shape[0]; i++) {
        const npy_intp row = *(const npy_int64*) PyArray_GETPTR1(rows, i);
        consecutive = consecutive && row == first + i;
        if (row < 0 || row >= length) {
            PyErr_SetString(PyExc_IndexError, "row index out of range");
            return false;
        }
    }
    char* to = PyArray_BYTES(*out);
    const char* from = PyArray_BYTES(x);
    if (PyArray_IS_C_CONTIGUOUS(x) && consecutive) {
        // As for exact gradients, which go through all the data.
        memcpy(to, from + first * row_bytes, shape[0] * row_bytes);
    } else if (PyArray_IS_C_CONTIGUOUS(x) && row_bytes == 8) {
        pymc_sgmcmc_copy_rows<8, AHEAD, LINES>(to, from, 8, rows);
    } else if (PyArray_IS_C_CONTIGUOUS(x) && row_bytes == 4) {
        pymc_sgmcmc_copy_rows<4, AHEAD, LINES>(to, from, 4, rows);
    } else if (PyArray_IS_C_CONTIGUOUS(x)) {
        pymc_sgmcmc_copy_rows<0, AHEAD, LINES>(to, from, row_bytes, rows);
    } else if (ndim == 2) {
        // Columns of a data frame, say: each entry lies apart.
        const npy_intp item = PyArray_ITEMSIZE(x);
        for (npy_intp i = 0; i < shape[0]; i++) {
            const npy_intp row = *(const npy_int64*) PyArray_GETPTR1(rows, i);
            for (npy_intp j = 0; j < shape[1]; j++, to += item) {
                memcpy(to, PyArray_GETPTR2(x, row, j), item);
            }
        }
    } else {
        Py_DECREF(*out);
        *out = (PyArrayObject*) PyArray_TakeFrom(x, (PyObject*) rows, 0, NULL, NPY_RAISE);
        if (*out == NULL) return false;
    }
    return true;
}
