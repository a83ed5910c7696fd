"""What is true of tests and of the examples in docstrings, which are run as tests."""

import warnings

import pytest


def pytest_configure(config):
    """Import ArviZ before the workers do: at the first import of a day they race for one file."""
    if not hasattr(config, "workerinput"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            import arviz  # noqa: F401


@pytest.fixture(autouse=True)
def folder_of_an_example(request):
    """Examples may write files: change to a folder for each, and back."""
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("monkeypatch").chdir(request.getfixturevalue("tmp_path"))
