"""Error for a log-likelihood whose rows do not separate."""

__all__ = ["RowsDoNotSeparate"]


class RowsDoNotSeparate(ValueError):
    """Error: the log-likelihood is not a sum over the rows of the data."""
