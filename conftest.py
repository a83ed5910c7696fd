"""The examples of the docstrings, run as tests, may write files: each in a folder of its own."""

import pytest


@pytest.fixture(autouse=True)
def folder_of_an_example(request):
    """Change to it, and back."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
