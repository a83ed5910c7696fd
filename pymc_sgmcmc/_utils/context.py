"""Choice of the model for a function: the one given, or the model of the ``with`` block."""

from typing import Any

from pymc import Model, modelcontext

from pymc_sgmcmc._utils.validation import shortened

__all__ = ["model_of"]


def model_of(model: Any) -> Model:
    """Return `model`, or the model of the ``with`` block if `model` is None.

    Raises
    ------
    TypeError
        If `model` is not a model, or there is none.
    """
    if model is not None and not isinstance(model, Model):
        raise TypeError(f"model={shortened(model)} is not a pymc.Model.")
    try:
        return modelcontext(model)
    except TypeError:
        raise TypeError(
            "There is no model: pass model=, or call this within a `with model:` block."
        ) from None
