"""Step methods that do nothing: what `pm.sample` costs by itself."""

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


class Stored(Nothing):
    """It leaves all as it is too, and returns `stats`, of types and shapes as another's, each time.

    PyMC takes time to store them.
    """

    name = "nothing, same stats"

    def __init__(self, step, stats, **kwargs):
        self.stats_dtypes_shapes = step.stats_dtypes_shapes
        super().__init__(**kwargs)
        self.stats_dtypes, self._stats = step.stats_dtypes, stats

    def astep(self, q, *args):
        return q, [self._stats]
