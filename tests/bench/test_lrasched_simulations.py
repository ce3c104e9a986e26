"""Reproductions of the LRASched paper's simulations, small."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tvwrl.bench import lrasched_latency, lrasched_placement, lrasched_simulations, lrasched_testbed
from tvwrl.bench.lrasched_placement import Cell, complete
from tvwrl.bench.lrasched_simulations import PlacementSettings
from tvwrl.provisioning.referee import judge
from tvwrl.provisioning.sources.drawn import Drawn
from tvwrl.runs import read_csv
from tvwrl.types import InputError

QUICK = PlacementSettings(seeds=(0, 1), largest=(0.5,), scales=1, milp_seconds=2.0)


@pytest.fixture
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (lrasched_placement, lrasched_simulations):
        monkeypatch.setattr(module, "SCALES", ((12, 4),))
        monkeypatch.setattr(module, "DIMENSIONS", (2, 3))
    monkeypatch.setattr(lrasched_simulations, "SMALL", (8, 3))
    monkeypatch.setattr(lrasched_simulations, "SIZES", (5, 20))


def test_what_is_drawn_keeps_to_its_ranges() -> None:
    instance, fleet = Drawn(200, 50, 4, (2, 5), 0.3).draw(0)
    assert instance.demand.shape == (200, 1, 4)
    assert 0 < instance.demand.min() < 0.01 < 0.29 < instance.demand.max() <= 0.3
    assert set(instance.replicas) == {2, 3, 4, 5}
    assert set(instance.affinity.own) == set(range(1, 11))
    assert fleet.capacity[:50].min() >= 0.1
    assert fleet.capacity[-1].tolist() == [1.0] * 4  # whatever is left over fits
    again, other = Drawn(200, 50, 4, (2, 5), 0.3).draw(0)[0], Drawn(200, 50, 4, (2, 5), 0.3).draw(1)[0]
    assert np.array_equal(again.demand, instance.demand)
    assert not np.array_equal(other.demand, instance.demand)


def test_rows_are_kept_and_checked(tmp_path: Path) -> None:
    cell = Cell(Drawn(12, 4, 2, (1, 2), 0.5), 0)
    rows = complete(tmp_path, [cell], 2.0, 1)
    by_scheme = {row["scheme"]: row for row in rows}
    assert list(by_scheme) == ["LRASched", "LRASched-Search", "FFD-AntiAffinity", "MILP"]
    bound = rows[0]["bound_pct"]
    for row in rows:
        assert 0 < row["placed_pct"] <= bound + 1e-9
        assert 0 < row["utilisation_pct"] <= 100
        assert row["machines_used"] >= 4
    assert by_scheme["MILP"]["placed_pct"] >= by_scheme["LRASched-Search"]["placed_pct"]
    assert by_scheme["LRASched-Search"]["placed_pct"] >= by_scheme["LRASched"]["placed_pct"]
    file = tmp_path / "cells" / f"{cell.name}.csv"
    before = file.stat().st_mtime_ns
    assert complete(tmp_path, [cell], 2.0, 1) == rows
    assert file.stat().st_mtime_ns == before
    with pytest.raises(InputError, match=r"milp_seconds is 2\.0 there, here 3\.0"):
        complete(tmp_path, [cell], 3.0, 1)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("name", ["fig8", "fig9", "fig10", "gap", "range", "fig11"])
def test_every_figure_has_table_rows_and_provenance(tmp_path: Path, name: str) -> None:
    settings = replace(QUICK, milp_seconds=0.0 if name == "range" else 1.0)
    text = settings.reproduce(name, tmp_path)
    assert "(simulated)" in text.splitlines()[0]
    assert all(scheme in text for scheme in ("LRASched", "FFD-AntiAffinity"))
    assert len(read_csv(tmp_path / name / "rows.csv")) > 3
    assert (tmp_path / name / "table.md").read_text() == text
    assert (tmp_path / name / "run.json").exists()
    assert bool(list((tmp_path / name).glob("*.png"))) == (name.startswith("fig"))


def test_latency_grows_as_fitted() -> None:
    rows = [{"scheme": "a", "machines": m, "ms": 2.0 * m**0.5} for m in (100, 1_000, 10_000, 100_000)]
    assert lrasched_latency.growth(rows, "a") == pytest.approx(0.5)
    assert np.isnan(lrasched_latency.growth(rows[:2], "a"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"seeds": (1, 1)}, "seeds is 1, 1"),
        ({"largest": (0.5, 0.5)}, "largest is 0.5, 0.5"),
        ({"largest": (1.5,)}, "largest is 1.5"),
        ({"replicas": (3, 1)}, "replicas is 3 1"),
        ({"scales": 4}, "scales is 4: must be 1 to 3"),
        ({"milp_seconds": -1.0}, "milp_seconds is -1"),
        ({"workers": 0}, "workers is 0"),
    ],
)
def test_bad_settings(tmp_path: Path, wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(QUICK, **wrong).reproduce("fig8", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_testbed_is_sized_placed_and_measured() -> None:
    bed = lrasched_testbed.testbed(0)
    for scheme in lrasched_testbed.SCHEMES:
        made = lrasched_testbed.placed(bed, scheme, 2.0)
        verdict = judge(bed.instance, bed.fleet, made)
        assert verdict.good, verdict.examples
        assert 5 < verdict.whole < lrasched_testbed.ARRIVING  # the machines are too few for all
    text, rows, _ = lrasched_testbed.fig7((0,), 2.0)
    apart = [row for row in rows if row["scheme"] == "FFD-AntiAffinity"]
    assert all(row["collocation"] == 1 and row["p99_ms"] == row["apart_ms"] for row in apart)
    assert "cassandra" in text
