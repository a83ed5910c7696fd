"""Runs on disk: saved while they go on, identified, and resumed."""
