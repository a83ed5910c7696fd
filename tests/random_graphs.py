"""Random graphs of the operations that likelihoods and their gradients consist of.

A graph knows its axes by name: "n" and "m" have lengths that only the values tell, "k" one that its
types tell, and "1" is broadcast. Values of every layout fit them.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_sgmcmc.compile.take_rows import take_rows

__all__ = ["KNOWN", "ONE", "Graphs", "Tensor"]

KNOWN = 3
"""The length of the axis k."""

NAMED = {"n", "m", "k", "1"}
"""Axes whose length is not 0, unless the graphs may be empty. Others are objects of their own."""

FLOATS = ["float64", "float64", "float32"]
INTEGERS = ["int64", "int32", "int16", "int8", "uint8"]


@dataclass(frozen=True)
class Tensor:
    """A variable and the names of its axes."""

    of: Variable
    axes: tuple[str, ...]

    @property
    def dtype(self) -> str:
        return self.of.type.dtype

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith("float")


class Graphs:
    """Inputs that all graphs of a compiled function share, and graphs of them.

    Parameters
    ----------
    rng : numpy.random.Generator
    empty : bool
        Whether lengths may be 0: then nothing asks for the largest of some numbers.
    """

    def __init__(self, rng: np.random.Generator, empty: bool = False):
        self._rng, self.empty, self.inputs = rng, empty, []
        for axes in [(), (), ("1",), ("n",), ("k",), ("n", "k"), ("k", "n"), ("n", "1"),
                     ("1", "n"), ("m", "n"), ("k", "k"), ("1", "1"), ("n", "m", "k")]:  # fmt: skip
            for dtypes in (FLOATS, [*FLOATS, *INTEGERS, "bool"]):
                self._input(axes, self._one_of(dtypes))
        self.indices = {
            (axis, along): self._index(axis, along) for axis in "nmk" for along in ("n", "1", "k")
        }

    def _input(self, axes, dtype):
        shape = [{"1": 1, "k": KNOWN}.get(axis) for axis in axes]
        given = pt.tensor(f"x{len(self.inputs)}", dtype=dtype, shape=shape)
        self.inputs.append(Tensor(given, axes))
        return self.inputs[-1]

    def _index(self, axis, along):
        given = self._input((along,), self._one_of(["int64", "int32", "int16", "int8"]))
        given.of.tag.below = axis
        return given

    def _one_of(self, options):
        return options[self._rng.integers(len(options))]

    # Graphs

    def graph(self) -> Variable:
        """A graph of some operations, or the gradient of one."""
        pool = [self._some_input() for _ in range(2)]
        for _ in range(self._rng.integers(2, 8)):
            operation = self._one_of(OPERATIONS)
            made = operation(self, self._one_of(pool[-3:]))
            if made is not None and made.of.type.ndim <= 4:
                pool.append(made)
        made = pool[-1]
        if made.is_float and self._rng.random() < 0.4:
            return self._gradient(made)
        return made.of

    def _gradient(self, made: Tensor) -> Variable:
        by = [x.of for x in self.inputs if x.is_float]
        ignored = {"disconnected_inputs": "ignore", "return_disconnected": "none"}
        try:
            of = [g for g in pt.grad(pt.sum(made.of), by, **ignored) if g is not None]
        except (NotImplementedError, TypeError):  # of TakeRows; of argmax, of integers
            return made.of
        return self._one_of(of) if of else made.of

    def _some_input(self) -> Tensor:
        given = self._one_of(self.inputs)
        return given if not hasattr(given.of.tag, "below") else self._some_input()

    def partner(self, x: Tensor) -> Tensor:
        """Something that is broadcast against x."""
        fitting = [y for y in self.inputs if not hasattr(y.of.tag, "below") and _fits(x, y)]
        y = self._one_of(fitting)
        return unary(self, y) if self._rng.random() < 0.3 else y

    def bounded(self, x: Tensor) -> Variable:
        """x as numbers of which no function makes more than a few hundred."""
        if x.dtype == "bool":
            return x.of.astype(self._one_of(["float64", "int8"]))
        if not x.is_float:
            return x.of
        limit = pt.constant(4, dtype=x.dtype)
        return pt.clip(x.of, -limit, limit)


def _fits(x: Tensor, y: Tensor) -> bool:
    pairs = zip(reversed(x.axes), reversed(y.axes), strict=False)
    return all(a == b or "1" in (a, b) for a, b in pairs)


def _broadcast(*tensors: Tensor) -> tuple[str, ...]:
    ndim = max(len(x.axes) for x in tensors)
    padded = [("1",) * (ndim - len(x.axes)) + x.axes for x in tensors]
    return tuple(next((a for a in axes if a != "1"), "1") for axes in zip(*padded, strict=True))


def _as_float(x: Variable) -> Variable:
    return x if x.type.dtype.startswith("float") else x.astype("float64")


ONE: list[Callable] = [
    pt.exp, pt.expm1, pt.sigmoid, pt.softplus, pt.tanh, pt.erf, pt.erfc, pt.sqr, pt.neg, pt.abs,
    pt.sign, pt.floor, pt.ceil, pt.sin, pt.cos, pt.arctan, pt.log1mexp,
    lambda x: pt.log1p(pt.abs(x)), lambda x: pt.log(pt.abs(x) + 1),
    lambda x: pt.sqrt(pt.abs(x)), lambda x: pt.gammaln(pt.abs(x) + 1),
    lambda x: pt.digamma(pt.abs(x) + 1), lambda x: pt.reciprocal(pt.abs(x) + 1),
    lambda x: pt.log(pt.sigmoid(x)), lambda x: pt.log1p(pt.exp(x)), lambda x: x**3,
    lambda x: pt.log(pt.switch(x > 0, x, pt.exp(x))), lambda x: pt.round(3 * x), pt.isnan, pt.isinf,
    lambda x: pt.maximum(x, 0), lambda x: pt.clip(x, -1, 2), lambda x: x.astype("float32"),
]  # fmt: skip

TWO: list[Callable] = [
    pt.add, pt.sub, pt.mul, pt.maximum, pt.minimum, pt.lt, pt.gt, pt.le, pt.ge, pt.eq, pt.neq,
    lambda x, y: x / (pt.abs(y) + 1), lambda x, y: (pt.abs(x) + 1) ** pt.clip(y, -2, 2),
    lambda x, y: x // (pt.abs(y) + 1), lambda x, y: x % (pt.abs(y) + 1), pt.logaddexp,
    lambda x, y: pt.switch(x < y, x - y, y * 2), lambda x, y: x - 2 * y * x, pt.arctan2,
    lambda x, y: -((x - y) ** 2) / 2 - pt.log(pt.abs(y) + 1), pt.mul, pt.add, pt.sub,
]  # fmt: skip


def unary(graphs: Graphs, x: Tensor) -> Tensor:
    return Tensor(graphs._one_of(ONE)(_as_float(graphs.bounded(x))), x.axes)


def cast(graphs, x):
    dtype = graphs._one_of([*FLOATS, *INTEGERS, "bool"])
    of = graphs.bounded(x)
    of = pt.abs(of) if dtype == "uint8" else pt.clip(of, -100, 100) if dtype == "int8" else of
    of = pt.clip(of, 0, 200) if dtype == "uint8" else of
    if dtype[0] in "ui" and x.is_float:
        of = pt.switch(pt.isnan(of), 0, of)
    return Tensor(of.astype(dtype), x.axes)


def integers(graphs, x):
    """Arithmetic of integers of two types."""
    y = graphs.partner(x)
    if x.is_float or y.is_float:
        return None
    a, b = (pt.clip(v.of.astype("int16"), -9, 9).astype(graphs._one_of(INTEGERS[:4]))
            for v in (x, y))  # fmt: skip
    of = graphs._one_of([
        lambda: a + b, lambda: a * b, lambda: a - b, lambda: a // (pt.abs(b) + 1),
        lambda: a % (pt.abs(b) + 1), lambda: a % (-pt.abs(b) - 1), lambda: a / (pt.abs(b) + 1),
        lambda: pt.maximum(a, b), lambda: pt.switch(a > b, a, b), lambda: pt.eq(a, b),
        lambda: (a > 0) & (b > 0), lambda: (a > 0) | (b < 3), lambda: ~(a > b),
    ])()  # fmt: skip
    return Tensor(of, _broadcast(x, y))


def binary(graphs, x):
    y = graphs.partner(x)
    a, b = graphs.bounded(x), graphs.bounded(y)
    if not (x.is_float or y.is_float):
        a = _as_float(a)
    return Tensor(graphs._one_of(TWO)(a, b), _broadcast(x, y))


def ternary(graphs, x):
    y, z = graphs.partner(x), graphs.partner(x)
    if not _fits(y, z):
        return None
    a, b, c = (_as_float(graphs.bounded(v)) for v in (x, y, z))
    of = graphs._one_of([
        lambda: pt.switch(a > b, b, c), lambda: pt.clip(a, b, c), lambda: a + b * c,
        lambda: pt.switch(a > 0, c, b), lambda: (a - b) * (a - c) + b, lambda: a * b + pt.exp(c),
    ])()  # fmt: skip
    return Tensor(of, _broadcast(x, y, z))


def reduction(graphs, x):
    if not x.axes:
        return None
    axes = [k for k in range(len(x.axes)) if graphs._rng.random() < 0.6] or [0]
    of = graphs.bounded(x)
    several = [pt.sum, pt.sum, lambda v, **a: pt.prod(pt.tanh(_as_float(v)), **a),
               lambda v, **a: pt.any(v > 0, **a), lambda v, **a: pt.all(v > -1, **a),
               lambda v, **a: pt.sum(pt.sqr(v), **a)]  # fmt: skip
    if not graphs.empty and NAMED.issuperset(x.axes):
        several += [pt.max, pt.min, pt.mean, lambda v, **a: pt.logsumexp(_as_float(v), **a),
                    lambda v, **a: pt.var(_as_float(v), **a)]  # fmt: skip
    keep = bool(graphs._rng.integers(2))
    made = graphs._one_of(several)(of, axis=axes, keepdims=keep)
    if keep:
        return Tensor(made, tuple("1" if k in axes else a for k, a in enumerate(x.axes)))
    return Tensor(made, tuple(a for k, a in enumerate(x.axes) if k not in axes))


def largest(graphs, x):
    if not x.axes or graphs.empty or not NAMED.issuperset(x.axes):
        return None
    axis = int(graphs._rng.integers(len(x.axes)))
    return Tensor(pt.argmax(graphs.bounded(x), axis=axis), x.axes[:axis] + x.axes[axis + 1 :])


def product(graphs, x):
    """Of vectors, matrices, or batches of matrices."""
    a = _as_float(graphs.bounded(x))
    y = graphs._one_of([y for y in graphs.inputs if y.axes and y.is_float])
    b = graphs.bounded(y)
    if not x.axes:
        return Tensor(a * b, y.axes)
    inner = y.axes[-2] if len(y.axes) > 1 else y.axes[0]
    if x.axes[-1] != inner:
        return None
    if len(x.axes) <= 2 and len(y.axes) <= 2:
        return Tensor(pt.dot(a, b), x.axes[:-1] + (y.axes[-1:] if len(y.axes) == 2 else ()))
    if len(x.axes) > 2 and len(y.axes) == 2:
        return Tensor(a @ b, x.axes[:-1] + y.axes[-1:])
    return None


def view(graphs, x):
    """Another view of the numbers of x."""
    ndim = len(x.axes)
    if not ndim:
        return Tensor(x.of[None], ("1",))
    rng, axis = graphs._rng, int(graphs._rng.integers(ndim))
    order = [int(k) for k in rng.permutation(ndim)]
    dropped = [k for k, a in enumerate(x.axes) if not x.of.type.broadcastable[k]]
    at = tuple(slice(None) for _ in range(axis))
    length = x.axes[axis]
    of = graphs._one_of([
        lambda: (x.of.transpose(order), tuple(x.axes[k] for k in order)),
        lambda: (pt.expand_dims(x.of, axis), (*x.axes[:axis], "1", *x.axes[axis:])),
        lambda: (x.of.dimshuffle(dropped), tuple(x.axes[k] for k in dropped)),
        lambda: (x.of[(*at, slice(None, None, -1))], x.axes),
        lambda: (x.of[(*at, -int(rng.integers(2)))], x.axes[:axis] + x.axes[axis + 1 :]),
        lambda: (x.of.reshape((-1, 1)), (object(), "1")),
        lambda: (x.of.flatten(), (object(),)),
        lambda: (x.of[(*at, slice(1, None))], (*x.axes[:axis], object(), *x.axes[axis + 1 :])),
        lambda: (x.of[(*at, slice(None, None, 2))],
                 (*x.axes[:axis], object(), *x.axes[axis + 1 :])),
        lambda: (x.of[(*at, slice(0, 1))], (*x.axes[:axis], object(), *x.axes[axis + 1 :])),
    ])  # fmt: skip
    if length not in NAMED or (graphs.empty and length in ("n", "m")):  # it may be without numbers
        return Tensor(x.of[(*at, slice(None, None, -1))], x.axes)
    return Tensor(*of())


def indexed(graphs, x):
    """Rows at indices, or where something is true."""
    if not x.axes or x.axes[0] not in ("n", "m", "k") or (graphs.empty and x.axes[0] != "k"):
        return None
    index = graphs.indices[x.axes[0], graphs._one_of(["n", "1", "k"])]
    rest = x.axes[1:]
    if graphs._rng.random() < 0.2:
        mask = x.of > 0 if not rest else x.of.sum(axis=list(range(1, x.of.type.ndim))) > 0
        return Tensor(x.of[mask.nonzero()], (object(), *rest))
    if graphs._rng.random() < 0.3:
        return Tensor(take_rows(x.of, pt.abs(index.of.astype("int64"))), index.axes + rest)
    if rest and rest[0] in ("n", "m", "k") and graphs._rng.random() < 0.5:
        other = graphs.indices[rest[0], index.axes[0]]
        return Tensor(x.of[index.of, other.of], index.axes + rest[1:])
    return Tensor(x.of[index.of], index.axes + rest)


def changed(graphs, x):
    """x with something added at, or put in the place of, some of its numbers."""
    if not x.is_float or not x.axes or x.axes[0] not in ("n", "m", "k"):
        return None
    if graphs.empty and x.axes[0] != "k":
        return None
    index = graphs.indices[x.axes[0], graphs._one_of(["n", "1", "k"])]
    at = graphs._one_of([
        (index.of,), (0,), (-1,), (slice(1, None),), (slice(None, None, -2),),
    ])  # fmt: skip
    if len(at) == 1 and at[0] is index.of and len(x.axes) > 1 and graphs._rng.random() < 0.5:
        if x.axes[1] in ("n", "m", "k") and not (graphs.empty and x.axes[1] != "k"):
            at = (index.of, graphs.indices[x.axes[1], index.axes[0]].of)
    added = graphs._one_of([0.5 * x.of[at], pt.constant(2, dtype=x.dtype), pt.exp(-x.of[at])])
    added = added.astype(x.dtype)
    if graphs._rng.random() < 0.7 or at[0] is index.of:  # which of several is put is not said
        return Tensor(x.of[at].inc(added), x.axes)
    return Tensor(x.of[at].set(added), x.axes)


def joined(graphs, x):
    y = graphs.partner(x)
    if x.axes != y.axes:
        return None
    a, b = graphs.bounded(x), graphs.bounded(y)
    axis = int(graphs._rng.integers(len(x.axes))) if x.axes else 0
    if not x.axes or graphs._rng.random() < 0.5:
        return Tensor(pt.stack([a, b], axis=axis), (*x.axes[:axis], object(), *x.axes[axis:]))
    return Tensor(pt.concatenate([a, b, a], axis=axis),
                  (*x.axes[:axis], object(), *x.axes[axis + 1 :]))  # fmt: skip


def spread(graphs, x):
    """Numbers repeated, accumulated, or along a diagonal."""
    if not x.axes:
        return Tensor(pt.alloc(x.of, KNOWN, 1), ("k", "1"))
    if len(x.axes) == 1 and x.axes[0] == "k" and x.is_float:
        a = graphs.bounded(x)
        matrix = pt.outer(a, a) + 5 * pt.eye(KNOWN, dtype=x.dtype)
        return Tensor(graphs._one_of([pt.linalg.cholesky, lambda m: m])(matrix), ("k", "k"))
    if graphs._rng.random() < 0.5:
        return Tensor(pt.cumsum(graphs.bounded(x), axis=len(x.axes) - 1), x.axes)
    return Tensor(pt.zeros_like(x.of) + graphs.bounded(x), x.axes)


OPERATIONS = [
    *(4 * [unary]), *(4 * [binary]), *(2 * [ternary]), *(2 * [reduction]), *(2 * [view]), product,
    cast, cast, integers, integers, largest, indexed, indexed, changed, changed, joined, spread,
]  # fmt: skip
