"""One chain: its kernel, its state, draw by draw, and what it sees of itself."""
