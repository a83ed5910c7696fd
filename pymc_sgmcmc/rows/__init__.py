"""Choice of the minibatched likelihoods, and the graph of a batch: rows selected or joined."""
