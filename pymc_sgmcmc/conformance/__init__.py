"""Checks of a sampler that a user has written: what is asked of each sampler of this package."""
