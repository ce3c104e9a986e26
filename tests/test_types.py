"""What `repr` shows of objects that hold large arrays: a line."""

import numpy as np
import pytest

import tvwrl
from tvwrl.planning import Fleet, Plan
from tvwrl.schedulers.runner import Runner


def test_big_objects_are_shown_in_a_line(problem, make) -> None:
    drawn = problem.sequences("test", 2, seed=0)
    episode = Runner(drawn, problem.machines, problem.scenario).play(tvwrl.make_scheduler("spread"), 0)
    instance = make([2, 1], [[1, 2], [3, 1]], [(0, 1, 0)])
    shown = {
        repr(problem.trace): "<Trace name='google', workloads=60, rows=",
        repr(problem): "<Problem trace=<Trace name='google'",
        repr(drawn): "<SequenceSet sequences=2, workloads=16, slots=",
        repr(drawn.workload(0, 3)): "<Workload workload_id=",
        repr(episode): "<Episode scheduler='spread', load=0.5, sequence=0, workloads=16, placed=16, slots=",
        repr(problem.machines): "<Machines machines=4, capacity=[8.0, 8.0], resources=('cpu', 'mem')>",
        repr(
            instance
        ): "<Instance name='hand', applications=2, replicas=3, limits=1, times=1, resources=('cpu', 'mem')>",
        repr(instance.affinity): "<Affinity applications=2, limits=1>",
        repr(Fleet.of_kinds([(1, 2), (2, 2)])): "<Fleet machines=2, kinds=2, fixed=False>",
        repr(Plan.of("FF", *np.ones((3, 2), np.int64))): "<Plan algorithm='FF', replicas=2, machines=2, seconds=0.0>",
    }
    for text, begins in shown.items():
        assert text.startswith(begins)
        assert "array" not in text
        assert "\n" not in text


@pytest.mark.parametrize("name", ["Plans", "Evaluation", "Comparison", "TrainingRun"])
def test_results_are_shown_by_their_folder(name: str, tmp_path) -> None:
    found = object.__new__(getattr(tvwrl, name))
    object.__setattr__(found, "folder", tmp_path)
    assert repr(found) == f"<{name} folder='{tmp_path}'>"
