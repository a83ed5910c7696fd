"""Notebooks as they are committed: paired with text, executed in order, ending with versions."""

import json
import re
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
STRAY = re.compile(r"/tmp/|/home/|/root/|/Users/|Warning: |it/s|Traceback")
MARKER = re.compile(r"^# %%(?P<markdown> \[markdown\])?$", re.MULTILINE)


def source(cell):
    return "".join(cell["source"])


def outputs(cells):
    return [out for cell in cells if cell["cell_type"] == "code" for out in cell["outputs"]]


def printed(out):
    data = out.get("data", {})
    return "".join([*out.get("text", []), *data.get("text/plain", []), *data.get("text/html", [])])


def text_cells(path):
    """The kind and source of each cell of a text file in percent format."""
    _, *rest = MARKER.split(path.read_text(encoding="utf-8"))
    cells = []
    for markdown, body in zip(rest[::2], rest[1::2], strict=True):
        lines = body.strip("\n").split("\n")
        if markdown:
            lines = [line.removeprefix("#").removeprefix(" ") for line in lines]
        else:  # magics are comments there
            lines = [re.sub(r"^# (?=%)", "", line) for line in lines]
        cells.append(("markdown" if markdown else "code", "\n".join(lines)))
    return cells


def check(notebook, text):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    assert [(cell["cell_type"], source(cell)) for cell in cells] == text_cells(text), (
        f"{notebook.name} and {text.name} differ: jupytext --sync {text}"
    )
    counts = [cell["execution_count"] for cell in cells if cell["cell_type"] == "code"]
    assert counts == list(range(1, len(counts) + 1)), "not executed from top to bottom"
    assert not [out for out in outputs(cells) if out["output_type"] == "error"]
    stray = [found for out in outputs(cells) if (found := STRAY.search(printed(out)))]
    assert not stray, "paths of a machine, progress bars, or warnings that nobody explained"
    assert cells[0]["cell_type"] == "markdown" and "**Result:**" in source(cells[0])
    assert "RANDOM_SEED = " in source(cells[1])
    assert any(source(cell).startswith("assert ") for cell in cells)
    assert sum(source(cell).count("PYMC_SGMCMC_QUICK") for cell in cells) <= 1
    assert "".join(printed(out) for out in cells[-1]["outputs"]).startswith("Python 3.")


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook(notebook):
    check(notebook, notebook.with_suffix(".py"))


def test_a_path_in_an_output_shows(tmp_path):
    notebook = json.loads(NOTEBOOKS[0].read_text(encoding="utf-8"))
    warned = {"output_type": "stream", "name": "stderr", "text": ["/tmp/a.py:1: UserWarning: b"]}
    notebook["cells"][1]["outputs"].append(warned)
    copy = tmp_path / "copy.ipynb"
    copy.write_text(json.dumps(notebook), encoding="utf-8")
    with pytest.raises(AssertionError, match="paths of a machine"):
        check(copy, NOTEBOOKS[0].with_suffix(".py"))


def test_an_edit_of_one_of_the_pair_shows(tmp_path):
    text = tmp_path / "edited.py"
    text.write_text(NOTEBOOKS[0].with_suffix(".py").read_text(encoding="utf-8") + "# more\n")
    with pytest.raises(AssertionError, match="jupytext --sync"):
        check(NOTEBOOKS[0], text)
