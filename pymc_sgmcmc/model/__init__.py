"""What a PyMC model says: its log-densities, full data, start values, and what is wrong with it."""
