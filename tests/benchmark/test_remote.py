"""The process of an entry: plays as in this one, says what went wrong, and never outlives who started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from tvwrl.benchmark.entries import Setting, entry_of
from tvwrl.benchmark.remote import EntryProcess, packed
from tvwrl.benchmark.tasks import problem_of
from tvwrl.schedulers import make_scheduler
from tvwrl.schedulers.base import Scheduler
from tvwrl.schedulers.knowledge import CURRENT_LOAD, PEAKS
from tvwrl.schedulers.runner import Runner
from tvwrl.types import InputError, Placement


class Shuffles(Scheduler):
    """Places all that waits, the latest first, at random, and waits where two already run."""

    name, knowledge = "shuffles", CURRENT_LOAD

    def reset(self, cluster, rng):
        self._rng, self._placed = rng, 0

    def schedule(self, cluster, pending):
        for workload in reversed(pending):
            machines = np.flatnonzero(cluster.room_now(workload) & (cluster.active < 6))
            if len(machines):
                self._placed += 1
                yield Placement(workload, int(self._rng.choice(machines)))


class ReservesPeaks(Scheduler):
    """The least reserved machine, of which a list is made before anything is placed."""

    name, knowledge = "reserves-peaks", PEAKS

    def schedule(self, cluster, pending):
        machine = int(cluster.reserved_peaks.sum(axis=1).argmin())
        longest = max(pending, key=lambda workload: workload.length, default=None)
        return [] if longest is None else [Placement(longest, machine)]


def looks_at_the_queue(observation, mask):
    return int(observation["queue"].sum()) % len(mask)


def process_of(given, **options):
    return EntryProcess(*packed(given), **options)


def is_running(pid):
    """Whether a process runs, a zombie not counted."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pid):
    for _ in range(600):
        if not is_running(pid):
            return
        time.sleep(0.05)
    raise AssertionError(f"process {pid} still runs")


@pytest.mark.parametrize("limit", [None, 1, 2])
@pytest.mark.parametrize("entry", [Shuffles(), ReservesPeaks(), looks_at_the_queue], ids=["list", "peaks", "function"])
def test_an_entry_places_as_it_does_in_this_process(small, limit, entry):
    task = replace(small, scenario=replace(small.scenario, placements_per_slot=limit))
    problem = problem_of(small)
    sequences = problem.sequences("test", 2, 0)
    runner = Runner(sequences, problem.machines, task.scenario, 0)
    made = {apart: entry_of("mine", entry, replace(Setting.of_task(task), apart=apart)) for apart in (False, True)}
    for sequence in range(2):
        here, there = (runner.play(made[apart].scheduler, sequence) for apart in (False, True))
        assert here.start.tolist() == there.start.tolist()
        assert here.machine.tolist() == there.machine.tolist()
    made[True].close()


def test_a_scheduler_that_its_name_makes_plays_in_this_process(small):
    for name in ("spread", "best-fit", "expected-cost", "rollout(spread,rollouts=20,horizon=8)", "n-sigma(n=3)"):
        assert entry_of("mine", make_scheduler(name), Setting.of_task(small)).process is None
    changed = make_scheduler("spread")
    changed.schedule = lambda cluster, pending: []
    entry = entry_of("mine", changed, Setting.of_task(small))
    assert entry.process is not None
    entry.close()


def test_a_class_that_claims_to_be_ours_plays_in_a_process_of_its_own(small):
    claims = type("Claims", (Shuffles,), {"__module__": "tvwrl.agents.policy_scheduler", "facts": {"scenario": None}})
    entry = entry_of("mine", claims(), Setting.of_task(small))
    assert entry.process is not None
    entry.close()


def test_an_error_says_where_it_was(small):
    process = process_of(lambda observation, mask: 1 // 0)
    with pytest.raises(InputError, match="ZeroDivisionError") as caught:
        process.ask("act", {}, ("?", (4,), bytes(4)))
    assert "test_remote.py" in caught.value.__notes__[0]
    process.close()
    with pytest.raises(InputError, match="its process has been closed"):
        process.ask("act", {}, ("?", (4,), bytes(4)))


def test_what_cannot_be_sent_is_refused(small):
    lock = threading.Lock()

    def holds(observation, mask):
        return lock.locked()

    with pytest.raises(InputError, match=r"entry 'mine': it cannot be sent to a process of its own \(TypeError: "):
        entry_of("mine", holds, Setting.of_task(small))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def act(observation, mask): return 0", r"entry 'mine': .*mine\.py does not define 'entry'"),
        ("entry = 3", "entry 'mine': it is 3: must be a function, a model or a Scheduler"),
        ("import nothing_of_this_name", "entry 'mine': ModuleNotFoundError: No module named 'nothing_of_this_name'"),
        ("import os; os._exit(2)", "entry 'mine': its process ended with exit code 2 before it answered"),
        (
            "from tvwrl.schedulers import HeadOfQueue\n"
            "class entry(HeadOfQueue):\n    name = 'x'\n    def choose(self, cluster, workload): return 0",
            "entry 'mine': it does not say what it knows",
        ),
    ],
)
def test_files_that_are_no_entries(small, tmp_path, text, message):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(InputError, match=message):
        entry_of("mine", tmp_path / "mine.py", Setting.of_task(small))


def test_a_file_may_import_its_neighbour_and_define_a_scheduler(small, tmp_path):
    (tmp_path / "neighbour.py").write_text("MACHINE = 3")
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\nfrom neighbour import MACHINE\n"
        "from tvwrl.schedulers import CURRENT_LOAD, HeadOfQueue\n"
        "@dataclass\nclass Mine(HeadOfQueue):\n    name, knowledge = 'mine', CURRENT_LOAD\n    machine: int = MACHINE\n"
        "    def choose(self, cluster, workload):\n        return self.machine\n"
        "entry = Mine\n"
    )
    problem = problem_of(small)
    entry = entry_of("mine", str(tmp_path / "mine.py"), Setting.of_task(small))
    runner = Runner(problem.sequences("test", 1, 0), problem.machines, problem.scenario, 0)
    assert set(runner.play(entry.scheduler, 0).machine) == {3}
    assert entry.origin == "Python file mine.py: scheduler Mine"
    assert entry.local is None
    assert "neighbour" not in sys.modules
    entry.close()


def test_hidden_variables_lead_nowhere(monkeypatch):
    monkeypatch.setenv("TVWRL_DATA", "here")
    monkeypatch.setenv("SHOWN", "1")

    def looks(observation, mask):
        import os
        from pathlib import Path

        from tvwrl.traces.catalogue import data_folder

        assert os.environ["SHOWN"] == "1"
        assert not data_folder().is_dir()
        assert not Path.home().is_dir()
        return 0

    process = process_of(looks, hidden=("TVWRL_DATA", "HOME"))
    assert process.ask("act", {}, ("?", (4,), bytes(4))) == {"action": 0}
    process.close()


def starts_another(file):
    """Whose process starts another one, then hangs."""

    def act(observation, mask):
        import os
        import subprocess
        import sys
        import time
        from pathlib import Path

        other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        part = Path(f"{file}.part")
        part.write_text(f"{os.getpid()} {other.pid}")
        part.rename(file)
        time.sleep(600)

    return act


def test_closing_ends_all_that_the_entry_started(tmp_path):
    process = process_of(starts_another(tmp_path / "ids"))
    with pytest.raises(InputError, match="a decision lasted longer than 5 s"):
        process.ask("act", {}, ("?", (4,), bytes(4)), seconds=5.0)
    for pid in (tmp_path / "ids").read_text().split():
        wait_until_gone(int(pid))


PROGRAM = """
import sys
from tvwrl.benchmark.remote import EntryProcess
EntryProcess("file", sys.argv[1]).ask("act", {}, ("?", (4,), bytes(4)))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_no_process_is_left_behind(tmp_path, how):
    ids = tmp_path / "ids"
    (tmp_path / "mine.py").write_text(
        f"import os, time\nfrom pathlib import Path\n"
        f"def entry(observation, mask):\n"
        f"    Path({str(tmp_path / 'part')!r}).write_text(str(os.getpid()))\n"
        f"    os.rename({str(tmp_path / 'part')!r}, {str(ids)!r})\n"
        f"    while True: pass\n"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "mine.py")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        stderr=subprocess.DEVNULL,
    )
    while not ids.exists():
        assert program.poll() is None
        time.sleep(0.02)
    program.send_signal(how)
    assert program.wait(60) != 0
    wait_until_gone(int(ids.read_text()))
