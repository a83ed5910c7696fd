"""Compilation of graphs to fast functions: C, Numba, random numbers.

Only this folder uses PyTensor's internals, and takes them from `pytensor_internals`.
"""
