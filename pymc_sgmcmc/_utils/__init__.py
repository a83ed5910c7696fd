"""Helpers for arrays, texts and arguments, for any room. This room imports no other room."""
