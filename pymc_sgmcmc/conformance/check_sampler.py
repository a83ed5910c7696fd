"""All checks of a sampler, one after the other."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from pymc import Model

from pymc_sgmcmc._utils.argument_rows import FLAG
from pymc_sgmcmc._utils.arguments import check_given, refuse_unknown, takes
from pymc_sgmcmc._utils.constraints import Function, Optional, Positive, Ruled, Whole
from pymc_sgmcmc._utils.validation import shortened
from pymc_sgmcmc.compile.backend import BACKENDS
from pymc_sgmcmc.conformance.build_checks import check_backends, check_float32
from pymc_sgmcmc.conformance.chain_checks import (
    check_blocks,
    check_construction,
    check_cores,
    check_divergences,
    check_pickles,
    check_schedules,
    check_seeds,
    check_state,
    check_stats,
)
from pymc_sgmcmc.conformance.law import Experiment
from pymc_sgmcmc.conformance.law_checks import (
    check_gradient_noise,
    check_law,
    check_step_bias,
    check_thermostat,
    check_virial,
)
from pymc_sgmcmc.conformance.report import (
    FAILED,
    NOT_APPLICABLE,
    PASSED,
    Failed,
    Finding,
    NotApplicable,
    SamplerReport,
)
from pymc_sgmcmc.conformance.subject import Subject
from pymc_sgmcmc.conformance.update_checks import check_arrays, check_update
from pymc_sgmcmc.dynamics.algorithm import Algorithm
from pymc_sgmcmc.step.step_method import SGMCMC

__all__ = ["check_sampler"]


@dataclass(frozen=True)
class _Check:
    """A check by name, and the checks without which it says nothing."""

    name: str
    run: Callable[[], str]
    needs: tuple[str, ...] = ()


def _checks(subject: Subject, cores: int, backends: Sequence[str]) -> list[_Check]:
    """Return all checks, in order."""
    experiment, built = Experiment(subject), ("update", "construction")
    chain = (*built, "stats")

    return [
        _Check("update", partial(check_update, subject)),
        _Check("construction", partial(check_construction, subject), ("update",)),
        _Check("arrays", partial(check_arrays, subject), built),
        _Check("stats", partial(check_stats, subject), built),
        _Check("seeds", partial(check_seeds, subject), chain),
        _Check("pickles", partial(check_pickles, subject), (*chain, "seeds")),
        _Check("state", partial(check_state, subject), (*chain, "seeds")),
        _Check("cores", partial(check_cores, subject, cores), (*chain, "seeds", "pickles")),
        _Check("blocks", partial(check_blocks, subject), built),
        _Check("schedules", partial(check_schedules, subject), chain),
        _Check("divergences", partial(check_divergences, subject), chain),
        _Check("backends", partial(check_backends, subject, backends), (*chain, "arrays", "seeds")),
        _Check("float32", partial(check_float32, subject), chain),
        _Check("law", partial(check_law, experiment), built),
        _Check("step_bias", partial(check_step_bias, experiment), ("law",)),
        _Check("gradient noise", partial(check_gradient_noise, experiment), ("law",)),
        _Check("thermostat", partial(check_thermostat, experiment), ("law",)),
        _Check("virial", partial(check_virial, experiment), ("law",)),
    ]


NAMES = tuple(check.name for check in _checks(Subject(SGMCMC, {"step_size": 1.0}, None), 1, ()))


def _sampler(name: str, value: Any) -> None:
    if isinstance(value, Algorithm) or (isinstance(value, type) and issubclass(value, SGMCMC)):
        if value is SGMCMC:
            raise TypeError(
                f"{name}=SGMCMC samples by any algorithm: pass yours, as MyAlgorithm()."
            )
        return
    is_class = isinstance(value, type) and issubclass(value, Algorithm)
    what = "an instance of it" if is_class else "an Algorithm, as MyAlgorithm()"
    raise TypeError(
        f"{name}={shortened(value)} is no sampler: pass {what}, or a step method class, as SGLD."
    )


def _words(choices: Sequence[str]) -> Callable[[str, Any], None]:
    """Return a rule for one or several of some words."""

    def check(name: str, value: Any) -> None:
        several = [value] if isinstance(value, str) else value
        known = isinstance(several, list | tuple) and len(several) > 0
        if not known or not all(isinstance(one, str) and one in choices for one in several):
            raise ValueError(
                f"{name}={shortened(value)} is not accepted: pass one or several of "
                f"{list(choices)}."
            )

    return check


def _no_words() -> list[Any]:
    return ["nonsense", 3, None, [], [3], ["nonsense"], True, {}, object()]


@takes(
    sampler=Ruled("an Algorithm or a step method class", _sampler,
                  lambda: [None, 3, "SGLD", [], Algorithm, SGMCMC, dict, object(), True]),
    step_size=Positive(),
    model=Optional(Function("nothing that returns a model")),
    cores=Whole(),
    backends=Ruled("backends", _words(tuple(BACKENDS)), _no_words),
    only=Optional(Ruled("names of checks", _words(NAMES),
                        lambda: [value for value in _no_words() if value is not None])),
    verbose=FLAG,
    raise_on_failure=FLAG,
)  # fmt: skip
def check_sampler(
    sampler: Algorithm | type[SGMCMC],
    *,
    step_size: float,
    model: Callable[[], Model] | None = None,
    cores: int = 2,
    backends: Sequence[str] = ("c",),
    only: str | Sequence[str] | None = None,
    verbose: bool = False,
    raise_on_failure: bool = False,
    **settings: Any,
) -> SamplerReport:
    """Check a sampler of your own, as those of this package are checked.

    It samples a small normal regression, and normal posteriors with hundreds of coordinates, whose
    law is known exactly. A check that fails says what it saw and what to do; an error is a failure
    of the check that it ends. A check that needs what has failed is left out.

    Parameters
    ----------
    sampler : Algorithm, or step method class
        ``MyAlgorithm(...)``, or a class with an `algorithm_class`.
    step_size : float
        h > 0, stable and of small bias for a posterior whose smallest sd is 1. The longest that
        you would use: chains move further, and errors show.
    model : callable, optional
        ``model()`` returns a new model, for a sampler of special variables. Default the regression.
        What is known of normal posteriors alone is then left out.
    cores : int
        Number of processes for chains that must draw as in one; 1: left out.
    backends : sequence of {"c", "numba"}
        What is compared with PyTensor's interpreter. Numba takes half a minute to compile.
    only : str or sequence of str, optional
        Names of checks, of those in Notes. Default all.
    verbose : bool
        Whether to print each finding when it is there.
    raise_on_failure : bool
        Whether to raise an error if a check fails.
    **settings
        Other arguments of the step method, such as ``temperature`` or ``batch_size``.

    Returns
    -------
    SamplerReport
        To be printed. ``passed`` says whether no check failed, ``failed`` names those that did, and
        ``findings`` has all, with their ``check``, ``verdict`` and ``seen``.

    Raises
    ------
    AssertionError
        With `raise_on_failure`: names all checks that failed, with what they saw.
    ValueError, TypeError
        If an argument is out of range or unknown; the message names it.

    Notes
    -----
    ``update``: `initial_state`, `coefficients`, `planned` and `update` are functions of what they
    are given, and return what they say. ``construction``: a step method is made. ``arrays``: the
    compiled update is that on bare arrays. ``stats``: sample stats are declared and stored.
    ``seeds``: they fix the draws. ``pickles``, ``state``: a chain can be sent, stored, copied and
    set back. ``cores``: processes do not matter. ``blocks``: nor do the calls that inner steps are
    made in. ``schedules``: each step has the length that it is given. ``divergences``: what is not
    finite is repeated and flagged. ``backends``: compiled draws are those of PyTensor's
    interpreter. ``float32``: so are models in single precision, or they are refused by name.

    ``law``: as h -> 0, with gradients on all rows, means and variances are the posterior's. They
    are measured at h, h / 2 and h / 4, with Monte Carlo errors from independent chains and
    coordinates, and the parabola through them is taken at 0, so that errors of first and second
    order in h pass. It must be within four errors of 1. Errors of that size are not seen.
    ``step_bias``, ``gradient noise``, ``thermostat``, ``virial``: what the algorithm says of its
    error, of gradients of known noise, of its friction and of its balance is true, to leading
    order.

    Examples
    --------
    >>> from pymc_sgmcmc import Algorithm, check_sampler
    >>> class Descent(Algorithm):
    ...     name = "descent"
    ...     def coefficients(self, context):
    ...         return {}
    ...     def update(self, q, *, grad, h, noise):
    ...         return q - h * grad(q), noise()
    >>> report = check_sampler(Descent(), step_size=0.2, only="update")
    >>> report.failed
    ('update',)
    >>> print(report)
    Check of the sampler Descent(): 1 failed
    <BLANKLINE>
    update  failed          `update` returns 2 variables, and it should return q and what
                            `initial_state` names, []: name there all that is carried.
    """
    settings = {"step_size": step_size} | settings
    subject = Subject(sampler, settings, model)
    refuse_unknown(f"{subject.cls.__name__}", settings, subject.cls.argument_names())
    check_given(subject.cls, **settings)
    names = NAMES if only is None else (only,) if isinstance(only, str) else tuple(only)
    findings: list[Finding] = []
    missing: set[str] = set()
    backends = [backends] if isinstance(backends, str) else list(backends)
    with _quiet():
        for check in _checks(subject, cores, backends):
            if check.name not in names:
                continue
            lacking = [name for name in check.needs if name in missing]
            finding = _left_out(check, lacking[0]) if lacking else _finding(check)
            if lacking or finding.verdict == FAILED:
                missing.add(check.name)
            findings.append(finding)
            if verbose:
                print(*finding.lines(max(map(len, names))), sep="\n", flush=True)
    report = SamplerReport(subject.name, tuple(findings))
    if raise_on_failure and not report.passed:
        raise AssertionError(str(report))
    return report


def _left_out(check: _Check, needed: str) -> Finding:
    return Finding(check.name, NOT_APPLICABLE, f"Left out, as it needs what {needed!r} checks.")


def _finding(check: _Check) -> Finding:
    """Run one check; what it raises is its finding."""
    try:
        return Finding(check.name, PASSED, check.run())
    except NotApplicable as reason:
        return Finding(check.name, NOT_APPLICABLE, str(reason))
    except Failed as failure:
        return Finding(check.name, FAILED, str(failure))
    except Exception as error:
        return Finding(check.name, FAILED, f"{type(error).__name__}: {error}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what PyMC and this package log of the chains to themselves."""
    log = logging.getLogger("pymc")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)
