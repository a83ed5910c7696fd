"""Texts on draws that are too wide or too narrow: how much, why, and the remedy."""

__all__ = ["describe_ratio", "explain_width"]


def describe_ratio(ratio: float, error: float) -> str:
    """Return a variance ratio in words; a ratio of 0 or less means that there is none."""
    if ratio <= 0:
        return (
            "not to be had: the draws move downhill with their gradient, as in no posterior (the "
            "chain is still on its way, or has not mixed)"
        )
    sd = f"{100 * (ratio**0.5 - 1):+.0f} %"
    return f"{ratio:.2f} ± {error:.2f} times what it should be, the sd {sd}"


def explain_width(temperature: float, ratio: float, noise: float) -> str:
    """Return a text with the cause of a variance `ratio` times too large, and the remedy.

    `noise` is the part of the ratio that gradient noise adds, NaN if unknown.
    """
    if temperature != 1 and abs(ratio - temperature) < abs(ratio - 1):
        return (
            f"That is what temperature={temperature:g} asks for: these are not draws from the "
            "posterior, which has temperature=1."
        )
    if noise / (ratio - 1) > 0.5:
        cure = "Use gradient='control_variate', a larger batch_size, or noise_estimate='auto'"
        if ratio < 1:  # of a thermostat that all coordinates share
            cure += ", or thermostat='coordinate'; with SGD a smaller batch_size"
        return f"Gradient noise accounts for {noise:+.2f} of it. {cure}."
    known = f"Gradient noise accounts for {noise:+.2f} of it. " if noise == noise else ""
    return (
        f"{known}Either the step is too long: halve step_size, or bias_tolerance. Or the chain has "
        "not found the posterior: tune longer, or start closer. If neither helps, batches are not "
        "drawn at random, or this is a bug: please report it."
    )
