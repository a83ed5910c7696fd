"""What `import pymc_sgmcmc` imports, and what it leaves for later."""

import ast
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import pymc_sgmcmc

LATER = pymc_sgmcmc._IMPORTED_WHEN_USED


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(pymc_sgmcmc.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {
        node.module.removeprefix("pymc_sgmcmc."): [alias.name for alias in node.names]
        for node in block.body
        if isinstance(node, ast.ImportFrom)
    }
    assert seen == LATER


def test_all_names_are_there():
    for name in pymc_sgmcmc.__all__:
        assert getattr(pymc_sgmcmc, name) is not None
    assert set(pymc_sgmcmc.__all__) <= set(dir(pymc_sgmcmc))
    assert pymc_sgmcmc.__version__ == version("pymc_sgmcmc")
    with pytest.raises(AttributeError, match=r"no attribute 'SGLDD'$"):
        pymc_sgmcmc.SGLDD
    with pytest.raises(AttributeError, match="no attribute 'sgnht': did you mean SGNHT"):
        pymc_sgmcmc.sgnht


def test_sampling_needs_none_of_them_and_nothing_slow_beside_pymc():
    """An import may add 0.2 s; Numba, ArviZ and SciPy's statistics would add seconds."""
    own = ["saving", "results.check", "plots", "conformance"]
    others = ["h5py", "numba", "arviz", "matplotlib", "scipy.stats", "scipy.special"]
    later = [f"pymc_sgmcmc.{name}" for name in own] + others
    code = (
        "import sys, pymc; before = set(sys.modules); import pymc_sgmcmc; "
        f"print([name for name in {later} if name in set(sys.modules) - before]); "
        "from pymc_sgmcmc import check, save"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
