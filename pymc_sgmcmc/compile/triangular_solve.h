// Solutions of sparse triangular systems.

#pragma once

#include <Python.h>
#include <numpy/arrayobject.h>

#include <algorithm>

// Let *out be the solution x of L x = b, or of L' x = b. L (d, d) is lower triangular, in compressed
// sparse rows of which each ends with its diagonal. Return false with Python's error set if it
// cannot be.
template <typename entry_t, typename value_t, typename out_t>
static inline bool pymc_sgmcmc_triangular_solve(
    PyArrayObject* entries_, PyArrayObject* columns_, PyArrayObject* starts_, PyArrayObject* b_,
    bool transposed, PyArrayObject** out, int type)
{
    PyArrayObject* arrays[3] = {PyArray_GETCONTIGUOUS(entries_), PyArray_GETCONTIGUOUS(columns_),
                                PyArray_GETCONTIGUOUS(starts_)};
    npy_intp d = PyArray_DIM(b_, 0), shape[1] = {d};
    bool fine = arrays[0] && arrays[1] && arrays[2];
    if (fine && PyArray_DIM(starts_, 0) != d + 1) {
        PyErr_SetString(PyExc_ValueError, "not one number for each row of the matrix");
        fine = false;
    }
    if (fine && (*out == NULL || !PyArray_IS_C_CONTIGUOUS(*out) || PyArray_DIM(*out, 0) != d)) {
        Py_XDECREF(*out);
        *out = (PyArrayObject*) PyArray_EMPTY(1, shape, type, 0);
        fine = *out != NULL;
    }
    if (fine) {
        const entry_t* entry = (const entry_t*) PyArray_DATA(arrays[0]);
        const npy_int32* column = (const npy_int32*) PyArray_DATA(arrays[1]);
        const npy_int64* start = (const npy_int64*) PyArray_DATA(arrays[2]);
        out_t* x = (out_t*) PyArray_DATA(*out);
        for (npy_intp i = 0; i < d; i++) x[i] = *(const value_t*) PyArray_GETPTR1(b_, i);
        if (!transposed) {
            for (npy_intp i = 0; i < d; i++) {
                const npy_int64 last = start[i + 1] - 1;
                out_t rest = x[i];
                for (npy_int64 k = start[i]; k < last; k++) rest -= entry[k] * x[column[k]];
                x[i] = rest / entry[last];
            }
        } else {
            for (npy_intp i = d - 1; i >= 0; i--) {
                const npy_int64 last = start[i + 1] - 1;
                const out_t known = x[i] / entry[last];
                x[i] = known;
                for (npy_int64 k = start[i]; k < last; k++) x[column[k]] -= entry[k] * known;
            }
        }
    }
    for (PyArrayObject* array : arrays) Py_XDECREF(array);
    return fine;
}
