"""Which tests `make check` runs for a changed file."""

from __future__ import annotations

import pytest

from tests.changed import ROOT, mirror_of


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("tvwrl/metrics.py", "tests/test_metrics.py"),
        ("tvwrl/ec/dtw.py", "tests/ec/test_dtw.py"),
        ("tvwrl/ec/clustering.py", "tests/ec"),
        ("tvwrl/papers/pism/published.py", "tests/papers/test_pism.py"),
        ("tvwrl/schedulers/registry.py", "tests/schedulers/test_registry.py"),
        ("tvwrl/schedulers/best_fit.py", "tests/schedulers/test_rules.py"),
        ("tvwrl/schedulers/production/__init__.py", "tests/schedulers/production"),
        ("tvwrl/__init__.py", None),
        ("scripts/train.py", "tests/cli/test_train.py"),
        ("examples/own_agent.py", "tests/benchmark/test_examples.py"),
        ("docs/how-to/install.md", "tests/test_docs.py"),
        ("tests/ec/test_dtw.py", "tests/ec/test_dtw.py"),
        ("tests/ec/conftest.py", "tests/ec"),
        ("tests/conftest.py", None),
        ("README.md", None),
    ],
)
def test_a_file_is_tested_by_what_mirrors_it(changed, tests):
    assert mirror_of(changed) == tests


def test_every_folder_of_the_package_is_mirrored_by_tests():
    folders = {path.parent.relative_to(ROOT) for path in ROOT.glob("tvwrl/*/**/*.py")}
    assert [folder for folder in folders if mirror_of(f"{folder}/new_module.py") is None] == []
