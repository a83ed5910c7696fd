"""What is found while a chain is tuned: centre, metric, noise, batch and step size."""
