"""The contest as a placement problem, by hand and for real."""

import os
from pathlib import Path

import numpy as np
import pytest

from tvwrl.planning.merged import Merged
from tvwrl.planning.problem import Bundles, PlanningProblem
from tvwrl.planning.sources.tianchi import RESOURCES, read_tianchi, scaled
from tvwrl.types import InputError

REAL_DATA = Path(os.environ.get("TVWRL_REAL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
TABLES = {
    "app_resources": f"app_1,{'|'.join(['1'] * 97 + ['3'])},{'|'.join(['4'] * 98)},60,1,0,1\n"
    f"app_2,{'|'.join(['2'] * 98)},{'|'.join(['8'] * 98)},40,0,0,0\n",
    "app_interference": "app_1,app_2,0\napp_2,app_2,2\n",
    "instance_deploy": "inst_1,app_1,\ninst_2,app_2,\ninst_3,app_2,machine_1\n",
    "machine_resources": "machine_1,32,64,600,7,3,7\nmachine_2,92,288,1024,7,7,9\n",
}


def contest(folder: Path, *leave_out: str) -> str:
    for name, text in TABLES.items():
        if name not in leave_out:
            (folder / f"{name}.csv").write_text(text)
    return str(folder)


def test_by_hand(tmp_path: Path) -> None:
    problem = read_tianchi(contest(tmp_path))
    assert problem.instance.resources == RESOURCES == ("cpu", "mem", "disk", "P", "M", "PM")
    assert problem.instance.demand.tolist() == [[[3, 4, 60, 1, 0, 1]], [[2, 8, 40, 0, 0, 0]]]
    assert problem.instance.replicas.tolist() == [1, 2]
    assert problem.instance.affinity.limit.tolist() == [0, 3]  # the contest's k of an application beside itself
    assert problem.fleet.capacity.tolist() == [[32, 64, 600, 7, 3, 7], [92, 288, 1024, 7, 7, 9]]
    over_time = read_tianchi(str(tmp_path), times=98)
    assert over_time.instance.demand.shape == (2, 98, 6)
    assert over_time.instance.demand[0, [0, 97], 0].tolist() == [1, 3]
    assert read_tianchi(str(tmp_path), times=2).instance.demand[0, :, 0].tolist() == [1, 3]


def test_missing_tables_are_named(tmp_path: Path) -> None:
    source = contest(tmp_path, "machine_resources")
    with pytest.raises(InputError, match=r"no machine_resources\*\.csv"):
        read_tianchi(source)
    with pytest.raises(InputError, match="times is 99: must be 1 to 98"):
        read_tianchi(source, times=99)


def test_scaling(tmp_path: Path) -> None:
    problem = read_tianchi(contest(tmp_path))
    half = scaled(problem, 1)
    assert (len(half.fleet.capacity), len(half.instance)) == (1, 1)
    assert scaled(problem, 2) is problem
    with pytest.raises(InputError, match="machines is 3: must be 1 to 2"):
        scaled(problem, 3)
    with pytest.raises(InputError, match="cannot be scaled"):
        scaled(PlanningProblem(problem.instance, problem.fleet, Bundles.of([{0: 1}])), 1)


@pytest.mark.real_data
@pytest.mark.skipif(not (REAL_DATA / "tianchi").is_dir(), reason=f"no folder of real traces at {REAL_DATA}")
def test_the_real_set() -> None:
    problem = read_tianchi(str(next((REAL_DATA / "tianchi").glob("preliminary*.zip"))))
    assert (len(problem.instance), len(problem.application)) == (9_338, 68_224)
    assert len(problem.instance.affinity) == 33_416
    kinds, count = np.unique(problem.fleet.capacity[:, :2], axis=0, return_counts=True)
    assert (kinds.tolist(), count.tolist()) == ([[32, 64], [92, 288]], [3_000, 3_000])
    assert Merged.of(problem).refused == {}
    tenth = scaled(problem, 600, seed=3)
    assert len(tenth.instance) == 934
    assert np.unique(tenth.fleet.capacity, axis=0, return_counts=True)[1].tolist() == [300, 300]
