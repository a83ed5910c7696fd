"""Settings of the documentation: `uv run --extra docs sphinx-build -W docs docs/_build`."""

import re
from pathlib import Path

from sphinx.util.logging import getLogger

import pymc_sgmcmc
import pymc_sgmcmc.distributions

project = "pymc_sgmcmc"
author = copyright = "The pymc_sgmcmc developers"
release = pymc_sgmcmc.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
]
templates_path = ["_templates"]
# The table of notebooks/README.md is on the page docs/notebooks.md.
exclude_patterns = ["_build", "jupyter_execute", "notebooks/*.md"]

default_role = "py:obj"  # `name` is code, and a link where it is known
smartquotes = False  # "auto" is to be copied

html_theme = "pydata_sphinx_theme"
html_title = project
PAGES = [path.stem for path in Path(__file__).parent.glob("*.md")]
html_sidebars = {page: [] for page in PAGES}  # they have no pages below them to list
html_show_sourcelink = False
html_theme_options = {"show_prev_next": False, "footer_end": []}

autodoc_typehints = "none"  # numpydoc sections say the types, and more of them
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_validation_checks = {
    "all",
    "GL01",  # summaries begin on the first line
    "GL02",
    "ES01",  # a summary that says all is enough
    "SA01",  # texts link to what is related where they speak of it
    "SS05",  # a class is named by a noun
    "PR02",  # step methods say again what they change of SGMCMC's: test_docstrings.py looks
    "PR08",  # "h > 0, ..."
}
numpydoc_validation_exclude = {
    # Methods say in sentences what they take.
    r"\.(Algorithm|Metric|SGMCMC|Schedule|Annealing|Check|SamplerReport)\.",
    r"\.(Algorithm|Check|SamplerReport|SteinDiscrepancy)$",  # read, not made: they have attributes
    r"\.(RMSProp|Cooling|Context)$",  # parts, not made by users
    r"\.distributions\.",  # their signature is that of all distributions of PyMC
}

myst_enable_extensions = ["dollarmath", "amsmath", "tasklist"]  # as Jupyter shows them
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks hold their outputs
nb_merge_streams = True


def setup(app):
    """Let Sphinx call what follows."""
    app.connect("env-check-consistency", find_left_out)
    app.connect("source-read", list_notebooks)


def list_notebooks(app, name, source):
    """Put the table of notebooks/README.md on the page of notebooks."""
    if name == "notebooks":
        lines = (Path(app.srcdir) / "notebooks/README.md").read_text().splitlines()
        table = "\n".join(line for line in lines if line.startswith("|"))
        pages = re.sub(r"\[(\w+)\]\(\w+\.ipynb\)", r"{doc}`\1 <notebooks/\1>`", table)
        source[0] = source[0].replace("TABLE", pages)


def find_left_out(app, env):
    """Warn of public objects that are on no page."""
    there = env.get_domain("py").objects
    for module in (pymc_sgmcmc, pymc_sgmcmc.distributions):
        for name in (f"{module.__name__}.{each}" for each in module.__all__):
            if name not in there and not name.endswith("RV"):  # what draws, for PyMC
                getLogger(__name__).warning("%s is on no page of docs/api", name)
