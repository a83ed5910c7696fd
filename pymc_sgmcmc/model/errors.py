"""The error where the rows of a log-likelihood do not separate."""

__all__ = ["RowsDoNotSeparate"]


class RowsDoNotSeparate(ValueError):
    """The log-likelihood is not a sum over the rows of the data."""
