"""Step methods whose chains can be saved and continued later as if never interrupted."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from pymc import Model
from pymc.blocking import PointType
from pymc.step_methods.compound import BlockedStep, CompoundStep, flat_statname, flatten_steps

from pymc_sgmcmc._utils.argument_rows import MODEL
from pymc_sgmcmc._utils.arguments import CheckedArguments
from pymc_sgmcmc._utils.constraints import Ruled, Whole
from pymc_sgmcmc._utils.context import model_of
from pymc_sgmcmc._utils.validation import shortened
from pymc_sgmcmc.saving.identity import Identity
from pymc_sgmcmc.saving.state_text import leaf_in_text, state_from_text, state_to_text
from pymc_sgmcmc.saving.storable import check_storable
from pymc_sgmcmc.step.pymc_versions import ChainCompound

__all__ = ["RESUMABLE", "Resumable", "model_of_step", "sampled_identity"]


def _steps(name: str, value: Any) -> None:
    several = value if isinstance(value, list | tuple) else [value]
    if not several or not all(isinstance(s, BlockedStep | CompoundStep) for s in several):
        raise TypeError(
            f"{name}={shortened(value)} are no step methods: pass those of all free variables, as "
            "in Resumable([SGNHT([w]), pm.Metropolis([z])])."
        )


class Resumable(CheckedArguments, ChainCompound):
    """All step methods of a model, in turn, with snapshots of the chain's state.

    A snapshot is a text with the point, the state of every step method with its generator, and the
    identity of the run: data, settings and functions at the start of the chain. Snapshots leave the
    sampling processes as the sample stat ``snapshot``, which is set every so many draws and "" at
    the others. :func:`~pymc_sgmcmc.save` keeps the last snapshot of each chain, and
    :func:`~pymc_sgmcmc.resume` starts from it.

    Parameters
    ----------
    steps : step method or sequence of them
        Step methods of this package or of PyMC. Together they must sample every free variable of
        the model.
    every : int
        Number of draws between snapshots. Draws after the last snapshot are repeated when the run
        is resumed, and must come out the same.
    model : pymc.Model, optional
        The model, by default that of the ``with`` block.

    Raises
    ------
    ValueError
        If no step method samples a free variable of the model: PyMC would assign one whose state
        is not part of the snapshots. If a variable or a coordinate could not be saved.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> from pymc_sgmcmc import SGHMC, Resumable, resume, save
    >>> with pm.Model():
    ...     y = pm.Normal("y", pm.Normal("mu"), observed=np.arange(10.0))
    ...     step = Resumable([SGHMC(step_size=0.05, friction=2.0, batch_size=5)])
    ...     idata = pm.sample(step=step, progressbar=False, random_seed=1)
    ...     save(idata, step, "run")
    ...     idata = resume("run", step, draws=500, progressbar=False)
    >>> idata.posterior.sizes["draw"]
    1500
    """

    arguments: ClassVar = {
        "steps": Ruled(
            "step methods", _steps, lambda: [None, 3, "SGNHT", {}, [1], (s for s in ""), object()]
        ),
        "every": Whole(),
        "model": MODEL,
    }
    stats_dtypes: list[dict[str, Any]]
    sampling_state: Any
    _start: str | None
    _sampled: Mapping[str, Any] | None

    def __init__(
        self,
        steps: BlockedStep | CompoundStep | Sequence[BlockedStep | CompoundStep],
        *,
        every: int = 100,
        model: Any = None,
    ):
        self.every = int(every)
        steps = list(steps) if isinstance(steps, Sequence) else [steps]
        methods = [method for step in steps for method in flatten_steps(step)]
        model = model_of(model)
        sampled = {var.name for method in methods for var in method.vars}
        missing = [var.name for var in model.value_vars if var.name not in sampled]
        if missing:
            raise ValueError(
                f"Resumable(steps) lacks a step method for {missing}: pass the step methods of all "
                "free variables, as in Resumable([SGNHT([w], ...), pm.Metropolis([z])])."
            )
        check_storable(model)
        super().__init__(methods)
        last = len(methods) - 1
        self.stats_dtypes = [*self.stats_dtypes[:-1], self.stats_dtypes[-1] | {"snapshot": object}]
        self.stats_dtypes_shapes[flat_statname(last, "snapshot")] = (object, None)
        self._identity = Identity(model, methods)
        self._snapshots: Sequence[str] = ()
        self._length = 0
        self._begin()

    @property
    def model(self) -> Any:
        """Model of the step methods; None in a copy."""
        return self._identity.model

    def identity(self) -> Mapping[str, Any]:
        """Return the identity of a chain that starts now: see `pymc_sgmcmc.saving.identity`."""
        return self._identity.now()

    def continue_from(self, snapshots: Sequence[str] = (), length: int = 0) -> None:
        """Let chain k of the next run start from ``snapshots[k]``, or anew without snapshots.

        `length` is the number of draws of that run. A snapshot is taken after the last one, too.
        """
        self._snapshots, self._length = snapshots, length

    def start_chain(self, rng: np.random.Generator) -> None:
        self._begin()
        self._sampled = self.identity()
        if self._snapshots:
            # `pm.sample` spawns the generators of its chains from one, so the last spawn key is the
            # number of the chain.
            seeds: Any = rng.bit_generator.seed_seq
            self._start = self._snapshots[seeds.spawn_key[-1]]

    def _begin(self) -> None:
        self._start = None
        self._sampled = None
        self._draw = 0
        self._after_tuning = 0

    def stop_tuning(self) -> None:
        super().stop_tuning()
        self._after_tuning = self._draw

    def step(self, point: PointType):
        if self._start is not None:
            point, self._start = self._restore(self._start), None
        point, stats = super().step(point)
        self._draw += 1
        due = self._draw % self.every == 0 or self._draw in (self._after_tuning + 1, self._length)
        stats[-1] = stats[-1] | {"snapshot": self._snapshot(point) if due else ""}
        return point, stats

    def _snapshot(self, point: PointType) -> str:
        self._sampled = self._sampled or self.identity()
        state = {"point": dict(point), "state": self.sampling_state}
        return state_to_text(state | {"identity": json.dumps(self._sampled)})

    def _restore(self, snapshot: str) -> PointType:
        saved = state_from_text(snapshot, {"state": self.sampling_state})
        self.sampling_state = saved["state"]
        return saved["point"]


def sampled_identity(snapshot: str) -> dict[str, Any]:
    """Return the identity of the run in a snapshot."""
    return json.loads(leaf_in_text(snapshot, "identity"))


def _check_resumable(name: str, step: Any) -> None:
    if not isinstance(step, Resumable):
        raise TypeError(
            f"{name}={step!r} keeps no snapshots of its state: sample with Resumable(step)."
        )


RESUMABLE = Ruled("Resumable(step)", _check_resumable, lambda: [None, 3, "x"])
"""Checks of the argument `step` of functions on saved runs."""


def model_of_step(step: Resumable, model: Any) -> Model:
    """Return the model of `step`; raise ValueError if another is given."""
    if step.model is None:  # a copy
        return model_of(model)
    if model is not None and model is not step.model:
        raise ValueError("model= is not the model that Resumable(step) was built on.")
    return step.model
