"""Colours, lines and legends of all plots: distinct to colour-blind readers (Okabe and Ito)."""

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
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, BLACK)  # its yellow is too light for lines
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1)), "-.")

RIGHT, WRONG = BLUE, VERMILION
BACKGROUND = "0.9"
EXPECTED = {"color": "0.25", "linestyle": "--", "linewidth": 1}
"""A line for what a figure is to be."""

NAMED = 12
"""Lines that a legend names; where there are more, it names none of them."""


def line_style(number: int) -> dict[str, Any]:
    """Colour and dashes of a chain, or of a sampler, counted from 0: 28 different ones."""
    dashes = DASHES[number // len(COLOURS) % len(DASHES)]
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": dashes}


def add_legend(axes: Sequence[Any], *, ours: bool) -> None:
    """One legend for all axes: above the figure if that is `ours`, else in the first of them."""
    handles = {}
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
