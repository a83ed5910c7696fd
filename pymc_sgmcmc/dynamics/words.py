"""Words of exactly solved flows, which are the splitting integrators of the momentum samplers.

The letters are A for a drift, B for a kick by the gradient, O for Ornstein-Uhlenbeck, D for the
thermostat, and U for a drift together with Ornstein-Uhlenbeck. The time of a letter is the step
size divided by the number of its occurrences in the word. BAOAB, for example, is half a kick, half
a drift, friction and noise, half a drift, half a kick.
"""

from functools import cache
from itertools import groupby
from typing import Any

import numpy as np

from pymc_sgmcmc._utils.constraints import Ruled
from pymc_sgmcmc._utils.validation import shortened

__all__ = ["KICKS", "checked_word", "flows", "spelled", "splitting"]

MOVES, KICKS = "AU", "BK"

NAMED = ("euler", "symmetric")
SPELLED = {
    False: {"symmetric": "AFKFA"},
    True: {"symmetric": "ADFKFDA", "BAOAB": "BADODAB"},
}
"""Words of the named splittings, without and with a thermostat."""
WORDS = ("BAOAB", "ABOBA", "OBABO", "UBU")
THERMOSTATTED = ("BADODAB", "ABDODBA", "ODBABDO", "DUBUD")


def spelled(integrator: str, *, thermostat: bool) -> str:
    """Return the word of a splitting, given the word or its name."""
    return SPELLED[thermostat].get(integrator, integrator)


def splitting(*, thermostat: bool, curved: bool = False) -> Ruled:
    """Return the rule that checks the argument ``integrator`` of a sampler."""

    def rule(name: str, value: Any) -> None:
        checked_word(value, thermostat=thermostat, curved=curved)

    return Ruled(
        "a word of flows, or the name of an integrator", rule,
        lambda: ["leapfrog", "", 3, None, ["BAOAB"], np.array(["BAOAB", "ABOBA"]), "BAB", "BAO",
                 b"BAOAB", "XYZ", True, object()],
    )  # fmt: skip


def checked_word(word: str, *, thermostat: bool, curved: bool = False) -> str:
    """Return `word` if it names a splitting, or is one of second order with one gradient.

    With `curved` the splitting is for manifolds, on which U and Euler's method are not available.

    Raises
    ------
    ValueError
        If the word has an unknown letter, lacks one, kicks at several q, or is not symmetric.
    """
    known = "ABO" + "D" * thermostat + "U" * (not curved)
    examples = [e for e in (THERMOSTATTED if thermostat else WORDS) if not set(e) - set(known)]
    named = [name for name in NAMED if not (curved and name == "euler")]

    def refuse(why: str) -> ValueError:
        return ValueError(
            f"integrator={shortened(word)} {why}. Choose {', '.join(map(repr, named))} or a word: "
            f"{', '.join(examples)}."
        )

    if isinstance(word, str) and (word in named or word in SPELLED[thermostat]):
        return word
    if not isinstance(word, str) or not word or set(word) - set(known):
        raise refuse(f"is unknown: a splitting is a word of the letters {', '.join(known)}")
    for wanted in ("B", "AU", "OU", *(["D"] if thermostat else [])):
        if not set(word) & set(wanted):
            raise refuse(f"lacks {' or '.join(wanted)}")
    if "U" in word and set(word) & set("AO"):
        raise refuse("has U, which is a drift with friction and noise already, and A or O")
    letters = "".join(letter for letter, _ in flows(word))
    first, last = letters.find("B"), letters.rfind("B")
    if set(letters[first:last]) & set(MOVES):
        raise refuse("kicks at several positions: an inner step has one gradient")
    shares = list(flows(word))
    if shares[0][0] == shares[-1][0]:  # consecutive steps join these flows
        shares = [(shares[0][0], shares[0][1] + shares[-1][1]), *shares[1:-1]]
    turns = [shares[k:] + shares[:k] for k in range(len(shares))]
    if shares[::-1] not in turns:
        raise refuse("is not symmetric, and so of first order only")
    return word


@cache
def flows(word: str | None) -> tuple[tuple[str, float], ...]:
    """Return the flows of one step and their shares of the step size; none if not a word.

    The flows after the last drift come first, because they and the first flows of the next step are
    at the same q, and halves of one flow join. BAOAB becomes a whole kick, half a drift, O, half a
    drift.
    """
    if not (word and word.isupper()):
        return ()
    end = 1 + max(word.rfind(letter) for letter in MOVES)
    turned = groupby(word[end:] + word[:end])
    return tuple((letter, len([*run]) / word.count(letter)) for letter, run in turned)
