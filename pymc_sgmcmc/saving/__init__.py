"""Runs on disk: saving during sampling, identification, and resuming."""
