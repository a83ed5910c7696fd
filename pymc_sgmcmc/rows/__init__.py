"""Which likelihoods are minibatched, and the graph of a batch: rows selected or joined."""
