"""What the README's test command leaves to `pytest -m slow`."""

import pytest

__all__ = ["slow_but"]


def slow_but(quick, values):
    """The values of a parameter, of which those in `quick` are in the quick suite."""
    return [v if v in quick else pytest.param(v, marks=pytest.mark.slow) for v in values]
