"""Entries of a submission are run again: on the task's sequences, and on fresh ones."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import tvwrl
from tvwrl.benchmark import fresh
from tvwrl.benchmark import study as command
from tvwrl.benchmark.fresh import Difference, difference, fresh_draws, paired, run_entries
from tvwrl.benchmark.study import BenchmarkStudy
from tvwrl.benchmark.submission import check_submission, read_submission
from tvwrl.benchmark.tasks import problem_of
from tvwrl.schedulers.knowledge import CURRENT_LOAD
from tvwrl.types import InputError

EMPTIEST = """
import numpy as np

def entry(observation, mask):
    used = (observation["grid"][:, :, -1] > 0).sum(axis=(1, 2))
    return int(np.where(mask[: len(used)], used, 999).argmin())
"""
# Plays what was best for the public sequences, which it carries, and the first machine on all others
MEMORISING = """
import hashlib, json
from pathlib import Path

KNOWN = json.loads((Path(__file__).parent / "known.json").read_text())

def entry(observation, mask):
    seen = b"".join(observation[name].tobytes() for name in ("grid", "queue"))
    return KNOWN.get(hashlib.sha256(seen).hexdigest(), 0)
"""
READS = """
import os
from pathlib import Path

class Peeks:
    pass

def entry(observation, mask):
    assert not Path(os.environ["TVWRL_DATA"]).is_dir()
    assert not Path.home().is_dir()
    return int(mask.argmax())
"""


def submitted(small, folder: Path, code: str, files=(), **observe) -> Path:
    """A submission of a Python file with that code."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "mine.py").write_text(code)
    found = tvwrl.compare({"mine": folder / "mine.py"}, small, against=(), bounds=False, observe=observe)
    return tvwrl.submit(found, folder / "submission", "somebody", files=files)


@pytest.fixture(scope="module")
def good(small, tmp_path_factory):
    """A submission of an honest entry."""
    return submitted(small, tmp_path_factory.mktemp("good"), EMPTIEST, hold_action=True)


@pytest.fixture
def copy(good, tmp_path):
    """One to change."""
    return shutil.copytree(good, tmp_path / "copy")


def checked(folder: Path, seed: int = 5):
    """What the check finds of the only entry."""
    (found,) = run_entries(folder, read_submission(folder), check_submission(folder), seed)
    return found


def test_an_honest_entry_passes(good, capsys):
    command.check(good, seed=5)
    out = capsys.readouterr().out
    assert "all 3 episodes replay to the submitted rows" in out
    assert "--fresh-seed 5" in out
    assert "do as well as submitted" in out
    first, again, other = checked(good), checked(good), checked(good, seed=6)
    assert first.submitted == pytest.approx(first.again)
    assert first.lost.value == 0
    assert (first.fresh, first.dearer) == (again.fresh, again.dearer)  # the same seed, the same sequences
    assert first.fresh != other.fresh
    assert first.refusal is None


def test_knowledge_and_time_are_measured_not_believed(copy, small):
    about = json.loads((copy / "submission.json").read_text())
    about["entries"]["mine"]["knowledge"] = {"group": "current load and history", "note": "nothing"}
    (copy / "submission.json").write_text(json.dumps(about))
    found = checked(copy)
    assert found.knowledge.group == "declared requests"  # which the observation of the task shows
    assert all(row["decision_ms"] > 0 for row in found.rows)
    cells = BenchmarkStudy(named_tasks=(small.name,), schedulers=("spread",), submissions=(str(copy),))
    (cell,) = [one for one in cells.cells("benchmark") if one.scheduler == "mine"]
    assert {row["knowledge"] for row in cell.measure()} == {"declared requests"}


def test_an_entry_that_carries_the_public_sequences_is_refused(small, tmp_path, monkeypatch):
    monkeypatch.setattr(fresh, "POPULATIONS", 8)  # fewer leave more to chance
    known, problem = {}, problem_of(small)
    import hashlib

    from tvwrl.envs import PlacementEnv
    from tvwrl.schedulers import make_scheduler
    from tvwrl.schedulers.runner import Runner

    drawn = problem.sequences("test", small.sequences, small.seed)
    env = PlacementEnv(drawn, scenario=problem.scenario)
    runner = Runner(drawn, problem.machines, problem.scenario, small.seed)
    for sequence in range(small.sequences):  # what clairvoyant does in each state; it never waits here
        machine = runner.play(make_scheduler("clairvoyant"), sequence).machine
        seen, _ = env.reset(options={"sequence": sequence})
        over = False
        while not over:
            (waiting, *_), key = env.simulation.waiting(), b"".join(seen[name].tobytes() for name in ("grid", "queue"))
            known[hashlib.sha256(key).hexdigest()] = int(machine[waiting])
            seen, _, over, *_ = env.step(int(machine[waiting]))
    (tmp_path / "known.json").write_text(json.dumps(known))
    folder = submitted(small, tmp_path, MEMORISING, files=[tmp_path / "known.json"])
    found = checked(folder)
    assert found.lost.value == 0
    assert found.ratio[1] > 2 * found.ratio[0]
    with pytest.raises(InputError, match=r"entry 'mine' costs .* it seems to be fitted to the public sequences"):
        command.check(folder, seed=5)


def test_rewards_of_another_entry_are_refused(good, copy, monkeypatch):
    """The rows and episodes of a good entry, with the file of a bad one."""
    monkeypatch.setattr(fresh, "REFUSED_AT", 0.9)  # three sequences cannot show more
    (copy / "entries" / "mine.py").write_text("def entry(observation, mask):\n    return 0\n")
    found = checked(copy)
    assert found.again < found.submitted
    with pytest.raises(InputError, match=r"entry 'mine' was submitted with a mean reward of .* when it is run"):
        command.check(copy, seed=5)


def test_what_idles_on_fresh_sequences_is_refused_with_the_count(good, copy, small):
    (copy / "entries" / "mine.py").write_text("def entry(observation, mask):\n    return 4\n")
    with pytest.raises(InputError, match=r"'mine', on the task's sequences: 3 of 3 sequences incomplete, 60 workloads"):
        checked(copy)


def test_an_entry_sees_neither_traces_nor_a_home(small, tmp_path):
    folder = submitted(small, tmp_path, EMPTIEST)
    (folder / "entries" / "mine.py").write_text(READS)
    assert checked(folder).name == "mine"


def test_what_is_no_file_is_replayed_but_cannot_be_run(small, tmp_path, capsys):
    found = tvwrl.compare({"mine": lambda observation, mask: int(mask.argmax())}, small, against=(), bounds=False)
    folder = tvwrl.submit(found, tmp_path / "submission", "somebody")
    with pytest.raises(InputError, match=r"entry 'mine' has no file that can be run: .* Python file"):
        command.check(folder)
    assert "all 3 episodes replay" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("file", "../mine.py", r"entries\.mine\.file is '\.\./mine\.py': must be the name of a \.py or \.onnx file"),
        ("file", "/etc/passwd", "must be the name of"),
        ("file", 3, "must be the name of"),
        ("file", "other.py", "there is no such file"),
        ("observe", {"machines": 3}, "entries.mine.observe: observe: 'machines' is fixed by the task"),
        ("observe", 3, "must be an object"),
    ],
)
def test_files_lie_in_the_folder_and_fields_may_be_chosen(copy, field, value, message):
    about = json.loads((copy / "submission.json").read_text())
    about["entries"]["mine"][field] = value
    (copy / "submission.json").write_text(json.dumps(about))
    with pytest.raises(InputError, match=message):
        read_submission(copy)


def test_two_files_of_one_name_are_refused(small, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.py").write_text("")
    with pytest.raises(InputError, match="have the same name"):
        submitted(small, tmp_path, EMPTIEST, files=[tmp_path / "other" / "mine.py"])
    with pytest.raises(InputError, match=r"weights\.pt: no such file"):
        submitted(small, tmp_path, EMPTIEST, files=[tmp_path / "weights.pt"])


def test_what_an_entry_reads_has_to_be_submitted_too(small, tmp_path, monkeypatch):
    (tmp_path / "known.json").write_text("{}")
    with pytest.raises(InputError, match=r"known\.json.*name what it reads or imports in files="):
        submitted(small, tmp_path, MEMORISING)
    monkeypatch.chdir(tmp_path)
    relative = "from pathlib import Path\nPath('known.json').read_text()\n" + EMPTIEST
    with pytest.raises(InputError, match=r"find its files by Path\(__file__\)\.parent"):
        submitted(small, tmp_path, relative, files=["known.json"])
    with pytest.raises(InputError, match=r"files is 'known\.json': must be a list"):
        submitted(small, tmp_path, EMPTIEST, files="known.json")


def test_fresh_sequences_are_others_in_the_same_units(small):
    problem = problem_of(small)
    public = problem.sequences("test", small.sequences, small.seed)
    draws = fresh_draws(small, problem, 5)
    assert [len(draw.sequences) for draw in draws] == [1] * fresh.POPULATIONS
    for draw in draws:
        assert np.array_equal(draw.problem.sampler.unit, problem.sampler.unit)
        assert draw.problem.scenario == problem.scenario
        assert not np.array_equal(draw.sequences.demand[0], public.demand[0])
    assert len({draw.sequences.arrival.tobytes() for draw in draws}) == len(draws)


def test_intervals_by_hand():
    blocks = [np.array([0.5]), np.array([0.6]), np.array([0.4])]
    found = difference([np.array([0.3, 0.5])], blocks, blocks)
    assert found.value == pytest.approx(0.1)
    assert found.half(0.95) == pytest.approx(stats.t.ppf(0.975, 2) * 0.1 * np.sqrt(4 / 3))
    a, b = np.array([0.3, 0.5, 0.9, 0.2]), np.array([0.1, 0.2, 0.15])
    welch = stats.ttest_ind(a, b, equal_var=False)
    other = difference([b], [a], [10 * a])
    low, high = welch.confidence_interval(0.95)
    assert (other.value - other.half(0.95), other.value + other.half(0.95)) == pytest.approx((low, high))
    pairs = paired(np.array([1.0, 2.0, 4.0]))
    low, high = stats.ttest_1samp([1.0, 2.0, 4.0], 0).confidence_interval(0.95)
    assert (pairs.value - pairs.half(0.95), pairs.value + pairs.half(0.95)) == pytest.approx((low, high))


def test_playing_badly_at_times_widens_nothing():
    """Public sequences known by heart, and three of ten fresh draws played as badly as can be."""
    usual = [np.array([one]) for one in np.linspace(0.9, 1.1, 10)]
    bad = [part + (2.0 if i < 3 else 0.0) for i, part in enumerate(usual)]
    assert difference([np.array([-0.4, -0.5])], bad, usual).beyond_chance
    assert not difference([np.array([0.9, 1.0])], usual, usual).beyond_chance


def test_without_two_draws_nothing_is_refused():
    assert not difference([np.array([0.1])], [np.array([0.9])], [np.array([0.9])]).beyond_chance
    assert not paired(np.array([5.0])).beyond_chance
    assert Difference(1.0, 0.0, 5.0).beyond_chance
    assert not Difference(0.0, 0.0, 5.0).beyond_chance


def test_what_is_gained_on_public_sequences_alone_does_not_count():
    rows = [{"reward": -100.0, "sequence": 0}, {"reward": -300.0, "sequence": 1}]
    found = fresh.Checked(
        "mine", CURRENT_LOAD, -200.0, rows, -250.0, (0.8, 1.0), Difference(0.0, 1.0, 9.0), Difference(0.0, 0.0, 1.0)
    )
    dearer = replace(found, dearer=Difference(np.log(1.25), 1.0, 9.0))
    assert [row["reward"] for row in dearer.counted] == pytest.approx([-125.0, -375.0])
    cheaper = replace(found, dearer=Difference(np.log(0.8), 1.0, 9.0))
    assert cheaper.counted == rows
