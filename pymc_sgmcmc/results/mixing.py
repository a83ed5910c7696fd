"""Mixing of chains: split R-hat and effective sample sizes of every coordinate."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from pymc_sgmcmc._utils.alarm import Alarm
from pymc_sgmcmc._utils.flat import entry_name
from pymc_sgmcmc._utils.text import listed
from pymc_sgmcmc.model.unconstrain import FlatDraws
from pymc_sgmcmc.results.section import Section

__all__ = ["Mixing", "check_mixing", "mixing"]

R_HAT = 1.05
"""Largest R-hat without an alarm. Above it chains, or halves of a chain, differ in place or
width."""

ESS = 100
"""Least effective number of draws, for a mean and for a variance, without an alarm."""

MOST = 1000
"""Largest number of coordinates to examine. More coordinates are represented by so many, spread
evenly."""

FEWEST_DRAWS = 4
"""Least number of draws in a chain that ArviZ accepts."""


@dataclass(frozen=True, eq=False)
class Mixing:
    """Mixing figures of chains, each of shape (d,); NaN if they do not exist.

    Attributes
    ----------
    r_hat : array
        Split R-hat. For one chain it compares the halves.
    ess, ess_of_square : array
        Effective number of independent draws for the mean of q and of (q - mean)^2, all chains.
    examined : array of bool
        Mask of the coordinates that were examined.
    constant, not_finite : array of bool
        Masks of coordinates without figures: those in which a chain never moves, and those that
        hold NaN or infinity.
    """

    r_hat: np.ndarray
    ess: np.ndarray
    ess_of_square: np.ndarray
    examined: np.ndarray
    constant: np.ndarray
    not_finite: np.ndarray


def mixing(draws: FlatDraws) -> Mixing:
    """Compute split R-hat and effective sample sizes of at most `MOST` coordinates."""
    q, size = draws.values, draws.size
    length = q.shape[1]
    # Use extremes: a sum may overflow if a chain has wandered off.
    lowest, highest = q.min(axis=1), q.max(axis=1)
    not_finite = ~np.all(np.isfinite(lowest) & np.isfinite(highest), axis=0)
    constant = ~not_finite & np.any(lowest == highest, axis=0)
    examined = np.zeros(size, dtype=bool)
    examined[np.linspace(0, size - 1, min(size, MOST)).astype(int)] = True
    r_hat, ess, ess_of_square = np.full((3, size), np.nan)
    usable = np.flatnonzero(examined & ~constant & ~not_finite)
    if len(usable) and length >= FEWEST_DRAWS:
        part = q[:, :, usable]
        # ArviZ treats a coordinate as constant if its range is below 1e-15.
        part = (part - part.mean(axis=(0, 1))) / part.std(axis=(0, 1))
        r_hat[usable], ess[usable] = _r_hat(part), _ess(part)
        ess_of_square[usable] = _ess(np.square(part))
    return Mixing(r_hat, ess, ess_of_square, examined, constant, not_finite)


def check_mixing(draws: FlatDraws) -> Section:
    """Return the finding on mixing. Without an alarm, all other checks are conclusive."""
    figures = mixing(draws)
    chains, size = len(draws.values), draws.size
    names, least = draws.names, np.fmin(figures.ess, figures.ess_of_square)
    unmeasured = figures.examined & ~figures.constant & ~figures.not_finite
    unmeasured &= np.isnan(figures.r_hat + figures.ess + figures.ess_of_square)
    slow = (figures.r_hat > R_HAT) | (least < ESS)
    alarms = []
    for coordinates, what in (
        (figures.not_finite, "holds NaN or infinite values: the chain has diverged, or it touches "
         "the edge of the support. Choose a smaller step size, or reparametrise"),
        (figures.constant, "is constant: a chain never moved in it. Look at the step size, and "
         "whether a step method samples it at all"),
        (unmeasured, "has no R-hat or effective size: there are too few draws. Run longer"),
    ):  # fmt: skip
        if coordinates.any():
            who = [names[i] for i in np.flatnonzero(coordinates)]
            alarms.append(Alarm("mixing", f"{listed(who)} {what}."))
    if slow.any():
        worst = sorted(np.flatnonzero(slow), key=lambda i: least[i])
        phrases = [
            f"{names[i]} has R-hat {figures.r_hat[i]:.2f}, effective size {figures.ess[i]:.0f} "
            f"(of its square: {figures.ess_of_square[i]:.0f})"
            for i in worst
        ]
        alarms.append(
            Alarm(
                "mixing",
                f"The chains have not mixed: {listed(phrases)}. R-hat is to be at most {R_HAT}, "
                f"effective sizes at least {ESS}. The means and sds are not usable. Run longer, "
                "start closer, use a metric, or reparametrise (where the scale of effects "
                "is unknown, the other one of the centred and the non-centred form).",
            )
        )
    notes = []
    if chains == 1:
        notes.append(
            "There is one chain: R-hat compares its halves, and a mode that it did not visit "
            "cannot be seen. Run four chains from different places."
        )
    if size > MOST:
        notes.append(f"R-hat and effective sizes are those of {MOST} of {size} coordinates, "
                     "spread evenly; a slow one among the others was not looked for.")  # fmt: skip
    alarms += _of_discrete(draws)
    passed = ""
    if not alarms:
        i, j = int(np.nanargmax(figures.r_hat)), int(np.nanargmin(least))
        passed = (
            f"Largest R-hat {figures.r_hat[i]:.3f} ({names[i]}; alarm above {R_HAT}), least "
            f"effective size {least[j]:.0f} ({names[j]}; alarm below {ESS})."
        )
    keys = ("r_hat", "ess", "ess_of_square")
    return Section(
        "Mixing", tuple(alarms), passed, tuple(notes), {k: getattr(figures, k) for k in keys}
    )


def _of_discrete(draws: FlatDraws) -> list[Alarm]:
    """Return an alarm if discrete variables have not mixed; an entry may be the same throughout."""
    phrases = []
    for var, values in draws.others.items():
        flat = np.reshape(values, (*values.shape[:2], -1)).astype(float)
        some = np.linspace(0, flat.shape[2] - 1, min(flat.shape[2], MOST)).astype(int)
        moving = some[np.any(flat[:, :, some] != flat[:1, :1, some], axis=(0, 1))]
        if not moving.size or flat.shape[1] < FEWEST_DRAWS:
            continue
        with np.errstate(divide="ignore"):  # chains that stay apart, each in one place
            r_hat = _r_hat(flat[:, :, moving])
            ess = np.nan_to_num(_ess(flat[:, :, moving]))
        for i in np.flatnonzero((r_hat > R_HAT) | (ess < ESS)):
            name = entry_name(var.name, values.shape[2:], int(moving[i]))
            what = f"{name} has R-hat {r_hat[i]:.2f}, effective size {ess[i]:.0f}"
            phrases.append((ess[i], what))
    if not phrases:
        return []
    return [
        Alarm(
            "mixing",
            "Discrete variables have not mixed, and what depends on them has not: "
            f"{listed([text for _, text in sorted(phrases)])}. Other step methods draw them, and "
            "settings of this one do not help: sum them out of the model, draw them by Gibbs, or "
            "run longer.",
        )
    ]


def _r_hat(q: np.ndarray) -> np.ndarray:
    """Return split R-hat, (d,), of `q` (chains, draws, d); of one chain that of its halves."""
    import arviz as az  # imported here because importing it takes seconds

    if len(q) > 1:
        return az.rhat(_dataset(q), method="split")["q"].values
    half = q.shape[1] // 2  # ArviZ refuses one chain
    halves = np.stack([q[0, :half], q[0, q.shape[1] - half :]])
    return az.rhat(_dataset(halves), method="identity")["q"].values


def _ess(q: np.ndarray) -> np.ndarray:
    """Return effective sizes, (d,), for the means of `q` (chains, draws, d)."""
    import arviz as az

    return az.ess(_dataset(q), method="mean")["q"].values


def _dataset(values: np.ndarray) -> xr.Dataset:
    return xr.Dataset({"q": (("chain", "draw", "coordinate"), values)})
