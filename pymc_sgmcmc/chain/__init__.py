"""One chain: its kernel, its state from draw to draw, and its self-monitoring."""
