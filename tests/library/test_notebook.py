"""The notebook runs from top to bottom, and its outputs are stored."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FILE = Path(__file__).resolve().parents[2] / "examples" / "quickstart.ipynb"


@pytest.fixture
def notebook():
    return nbformat.read(FILE, as_version=4)


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_its_outputs_are_those_of_one_run(notebook):
    assert [cell.execution_count for cell in code(notebook)] == list(range(1, len(code(notebook)) + 1))
    shown = [output for cell in code(notebook) for output in cell.outputs]
    assert {output.output_type for output in shown} == {"stream", "display_data", "execute_result"}
    assert sum("image/png" in output.get("data", {}) for output in shown) == 3
    assert all(output.name == "stdout" for output in shown if output.output_type == "stream")


@pytest.mark.slow
@pytest.mark.outside
def test_it_runs(notebook, tmp_path):
    """From the top; less is trained and played here than what is stored."""
    for cell in code(notebook):
        cell.source = cell.source.replace("iterations=8", "iterations=2").replace("sequences=5", "sequences=2")
    NotebookClient(notebook, timeout=500, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
