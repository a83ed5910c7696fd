// Products of some rows of a sparse matrix with a dense one, and their transposes.

#pragma once

#include <Python.h>
#include <numpy/arrayobject.h>

#include <algorithm>

// Rows of a matrix in compressed sparse rows, and a dense matrix, as blocks of memory.
// AHEAD: by how many rows prefetching runs ahead.
template <npy_intp AHEAD, typename entry_t, typename value_t>
struct pymc_sgmcmc_sparse_rows
{
    PyArrayObject *entries, *columns, *starts, *dense, *rows;
    const entry_t* entry;
    const npy_int32* column;
    const npy_int64* start;
    const value_t* value;
    npy_intp n, wide;

    pymc_sgmcmc_sparse_rows(PyArrayObject* entries_, PyArrayObject* columns_,
                            PyArrayObject* starts_, PyArrayObject* rows_, PyArrayObject* dense_)
        : entries(PyArray_GETCONTIGUOUS(entries_)), columns(PyArray_GETCONTIGUOUS(columns_)),
          starts(PyArray_GETCONTIGUOUS(starts_)), dense(PyArray_GETCONTIGUOUS(dense_)), rows(rows_)
    {
    }
    ~pymc_sgmcmc_sparse_rows()
    {
        Py_XDECREF(entries);
        Py_XDECREF(columns);
        Py_XDECREF(starts);
        Py_XDECREF(dense);
    }

    npy_int64 row(npy_intp i) const { return *(const npy_int64*) PyArray_GETPTR1(rows, i); }

    // Return false with Python's error set if there is no memory, or a row that is not there.
    bool read()
    {
        if (!dense || !entries || !columns || !starts) return false;
        entry = (const entry_t*) PyArray_DATA(entries);
        column = (const npy_int32*) PyArray_DATA(columns);
        start = (const npy_int64*) PyArray_DATA(starts);
        value = (const value_t*) PyArray_DATA(dense);
        n = PyArray_DIM(rows, 0);
        wide = PyArray_DIM(dense, 1);
        const npy_intp length = PyArray_DIM(starts, 0) - 1;
        for (npy_intp i = 0; i < n; i++) {
            if (row(i) < 0 || row(i) >= length) {
                PyErr_SetString(PyExc_IndexError, "row index out of range");
                return false;
            }
        }
        return true;
    }
    void prefetch(npy_intp i) const
    {
        if (i + AHEAD < n) {
            const npy_int64 soon = start[row(i + AHEAD)];
            __builtin_prefetch(entry + soon);
            __builtin_prefetch(column + soon);
        }
    }
};

// Let *out be a matrix of this shape and type, in its own memory where that fits.
static inline bool pymc_sgmcmc_room(PyArrayObject** out, npy_intp length, npy_intp wide, int type)
{
    npy_intp shape[2] = {length, wide};
    if (*out == NULL || !PyArray_IS_C_CONTIGUOUS(*out) || PyArray_DIM(*out, 0) != length
        || PyArray_DIM(*out, 1) != wide) {
        Py_XDECREF(*out);
        *out = (PyArrayObject*) PyArray_EMPTY(2, shape, type, 0);
    }
    return *out != NULL;
}

// Let *out be X[rows] @ dense. Return false with Python's error set if it cannot be.
template <npy_intp AHEAD, typename entry_t, typename value_t, typename out_t>
static inline bool pymc_sgmcmc_sparse_dot(
    PyArrayObject* entries, PyArrayObject* columns, PyArrayObject* starts, PyArrayObject* rows,
    PyArrayObject* dense, PyArrayObject** out, int type)
{
    pymc_sgmcmc_sparse_rows<AHEAD, entry_t, value_t> X(entries, columns, starts, rows, dense);
    if (!X.read() || !pymc_sgmcmc_room(out, X.n, X.wide, type)) return false;
    const npy_intp wide = X.wide;
    out_t* to = (out_t*) PyArray_DATA(*out);
    for (npy_intp i = 0; i < X.n; i++) {
        X.prefetch(i);
        const npy_int64 row = X.row(i), stop = X.start[row + 1];
        if (wide == 1) {
            out_t sum = 0;
            for (npy_int64 k = X.start[row]; k < stop; k++) {
                sum += X.entry[k] * X.value[X.column[k]];
            }
            to[i] = sum;
            continue;
        }
        out_t* sums = to + i * wide;
        std::fill(sums, sums + wide, out_t(0));
        for (npy_int64 k = X.start[row]; k < stop; k++) {
            const value_t* values = X.value + X.column[k] * wide;
            for (npy_intp j = 0; j < wide; j++) sums[j] += X.entry[k] * values[j];
        }
    }
    return true;
}

// Let *out, (width, C), be X[rows].T @ dense. Return false with Python's error set if it cannot be.
template <npy_intp AHEAD, typename entry_t, typename value_t, typename out_t>
static inline bool pymc_sgmcmc_sparse_pull(
    PyArrayObject* entries, PyArrayObject* columns, PyArrayObject* starts, PyArrayObject* rows,
    PyArrayObject* dense, PyArrayObject* width, PyArrayObject** out, int type)
{
    pymc_sgmcmc_sparse_rows<AHEAD, entry_t, value_t> X(entries, columns, starts, rows, dense);
    const npy_intp length = *(const npy_int64*) PyArray_DATA(width);
    if (!X.read() || !pymc_sgmcmc_room(out, length, X.wide, type)) return false;
    if (PyArray_DIM(dense, 0) != X.n) {
        PyErr_SetString(PyExc_ValueError, "not one dense row for each sparse one");
        return false;
    }
    const npy_intp wide = X.wide;
    out_t* to = (out_t*) PyArray_DATA(*out);
    std::fill(to, to + length * wide, out_t(0));
    for (npy_intp i = 0; i < X.n; i++) {
        X.prefetch(i);
        const npy_int64 row = X.row(i), stop = X.start[row + 1];
        const value_t* values = X.value + i * wide;
        for (npy_int64 k = X.start[row]; k < stop; k++) {
            out_t* sums = to + X.column[k] * wide;
            for (npy_intp j = 0; j < wide; j++) sums[j] += X.entry[k] * values[j];
        }
    }
    return true;
}
