"""Reading of a PyMC model: its log-densities, full data, start values, and its errors."""
