"""Functions of what pm.sample returned: checks, comparisons, predictions. No step method."""
