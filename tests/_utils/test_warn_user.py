"""Warnings point at the user's code."""

import types
import warnings

import pytest

from pymc_sgmcmc._utils.warn_user import warn_user


def function_of(module, file):
    """A function of such a module that warns, and the one that it is called by there."""
    made = types.ModuleType(module)
    made.warn_user = warn_user
    code = "def warn():\n    warn_user('Look.')\ndef call():\n    warn()"
    exec(compile(code, file, "exec"), made.__dict__)
    return made.call


@pytest.mark.parametrize(
    ("module", "is_inside"),
    [("pymc_sgmcmc.rows.latents", True), ("pymc.sampling", True), ("pytensor", True),
     ("contextlib", True),
     ("bambi.models", False), ("pymc_marketing", False)],
)  # fmt: skip
def test_the_innermost_line_that_is_not_ours(module, is_inside):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        function_of(module, "other.py")()
    (one,) = seen
    assert one.category is UserWarning and str(one.message) == "Look."
    assert one.filename == (__file__ if is_inside else "other.py")
