"""Tuning of a chain: centre, metric, noise, batch size and step size."""
