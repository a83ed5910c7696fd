"""Colours, lines and legends of all plots, distinct for colour-blind readers (Okabe and Ito)."""

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = [
    "BACKGROUND",
    "BLACK",
    "BLUE",
    "EXPECTED",
    "ORANGE",
    "RIGHT",
    "SKY",
    "VERMILION",
    "WRONG",
    "add_legend",
    "line_style",
]

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#E69F00", "#009E73", "#CC79A7"
SKY, VERMILION, BLACK = "#56B4E9", "#D55E00", "#000000"
# Without the yellow of Okabe and Ito, which is too light for lines.
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, BLACK)
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), "-.")

RIGHT, WRONG = BLUE, VERMILION
BACKGROUND = "0.9"
EXPECTED = {"color": "0.25", "linestyle": "--", "linewidth": 1}
"""Style of the line at an expected value."""

NAMED = 12
"""Largest number of chains that a legend names. If there are more, it names none."""


def line_style(number: int) -> dict[str, Any]:
    """Return colour and dashes of a chain or sampler, counted from 0; 28 styles are different."""
    dashes = DASHES[number // len(COLOURS) % len(DASHES)]
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": dashes}


def add_legend(axes: Sequence[Any] | np.ndarray, *, ours: bool) -> None:
    """Add one legend for all axes: above the figure if it is `ours`, else in the first axes."""
    handles: dict[str, Any] = {}
    for ax in axes:
        handles |= {
            text: handle for handle, text in zip(*ax.get_legend_handles_labels(), strict=True)
        }
    chains = [text for text in handles if text.startswith("chain ")]
    if len(chains) > NAMED:
        for text in chains:
            del handles[text]
    if not handles:
        return
    figure = axes[0].figure
    if ours:
        inches = sum(0.07 * len(text) + 0.6 for text in handles)
        columns = -(-len(handles) // int(np.ceil(inches / figure.get_figwidth())))
        figure.legend(
            handles.values(), handles, loc="outside upper center", ncols=columns, frameon=False,
            fontsize=8, markerscale=2,
        )  # fmt: skip
    else:
        axes[0].legend(handles.values(), handles, fontsize=8)
