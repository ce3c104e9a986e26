"""Figures of PISM's simulation: the smallest cluster end to end, throughput by hand, refused settings."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from tvwrl.bench import pism_judge, pism_worlds
from tvwrl.bench.pism_simulation import NAMES, SimulationSettings
from tvwrl.bench.pism_worlds import AGAIN, ALONE, COUNTS, KINDS, NO_MOVES, ONCE, SHUFFLED, UTILISATION, complete
from tvwrl.types import InputError

TINY = SimulationSettings(preset="smoke", laws=("control",), machines=4)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    out = tmp_path_factory.mktemp("pism")
    return out, {name: TINY.reproduce(name, out) for name in NAMES}


def test_every_figure_has_its_files_and_says_that_it_is_simulated(made):
    out, texts = made
    for name, text in texts.items():
        assert "(simulated)" in text.splitlines()[0]
        assert {"rows.csv", "table.md", "run.json"} <= {path.name for path in (out / name).iterdir()}
        assert (out / name / "table.md").read_text() == text
    assert "5.468" in texts["fig12"]
    assert "-16.9" in texts["fig13"]
    assert (out / "fig12" / "plot-control.png").stat().st_size > 1000
    assert len(list((out / "cells").iterdir())) == 1  # all four share the cluster


def test_rows_hold_every_scheduler_alone_and_with_pism(made):
    out, _ = made
    rows = complete(out, TINY._cells("fig12"), 1)  # none is simulated again
    names = [(row["scheduler"], row["learnt"], row["trees"]) for row in rows]
    ways, others = (ONCE, COUNTS, SHUFFLED, AGAIN), [name for name in KINDS if name != "default"]
    without = [(name, "", trees) for name in KINDS for trees in ways]  # each judged by the trees of each
    without += [(name, UTILISATION, trees) for name in others for trees in ways]
    assert names == without + [(name, way, way) for way in ways for name in (ALONE, NO_MOVES, *others)]
    told = dict(zip(names, rows, strict=True))
    one, other = told["default", "", ONCE], told["default", "", AGAIN]
    assert one["slowdown"] == other["slowdown"]
    assert one["predicted"] != other["predicted"]
    assert told[NO_MOVES, ONCE, ONCE]["moves"] == told["spread", ONCE, ONCE]["moves"] == 0.0
    for row in rows:
        assert sum(row[f"score_{bucket}"] for bucket in range(10)) == pytest.approx(100)
        assert row["checkout_p0"] <= row["checkout_p50"] <= row["checkout_p99"]
        assert row["slowdown"] > 1
    before = rows[0]
    assert (before["heavy"], before["light"]) == (0, 0)
    spread = next(row for row in rows if (row["scheduler"], row["learnt"]) == ("spread", ""))
    width = [row["utilisation_p95"] - row["utilisation_p5"] for row in (before, spread)]
    assert width[1] < width[0]


def test_the_same_seed_gives_the_same_rows(made, tmp_path):
    out, _ = made
    cell = TINY._cells("fig12")[0]
    pism_worlds.play_cell(cell, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == (out / "cells" / f"{cell.name}.csv").read_text()


def test_throughput_by_hand():
    before = np.array([[10.0, 10.0, np.nan], [50.0, 11.0, np.nan]])  # means, P90: the first is tail-heavy
    now = np.array([[5.0, 8.0, np.nan], [9.0, 9.0, np.nan]])
    found = pism_judge.throughput(before, now)
    assert found == pytest.approx({"heavy": 100.0, "light": 25.0, "heaviest": 5.0})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"laws": ("other",)}, "unknown law 'other'"),
        ({"machines": 2}, "machines is 2: must be at least 3"),
        ({"services": 5}, "services is 5: must be at least 23"),
        ({"minutes": 10}, "minutes is 10"),
        ({"seeds": (1, 1)}, "seeds is 1, 1"),
        ({"rounds": -1}, "rounds is -1: must be >= 0"),
        ({"pressure": 0.0}, "pressure is 0.0: must be > 0"),
    ],
)
def test_settings_out_of_range_are_refused(settings, said, tmp_path):
    with pytest.raises(InputError, match=said):
        SimulationSettings(preset="smoke", **settings).reproduce("fig12", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("other", [{"rounds": 0}, {"alike": True}, {"weighting": "fair"}, {"truth": True}])
def test_a_folder_of_another_request_is_refused(made, other):
    with pytest.raises(InputError, match=f"another request: {next(iter(other))} is "):
        replace(TINY, **other).reproduce("fig12", made[0])


@pytest.mark.parametrize("content", ["", "garbage", "law,seed,slowdown\ncontrol,0\n"])
def test_a_damaged_cell_is_refused_by_name(made, tmp_path, content):
    out, _ = made
    shutil.copytree(out, tmp_path / "copy")
    (cell,) = (tmp_path / "copy" / "cells").iterdir()
    cell.write_text(content)
    with pytest.raises(InputError, match=f"{cell.name}: is damaged: delete it"):
        TINY.reproduce("fig12", tmp_path / "copy")


def test_services_that_are_alike_are_slowed_alike(tmp_path):
    """Without noise the slowdown of every service of a machine is the same; else the insensitive are hardly slowed."""
    cell = replace(TINY, alike=True)._cells("fig12")[0]
    spreads = []
    for one in (cell, replace(cell, alike=False)):
        world = pism_worlds.make_world(one)
        judge, _ = pism_worlds.judge_of(one, world)
        still = replace(judge.response_model, noise=np.zeros_like(judge.response_model.noise))
        times = still.response_ms(world.deployment, world.default, np.random.default_rng(0))
        slowed = times / judge.response_model.base[world.deployment.service]
        first, last = world.deployment.first[:2]
        spreads.append(np.ptp(slowed[:, first:last], axis=1).max())
    assert spreads[0] < 1e-9
    assert spreads[1] > 0.1
