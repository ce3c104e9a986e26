"""The Python of the tutorials runs as a test, from the top of a page to its end, in an empty folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

SHORTER = {"100_000": "4_096", "204_800": "4_096"}  # in tests a training only has to run


class Shortened(PythonEvaluator):
    """Python with shorter trainings."""

    def __call__(self, example: Example) -> None:
        for long, short in SHORTER.items():
            example.parsed = type(example.parsed)(
                example.parsed.replace(long, short), example.parsed.offset, example.parsed.line_offset
            )
        super().__call__(example)


@pytest.fixture(scope="module")
def in_a_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The examples of a page share an empty working directory."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("tutorial")
        patch.chdir(folder)
        yield folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tutorials train and play, so they are left out where only fast tests are wanted."""
    for item in items:
        if item.path.suffix == ".md":
            item.add_marker("slow")


pytest_collect_file = Sybil(
    parsers=[CodeBlockParser("python", Shortened())], patterns=["tutorials/*.md"], fixtures=["in_a_folder"]
).pytest()
