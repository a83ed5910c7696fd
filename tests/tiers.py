"""Three tiers: ``unit`` compiles nothing, ``compiled`` does, and ``statistics`` is for CI.

What has no mark is ``unit``. The README's test command runs the first two, and units first.
"""

import re
import sys

import pytest

__all__ = ["Compilations", "name_of", "sort_into_tiers", "statistics_but"]


def statistics_but(quick, values):
    """The values of a parameter; those that are not in `quick` are in the tier of statistics."""
    return [v if v in quick else pytest.param(v, marks=pytest.mark.statistics) for v in values]


def name_of(value):
    """A value in the name of a test: the same in every process, without addresses in memory."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


def sort_into_tiers(items):
    """Mark the units, and put them first.

    A fixture that they share with compiled tests is then set up for them, and must compile nothing.
    """
    for item in items:
        if not any(item.get_closest_marker(tier) for tier in ("compiled", "statistics")):
            item.add_marker("unit")
    items.sort(key=lambda item: item.get_closest_marker("unit") is None)


class Compilations:
    """What is compiled from now on, by C and by Numba, in this process."""

    def __init__(self):
        self.seen = []
        self._excused = 0
        from pytensor.link.c.cmodule import ModuleCache

        self._watch(ModuleCache, "module_from_key", "C")

    def begin(self):
        """Forget what was seen; Numba is watched once something has imported it."""
        self.seen.clear()
        if numba := sys.modules.get("numba.core.dispatcher"):
            self._watch(numba.Dispatcher, "compile", "Numba")

    def _watch(self, owner, name, language):
        method = getattr(owner, name)
        if getattr(method, "watched", False):
            return

        def watched(this, *args, **kwargs):
            function = getattr(this, "py_func", None)  # of Numba
            module = str(getattr(function, "__module__", None))
            if self._excused or module.startswith("arviz"):
                # ArviZ has functions that Numba compiles at their first call, with all they call.
                self._excused += 1
                try:
                    return method(this, *args, **kwargs)
                finally:
                    self._excused -= 1
            self.seen.append(f"{language} {getattr(function, '__qualname__', '')}".strip())
            return method(this, *args, **kwargs)

        watched.watched = True
        setattr(owner, name, watched)
