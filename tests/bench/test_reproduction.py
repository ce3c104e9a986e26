"""Tables of the paper: orders by hand, and a small run of the second table that goes on where it stopped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tvwrl.agents.config import PRESETS
from tvwrl.bench.reproduction import METRICS, TABLE2, VARIANTS, _orders, table2_clustering
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError, Trace


def test_orders() -> None:
    published = {"a": 3.0, "b": 2.0, "c": 1.0}
    assert _orders("gain", {"a": 0.3, "b": 0.2, "c": 0.1}, published, True) == [
        "- gain: the order is the paper's, best first a, b, c"
    ]
    differs = _orders("waste", {"a": 0.3, "b": 0.2, "c": 0.25}, published, False)
    assert differs == ["- waste: the order differs: here, best first, b, c, a; in the paper c, b, a"]
    assert _orders("gain", {"a": 0.3}, published, True) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_table_2_and_going_on(google: Trace, tmp_path: Path) -> None:
    scenario = Scenario(machines=4, workloads=8, history=4)
    small = {"iterations": 1, "train_sequences": 2, "sequences_per_iteration": 1, "trajectories": 2}
    config = replace(PRESETS["smoke"], **small, eval_every=1, eval_sequences=1, comparison_sequences=2)
    config = replace(config, scenario=scenario)
    text = table2_clustering(google, config, [0], 8, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"settings.json", *(f"{variant}-0" for variant in VARIANTS)}
    for _, name, _ in METRICS:
        line = next(line for line in text.splitlines() if line.startswith(f"| {name}"))
        assert [float(cell.split("(")[1].split(")")[0]) for cell in line.split("|")[2:-1]] == list(TABLE2[name])
    written = [path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("rows.csv"))]
    assert table2_clustering(google, config, [0], 8, tmp_path) == text
    assert [path.stat().st_mtime_ns for path in sorted(tmp_path.rglob("rows.csv"))] == written
    with pytest.raises(InputError, match="another trace or with other settings"):
        table2_clustering(google, config, [0], 9, tmp_path)
