"""A step method that does nothing: what `pm.sample` costs by itself."""

from typing import ClassVar

import pymc as pm
from pymc.step_methods.arraystep import ArrayStep


class Nothing(ArrayStep):
    """Leaves all variables where they are."""

    name = "nothing"
    stats_dtypes_shapes: ClassVar[dict] = {}

    def __init__(self, vars=None, model=None, **kwargs):
        super().__init__(pm.modelcontext(model).value_vars, [], **kwargs)

    def astep(self, q, *args):
        return q, [{}]
