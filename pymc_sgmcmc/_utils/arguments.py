"""One table of all arguments: each class and function declares its own rows, where it is defined.

A class declares rows in its attribute ``arguments``, a function by the decorator `takes`. All
arguments are checked before any other use.
"""

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import update_wrapper
from types import FunctionType
from typing import Any, ClassVar, Self, TypeVar, cast

from pymc_sgmcmc._utils.constraints import Constraint
from pymc_sgmcmc._utils.context import model_of

__all__ = ["CheckedArguments", "check_fields", "check_given", "refuse_unknown", "rows_of", "takes"]

Rows = Mapping[str, Constraint | None]
F = TypeVar("F", bound=Callable[..., Any])


def rows_of(public: Any) -> dict[str, Constraint]:
    """Return the rows of the table for a public class or function, by argument."""
    if not inspect.isclass(public):
        return dict(getattr(public, "arguments", {}))
    rows: dict[str, Constraint | None] = {}
    for base in reversed(public.__mro__):
        rows |= vars(base).get("arguments", {})
    return {name: row for name, row in rows.items() if row is not None}


def takes(**rows: Constraint) -> Callable[[F], F]:
    """Decorate a function with the rows of its arguments, which are checked at each call."""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        known = [p.name for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        open_ended = len(known) < len(signature.parameters)

        def verify(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not open_ended:
                refuse_unknown(function.__name__, kwargs, known)
            try:
                given = signature.bind(*args, **kwargs).arguments
            except TypeError as error:
                raise TypeError(f"{function.__name__}(): {error}") from None
            _check(rows, given)

        # It uses closure names only: its globals are replaced below.
        def checked(*args: Any, **kwargs: Any) -> Any:
            verify(args, kwargs)
            return function(*args, **kwargs)

        # The wrapper belongs to the function's module, where doctest looks for its examples.
        wrapper = FunctionType(
            checked.__code__, function.__globals__, function.__name__, None, checked.__closure__
        )
        update_wrapper(wrapper, function)
        vars(wrapper)["arguments"] = rows
        return cast(F, wrapper)

    return decorate


def check_fields(instance: Any) -> None:
    """Check the fields of a dataclass instance by the rows that its class declares."""
    _check(rows_of(type(instance)), vars(instance))


def check_given(owner: Any, **given: Any) -> None:
    """Check arguments of `owner`, a class or function, by the rows that it declares."""
    _check(rows_of(owner), given)


class CheckedArguments:
    """Base of classes whose arguments are checked first, before PyMC uses them.

    The argument ``model`` must be given, or there must be a ``with`` block.
    """

    arguments: ClassVar[Rows] = {}
    """Rows of the table; None: the class does not take this argument of a base."""

    @classmethod
    def argument_names(cls) -> list[str]:
        """Return the names of the class's arguments, with those that it passes on to its bases."""
        names: dict[str, None] = {}
        for base in cls.__mro__:
            if "__init__" in vars(base) and base is not object:
                parameters = list(inspect.signature(vars(base)["__init__"]).parameters.values())[1:]
                names |= dict.fromkeys(p.name for p in parameters if p.kind is not p.VAR_KEYWORD)
                if not any(p.kind is p.VAR_KEYWORD for p in parameters):
                    break
        return list(names)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        own = inspect.signature(cls.__init__).parameters
        positional = [p.name for p in own.values() if p.kind is p.POSITIONAL_OR_KEYWORD][1:]
        refuse_unknown(cls.__name__, kwargs, cls.argument_names())
        _check(rows_of(cls), dict(zip(positional, args)) | kwargs)
        make = super().__new__
        if make is object.__new__:  # also of a copy in another process, where there is no model
            return make(cls)
        model_of(kwargs.get("model"))
        return make(cls, *args, **kwargs)


_ELSEWHERE = {
    **dict.fromkeys(
        ("callback", "chains", "cores", "draws", "initvals", "progressbar", "random_seed", "tune"),
        "pass it to pm.sample.",
    ),
    "target_accept": "NUTS has it. Here bias_tolerance says how long steps may be.",
    "max_treedepth": "NUTS has it. Here steps_per_draw is the length of a trajectory.",
    "learning_rate": "did you mean step_size?",
}
"""Advice on arguments that belong elsewhere, by name."""


def refuse_unknown(where: str, given: Mapping[str, Any], known: list[str]) -> None:
    """Raise TypeError if a name in `given` is not one of the `known` arguments."""
    for name in given:
        if name not in known:
            hint = _ELSEWHERE.get(name)
            if hint is None:
                near = get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(known)}."
            raise TypeError(f"{where}() takes no argument {name!r}: {hint}")


def _check(rows: Mapping[str, Constraint], given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name in rows:
            rows[name].check(name, value)
