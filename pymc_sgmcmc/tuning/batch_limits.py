"""Sizes of batches between which tuning chooses, and what an inner step costs."""

__all__ = ["COSTS", "largest_batch", "largest_minibatch"]

LARGEST, LARGEST_OF_ALL = 2**13, 2**15
"""Largest number of rows in a batch whose size is tuned: the first, or as many as coordinates up to
the second. A step on as many rows as coordinates costs little more than one on few."""

COSTS = {"plain": 1, "control_variate": 2, "second_order": 2, "svrg": 3}
"""Cost of an inner step, in gradients of a minibatch: SVRG's with its gradients on all rows,
that of second order without its product with the Hessian."""


def largest_batch(n_rows: int, size: int) -> int:
    """Return the rows in the largest batch that may be chosen: all, where that may be cheaper.

    `size`: d.
    """
    largest = largest_minibatch(size)
    return n_rows if n_rows <= largest * max(COSTS.values()) else largest


def largest_minibatch(size: int) -> int:
    """Return the rows in the largest batch that is not of all rows, for d = `size`."""
    return min(max(LARGEST, size), LARGEST_OF_ALL)
