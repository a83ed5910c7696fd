"""Functions of the result of `pm.sample`: checks, comparisons, predictions. No step methods."""
