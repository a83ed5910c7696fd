"""The negative log-posterior U and its gradient on any rows, and the sources of batches."""
