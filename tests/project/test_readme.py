"""The Python code of the README, as it stands."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", README.read_text(encoding="utf-8"), re.M | re.S)


def test_there_is_code():
    assert BLOCKS


@pytest.mark.statistics
@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_a_block_runs(block):
    names = {"__name__": "readme"}
    exec(compile(block, str(README), "exec"), names)
    found = names["check"](names["idata"], names["model"])
    assert found.conclusive and not found.alarms
    errors = names["idata"].posterior["beta"].mean(("chain", "draw")) - [0.5, -1.0, 0.2]
    assert abs(errors).max() < 0.04  # 5 posterior sds
