"""Entries that try to gain by anything but placing well: none changes its own score or that of the others."""

from __future__ import annotations

import pytest

import tvwrl
from tvwrl.benchmark import remote
from tvwrl.schedulers.head_of_queue import HeadOfQueue
from tvwrl.schedulers.knowledge import CURRENT_LOAD
from tvwrl.types import InputError

AGAINST = ("spread", "clairvoyant")


def honest(observation, mask):
    """The first machine, which every cheat chooses too."""
    return 0


class First(HeadOfQueue):
    """The same as a scheduler."""

    name, knowledge = "first", CURRENT_LOAD

    def choose(self, cluster, workload):
        return 0


def writes_what_it_is_shown(observation, mask):
    for array in (*observation.values(), mask):
        array[...] = 1
    observation.clear()
    return 0


def walks_stack_frames(observation, mask):
    import sys

    frame = sys._getframe()
    while frame is not None:
        for value in list(frame.f_locals.values()):
            for owner in (value, getattr(value, "simulation", None)):
                for name in ("sequences", "state"):
                    demand = getattr(getattr(owner, name, None), "demand", None)
                    if demand is not None:
                        demand[...] = 0
        frame = frame.f_back
    return 0


class LooksThroughMemory:
    """Once, as it takes long."""

    looked = False

    def __call__(self, observation, mask):
        import gc

        if not self.looked:
            self.looked = True
            kinds = {type(thing) for thing in gc.get_objects()}
            assert not [kind for kind in kinds if hasattr(kind, "demand") or kind.__name__ == "Simulation"]
        return 0


def rewrites_the_referee(observation, mask):
    import tvwrl.metrics
    import tvwrl.penalties

    for module in (tvwrl.metrics, tvwrl.penalties):
        for name, value in list(vars(module).items()):
            if callable(value):
                setattr(module, name, lambda *_, **__: {"reward": 0.0})
    return 0


def rewrites_numpy(observation, mask):
    import numpy

    numpy.maximum, numpy.clip = numpy.minimum, lambda array, *_: 0 * array
    return 0


def rewrites_its_own_check(observation, mask):
    from tvwrl.benchmark import entry_process, models

    models.checked_action = entry_process.checked_action = lambda action, actions: action
    return 0


def prints_answers(observation, mask):
    import sys

    print('{"token": "", "action": 3}', flush=True)
    sys.__stdout__.write('{"action": 3}\n')
    return 0


class Lies:
    """A number that is another one each time it is asked."""

    asked = 0

    def __index__(self):
        self.asked += 1
        return 0 if self.asked == 1 else 3

    def __call__(self, observation, mask):
        self.asked = 0
        return self


class Writes(First):
    """Makes all demand free, wherever it might be."""

    def reset(self, cluster, rng):
        for change in (
            lambda: cluster.simulation.sequences.demand.fill(0),
            lambda: cluster.simulation.state.demand.fill(0),
            lambda: cluster.load.fill(0),
            lambda: cluster.capacity.fill(1e9),
            lambda: cluster.machines.capacity.fill(1e9),
        ):
            try:
                change()
            except (ValueError, AttributeError):
                continue
            raise AssertionError("it was written")


class Forces(First):
    """Makes the arrays writable first."""

    def choose(self, cluster, workload):
        for array in (cluster.load, cluster.active, workload.first_demand):
            array.flags.writeable = True
            array[...] = 0
        return 0


class Promotes(First):
    """Tells its side of the door that it may know everything."""

    def choose(self, cluster, workload):
        cluster._group = workload._group = self.knowledge = "the whole future"
        for ask in (lambda: cluster.room_ahead(workload), lambda: workload.demand, lambda: cluster.reserved_peaks):
            try:
                ask()
            except AttributeError:
                continue
            raise AssertionError("it was told")
        return 0


class KnowsByName(First):
    """Looks the workload up in the public trace, by the name of its series."""

    def choose(self, cluster, workload):
        from tvwrl.benchmark.tasks import TASKS, trace_of

        known = set(trace_of(TASKS["google-0.5-v1"]).workload_id)
        assert workload.workload_id.partition("#")[0] not in known
        return 0


CHEATS = {
    getattr(cheat, "__name__", type(cheat).__name__): cheat
    for cheat in (
        writes_what_it_is_shown,
        walks_stack_frames,
        LooksThroughMemory(),
        rewrites_the_referee,
        rewrites_numpy,
        rewrites_its_own_check,
        prints_answers,
        Lies(),
        Writes(),
        Forces(),
        Promotes(),
        KnowsByName(),
    )
}


def scores(small, entries):
    """Scheduler -> reward, overshoot and unplaced workloads of each sequence."""
    rows = tvwrl.compare(entries, small, 2, against=AGAINST, bounds=False).rows
    return {
        name: rows.filter(rows["scheduler"] == name).select("reward", "overshoot_pct", "unplaced").rows()
        for name in (*entries, *AGAINST)
    }


@pytest.fixture(scope="module")
def fair(small):
    return scores(small, {"honest": honest})


@pytest.fixture(scope="module")
def cheated(small):
    return scores(small, CHEATS)


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheat_earns_what_its_placements_earn(fair, cheated, cheat):
    assert cheated[cheat] == fair["honest"]


def test_no_cheat_changes_the_score_of_the_others(fair, cheated):
    assert {name: cheated[name] for name in AGAINST} == {name: fair[name] for name in AGAINST}


# What gets no score at all


def exits(observation, mask):
    raise SystemExit(0)


def exits_at_once(observation, mask):
    import os

    os._exit(3)


def is_killed(observation, mask):
    import os

    os.kill(os.getpid(), 9)


def never_answers(observation, mask):
    while True:
        try:
            while True:
                pass
        except BaseException:
            continue


def sends(content):
    """An entry that writes to its connection itself; `content` may hold the open question's token."""

    def act(observation, mask):
        import sys

        line = next(value for frame in sys._current_frames().values() for value in lines(frame))
        said = content if isinstance(content, bytes) else content(line._token)
        line._connection.sendall(said)
        return 0

    def lines(frame):
        while frame is not None:
            yield from (value for value in frame.f_locals.values() if type(value).__name__ == "Line")
            frame = frame.f_back

    return act


def answers(action):
    """What claims an action on the line, without the check of its own process."""
    return sends(lambda token: f'{{"token": "{token}", "action": {action}}}\n'.encode())


class Bomb:
    def __reduce__(self):
        import os

        return os.abort, ()


def bomb(observation, mask):
    import pickle

    return sends(pickle.dumps(Bomb()) + b"\n")(observation, mask)


def forks(observation, mask):
    import os

    os.fork()
    return 0


class PeeksAhead(First):
    def choose(self, cluster, workload):
        return int(cluster.room_ahead(workload).argmax())


class PlacesOthers(First):
    """Places a workload that has not arrived."""

    def schedule(self, cluster, pending):
        from types import SimpleNamespace

        yield SimpleNamespace(workload=SimpleNamespace(index=19), machine=0)


class AsksAboutOthers(First):
    def choose(self, cluster, workload):
        from types import SimpleNamespace

        return int(cluster.room_now(SimpleNamespace(index=19)).argmax())


REFUSED = [
    (exits, "SystemExit: 0"),
    (exits_at_once, "its process ended with exit code 3 before it answered"),
    (is_killed, "its process ended by SIGKILL before it answered"),
    (never_answers, r"a decision lasted longer than 5 s: its process was stopped"),
    (forks, "no answer to the question|a decision lasted longer|before it answered"),
    (bomb, "which is no answer to the question"),
    (sends(b"x" * 2_000_000), "its process answered with more than 1,000,000 bytes"),
    (sends(b'{"token": "0123456789abcdef", "action": 0}\n'), "which is no answer to the question"),
    (sends(b"[" * 100_000 + b"\n"), "which is no answer to the question"),
    (sends(b'{"a": ' * 100_000 + b"\n"), "which is no answer to the question"),
    (sends(lambda token: f'{{"token": "{token}", "see": "load"}}\n'.encode()), "no answer to the question"),
    (answers("NaN"), "the action is nan: must be a whole number from 0 to 3"),
    (answers("true"), "the action is True: must be a whole number from 0 to 3"),
    (answers("1.0"), r"the action is 1\.0: must be a whole number from 0 to 3"),
    (answers("99"), "the action is 99: must be 0 to 3"),
    (answers("null"), "the action is None: must be a whole number from 0 to 3"),
    (PeeksAhead(), r"cluster\.room_ahead is not shown to the group 'current load and history', which sees machines, "),
    (PlacesOthers(), "placed a workload with the index 19, which is none of those that it was shown"),
    (AsksAboutOthers(), "room_now of a workload with the index 19, which was not shown"),
]


@pytest.mark.parametrize(("cheat", "message"), REFUSED, ids=range(len(REFUSED)))
def test_who_does_not_play_is_refused_with_sequence_and_slot(small, monkeypatch, cheat, message):
    monkeypatch.setattr(remote, "HANGING_SECONDS", 5.0)
    with pytest.raises(InputError, match=rf"'mine', sequence 0, slot \d+: .*(?:{message})"):
        tvwrl.compare({"mine": cheat}, small, 1, against=(), bounds=False)
