"""README and documentation: what they link to is there, what they show runs."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FORGE = "https://github.com/pymc-sgmcmc/pymc_sgmcmc/blob/main/"
README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("notebooks/*.md")])
if not (ROOT / "docs").exists():
    pytest.skip("a source distribution has no docs/", allow_module_level=True)
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))

FENCED = re.compile(r"^```.*?^```", re.M | re.S)
INCLUDE = re.compile(r"^```\{include\} (.*)$", re.M)
LINK = re.compile(r"\]\(([^)\s]+)\)")
DOC_ROLE = re.compile(r"\{doc\}`(?:[^`<]*<)?([^`>]+)>?`")
PYTHON = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
USES = re.compile(r"^\s*(?:- )?uses: (.*)$", re.M)
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40} # v\d+(\.\d+)+")


def anchors(page):
    """The ids of a page's headings, as the forge and Sphinx make them, and explicit labels."""
    text = page.read_text(encoding="utf-8")
    for included in INCLUDE.findall(text):
        text += (page.parent / included).read_text(encoding="utf-8")
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", text), re.M)
    slugs = {re.sub(r"[^\w -]", "", each.lower()).strip().replace(" ", "-") for each in headings}
    return slugs | set(re.findall(r"^\(([\w-]+)\)=$", text, re.M))


def broken(page):
    """The relative links of a page that lead nowhere."""
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    wrong = []
    for link in LINK.findall(text):
        path, _, anchor = link.partition("#")
        if anchor.startswith("pymc_sgmcmc"):
            continue  # an object of the reference: Sphinx looks for it
        if path.startswith(FORGE):  # from a page that the documentation includes
            target = ROOT / path.removeprefix(FORGE)
        elif path.startswith(("http://", "https://")):
            continue
        else:
            target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            wrong.append(link)
    for name in DOC_ROLE.findall(text):
        if not any((page.parent / f"{name}{end}").exists() for end in (".md", ".rst", ".ipynb")):
            wrong.append(name)
    return wrong


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 200


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page):
    assert not broken(page)


def test_a_broken_link_shows(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A b\n[x](#a-b) [y](#c) [z](no.md) {doc}`t <no>` [w](https://a.b)\n")
    assert broken(page) == ["#c", "no.md", "no"]


def test_the_readme_has_the_two_commands():
    text = README.read_text(encoding="utf-8")
    assert "\nuv run python -m pymc_sgmcmc\n" in text
    assert "\nuv run --extra test pytest -n auto\n" in text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_code_can_be_parsed(page):
    for block in PYTHON.findall(page.read_text(encoding="utf-8")):
        compile(block, str(page), "exec")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_parses_and_pins_its_actions(workflow):
    text = workflow.read_text(encoding="utf-8")
    parsed = yaml.safe_load(text)
    assert parsed["jobs"] and parsed["permissions"], "permissions are said, not inherited"
    assert all(job["timeout-minutes"] for job in parsed["jobs"].values())
    uses = USES.findall(text)
    assert uses and not [each for each in uses if not PINNED.fullmatch(each)]


def test_there_are_workflows():
    assert {path.stem for path in WORKFLOWS} == {"ci", "docs", "nightly", "release"}
