"""Alarms as PyMC's warnings, which it prints while it samples and keeps in the sample stats."""

from pymc.stats.convergence import SamplerWarning, WarningType

from pymc_sgmcmc._utils.alarm import Alarm

__all__ = ["as_sampler_warning"]

_TYPES = {
    "divergence": WarningType.DIVERGENCE,
    "tuning divergence": WarningType.TUNING_DIVERGENCE,
    "start": WarningType.BAD_PARAMS,
    "tune": WarningType.BAD_PARAMS,
}
"""PyMC's word for the kind of an alarm, where it is not "convergence"."""


def as_sampler_warning(alarm: Alarm, draw: int) -> SamplerWarning:
    """Return the warning of PyMC for an alarm at a draw; its `extra` is the alarm's kind."""
    kind = _TYPES.get(alarm.kind, WarningType.CONVERGENCE)
    return SamplerWarning(kind, alarm.text, alarm.level, step=draw, extra=alarm.kind)
