"""From graphs to fast functions: C, Numba, random numbers.

The only room with PyTensor's internals.
"""
