"""What code and help texts say of the documentation is true. `make docs` checks the links of the pages themselves."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CODE = ("tvwrl", "scripts", "benchmarks", "examples", "tests")


def test_every_page_that_code_names_exists():
    files = [path for folder in CODE for path in (ROOT / folder).rglob("*.py") if path != Path(__file__)]
    named = {(page, path.name) for path in files for page in pages_in(path.read_text(encoding="utf-8"))}
    assert named
    assert not {(page, file) for page, file in named if not (ROOT / page).exists()}


def pages_in(text: str) -> set[str]:
    """Paths of pages and pictures below docs/."""
    return set(re.findall(r"\bdocs/[\w/.-]+\.(?:md|png)\b", text))


def test_pages_are_found_in_text():
    assert pages_in("see (docs/a-b/c.md), docs/d/e.png: and docs/f") == {"docs/a-b/c.md", "docs/d/e.png"}


def test_links_of_the_readme_lead_somewhere():
    targets = re.findall(r"\]\(([^)#\s]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert [target for target in targets if "://" not in target and not (ROOT / target).exists()] == []


def test_files_of_the_package_that_are_named_exist():
    pages = [
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("benchmarks/*.py"),
    ]
    named = {
        (page.relative_to(ROOT), path)
        for page in pages
        if "_build" not in page.parts
        for path in re.findall(r"\btvwrl/[a-z0-9_/]+\.py\b", page.read_text(encoding="utf-8"))
    }
    assert named
    assert not {(page, path) for page, path in named if not (ROOT / path).exists()}


@pytest.mark.slow
@pytest.mark.outside
def test_the_site_builds_without_a_warning(tmp_path):
    """As `make docs` does: no dead link, no missing picture, no public name without a docstring."""
    pytest.importorskip("sphinx")
    command = [sys.executable, "-m", "sphinx", "-E", "-q", "-W", "--keep-going", "-d", str(tmp_path / "trees")]
    done = subprocess.run([*command, str(ROOT / "docs"), str(tmp_path / "html")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "html" / "tutorials" / "bring-an-agent.html").exists()
