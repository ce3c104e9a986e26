"""Unknown background load: penalties, pixels and metrics by hand, what schedulers see of it, and its record."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tvwrl.agents.features import machine_features
from tvwrl.envs import PlacementEnv
from tvwrl.envs.problem import Problem
from tvwrl.experiments.evaluation import EvaluationSetup, evaluate
from tvwrl.metrics import penalties, replay_run, score_episode
from tvwrl.schedulers import make_scheduler
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import InputError, Machines

ONE = Machines.homogeneous(1, 8, ("cpu", "mem"))

# One machine of 8 units; background repeats after 2 slots; a runs in slots 0 and 1, b in slot 1.
#   slot          0      1      2
#   background  (2,0)  (1,3)  (2,0)
#   a           (3,2)  (5,2)
#   b                  (3,1)
#   sum         (5,2)  (9,6)  nothing runs: free of charge
NOISE = np.array([[[2, 0]], [[1, 3]]], np.uint8)
ROWS = [(0, [[3, 2], [5, 2]], 4), (1, [[3, 1]], 5)]


def begin(sequences, machines=ONE, **changes):
    simulation = Simulation(sequences, machines, Scenario(history=3, **changes))
    simulation.reset(0)
    return simulation


@pytest.fixture
def noisy(make_sequences):
    return replace(make_sequences(ROWS), background=NOISE[None])


def test_penalties_and_metrics_by_hand(noisy):
    simulation = begin(noisy)
    simulation.step(np.zeros(1, np.int64))
    # Slot 0: pairs 2*3 of cpu. Unused (3, 6): 27 + 216.
    assert simulation.state.totals[0].tolist() == pytest.approx([0.6, 243, 0, 0, 0, 1])
    simulation.step(np.zeros(1, np.int64))
    # Slot 1: pairs 1*5 + 1*3 + 5*3 = 23 of cpu, 3*2 + 3*1 + 2*1 = 11 of mem. Unused (0, 2): 8. cpu is over: a and b.
    assert simulation.state.totals[0].tolist() == pytest.approx([3.4, 8, 60000, 0, 0, 1])
    assert simulation.is_over()
    assert penalties(simulation.record(), ONE, Scenario().penalty_weights()) == pytest.approx(
        {"contention": 4.0, "under_utilisation": 251, "overshoot": 60000, "wait": 0, "moves": 0}
    )
    row = score_episode(simulation.record(), ONE, Scenario().penalty_weights())
    # cpu is used by 5 and 8 of 2 x 8 units, mem by 2 and 6; one unit of cpu is beyond the 32 of both.
    assert row["utilisation_cpu"] == pytest.approx(13 / 16)
    assert row["utilisation_mem"] == pytest.approx(8 / 16)
    assert row["overshoot_pct"] == pytest.approx(100 * 1 / 16)
    assert (row["machines_used"], row["slots"]) == (1, 2)
    assert row["offered_load"] == pytest.approx(11 / 16)  # of the workloads alone


def test_it_is_drawn_as_load_of_no_class(noisy):
    simulation = begin(noisy)
    for _ in range(2):
        simulation.place(0, 0)
        grid = simulation.seen_grid[0, 0, :, -1].tolist()
        simulation.next_slot()
    assert noisy.classes == 6
    assert grid == [[8, 4, 4, 4, 4, 4, 5, 5], [8, 8, 8, 4, 4, 5, 0, 0]]
    space = PlacementEnv(noisy, ONE, Scenario(history=3)).observation_space["grid"]
    assert space.high.max() == 8
    plain = replace(noisy, background=None)
    assert PlacementEnv(plain, ONE, Scenario(history=3)).observation_space["grid"].high.max() == 7


def test_features_take_it_for_load_but_for_no_class(noisy):
    simulation = begin(noisy)
    simulation.place(0, 0)
    cpu = machine_features(simulation.seen_grid, 6)[0, 0][:19]
    assert cpu[2] == pytest.approx(5 / 8)  # load of the newest of 3 rows
    assert cpu[6] == 1.0  # the machine's size
    assert cpu[7:13].tolist() == [0, 0, 0, 3 / 8, 0, 0]  # units of the classes


def test_what_schedulers_see(noisy):
    simulation = begin(noisy)
    cluster, a = Cluster(simulation), noisy.workload(0, 0)
    assert cluster.load.tolist() == [[2, 0]]
    assert cluster.reserved_peaks.tolist() == [[0, 0]]
    assert cluster.room_ahead(a).tolist() == [True]  # 2 + 3 and 1 + 5 of cpu
    full = replace(noisy, background=np.array([[[[2, 0]], [[4, 3]]]], np.uint8))
    assert Cluster(begin(full)).room_ahead(a).tolist() == [False]  # 4 + 5
    assert Cluster(begin(full)).room_now(a).tolist() == [True]
    assert Cluster(begin(full)).residual_ahead(a).tolist() == pytest.approx([6 / 8 + 8 / 8 + 4 / 8 + 5 / 8])


def test_drawn_by_scenario_and_kept_in_the_files(problem, tmp_path):
    scenario = replace(problem.scenario, background=2, perturb=1)
    noisy = Problem.build(problem.trace, scenario, problem.classes)
    rows = evaluate(EvaluationSetup(noisy, [0.5], 2), [make_scheduler("best-fit")], tmp_path / "out")
    again = replay_run(tmp_path / "out")
    assert_frame_equal(again.drop("decision_ms"), rows[again.columns].drop("decision_ms"), rel_tol=1e-9)
    path = tmp_path / "out" / "background.parquet"
    table = pl.read_parquet(path)
    assert table["cpu"].unique().sort().to_list() == [0, 1, 2]
    table.filter(pl.col("machine") != 1).write_parquet(path)
    with pytest.raises(InputError, match="every machine must be in every slot"):
        replay_run(tmp_path / "out")
    path.unlink()
    with pytest.raises(InputError, match=r"background.parquet: no such file"):
        replay_run(tmp_path / "out")


def test_refused(noisy, problem):
    with pytest.raises(InputError, match=r"background of the sequences is for 1 machines .* the cluster has 2"):
        begin(noisy, Machines.homogeneous(2, 8, ("cpu", "mem")))
    with pytest.raises(InputError, match="background is 9: must be at most the smallest capacity"):
        Problem.build(problem.trace, replace(problem.scenario, background=9), problem.classes)
    for changes, text in (
        ({"background": -1}, "background is -1: must be 0 to 255"),
        ({"background": 1.5}, "background is 1.5: must be a whole number"),
        ({"perturb": 1, "quantise": False}, "perturb is 1: must be 0 without quantise"),
        ({"burst": 0.5}, "burst is 0.5: must be at least 1"),
    ):
        with pytest.raises(InputError, match=text):
            Scenario(**changes)
    record = begin(noisy).record()
    with pytest.raises(InputError, match="background has shape"):
        penalties(replace(record, background=NOISE[:, :, :1]), ONE, Scenario().penalty_weights())
