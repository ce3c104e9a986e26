"""Print the tests of what changed since a commit, which `make check` runs: python tests/changed.py main

A test file that changed is run itself. `tvwrl/ec/dtw.py` is tested by `tests/ec/test_dtw.py`; a module without a test
file of its own by the nearest folder, or file, that mirrors a folder above it: `tests/ec/` or `tests/test_ec.py`.
`ELSEWHERE` names the exceptions.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALWAYS = "tests/test_architecture.py"
ELSEWHERE = {
    "examples": "tests/benchmark/test_examples.py",
    "docs": "tests/test_docs.py",
    "deploy": "tests/serve/test_manifests.py",
    "tvwrl/schedulers/best_fit.py": "tests/schedulers/test_rules.py",
}


def git(*arguments: str) -> list[str]:
    """Lines that a git command prints; none where it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.splitlines()


def changed_since(commit: str) -> list[str]:
    """Files that differ from where this branch left `commit`, committed or not, and new ones; without what is gone."""
    left = git("merge-base", commit, "HEAD") or ["HEAD"]
    names = git("diff", "--name-only", left[0]) + git("ls-files", "--others", "--exclude-standard")
    return [name for name in names if (ROOT / name).exists()]


def mirror_of(name: str) -> str | None:
    """The test file or folder of a changed file, relative to the root; None where none mirrors it."""
    top, *inner = Path(name).parts
    if top == "tests":
        return name if inner[-1].startswith("test_") else str(Path(name).parent) if inner[1:] else None
    for place in (name, top):
        if place in ELSEWHERE:
            return ELSEWHERE[place]
    if not name.endswith(".py") or top not in ("tvwrl", "scripts"):
        return None
    mirror = Path("tests", *(["cli"] if top == "scripts" else []), *inner).with_suffix("")
    for path in (mirror, *mirror.parents[:-2]):  # up to tests/a
        for candidate in (path.with_name(f"test_{path.name}.py"), path):
            if (ROOT / candidate).exists():
                return str(candidate)
    return None


if __name__ == "__main__":
    found = {mirror_of(name) for name in changed_since(sys.argv[1])} - {None}
    print(*sorted({ALWAYS, *found}))
