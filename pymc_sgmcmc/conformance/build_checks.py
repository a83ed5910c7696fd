"""Checks that compile a step method anew: with other backends, and in single precision."""

from collections.abc import Sequence

import numpy as np
import pytensor

from pymc_sgmcmc.compile.in_python import interpreting
from pymc_sgmcmc.conformance.report import Failed
from pymc_sgmcmc.conformance.subject import Subject, begin, walk

__all__ = ["check_backends", "check_float32"]

DRAWS = 10
ROUNDING = 1e-7


def check_backends(subject: Subject, backends: Sequence[str]) -> str:
    """Check that compiled draws are those of PyTensor's interpreter, to rounding."""
    model = subject.built[0]
    with interpreting() as compile_kwargs:
        plain = subject.step(model, **subject.batches, compile_kwargs=compile_kwargs)
        expected = subject.path(plain, DRAWS)
    for backend in backends:
        step = subject.built[1]
        if backend != subject.settings.get("backend", "c"):
            step = subject.step(model, **subject.batches | {"backend": backend})
        difference = np.abs(subject.path(step, DRAWS) - expected)
        if not (difference <= ROUNDING * (1 + np.abs(expected))).all():
            raise Failed(
                f"Draws of backend={backend!r} differ by {difference.max():.2g} from those of "
                "PyTensor's interpreter: look for an operation whose code they do not share."
            )
    return f"Draws of {' and '.join(backends)} are those of PyTensor's interpreter."


def check_float32(subject: Subject) -> str:
    """Check that models in single precision work, or are refused by name."""
    with pytensor.config.change_flags(floatX="float32"):
        model = subject.model()
        try:
            step = subject.step(model, **subject.batches)
        except (TypeError, ValueError, NotImplementedError) as error:
            if "float32" in str(error):
                return f"Models in single precision are refused: {error}"
            raise
        begin(step)
        _, path = walk(step, model.initial_point(), 5 * DRAWS)
        dtypes = {str(step.chain.parts.kernel.dtype), str(path.dtype)}
    if not np.isfinite(path).all() or not path.std(axis=0).all():
        raise Failed("In single precision draws are not finite, or do not move.")
    if dtypes != {"float32"}:
        raise Failed(f"In single precision draws are {', '.join(sorted(dtypes))}.")
    return "A model in single precision is sampled in single precision."
