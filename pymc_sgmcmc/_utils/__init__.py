"""Arrays, texts and arguments, for any room. Nothing of the package is imported here."""
