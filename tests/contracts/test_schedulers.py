"""What every registered scheduler keeps to, what each may know, and the rule of each by hand."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvwrl.agents.config import PRESETS
from tvwrl.agents.deeprm.scheduler import DeepRM
from tvwrl.agents.training import Trainer
from tvwrl.ec.forecast import SEGMENTS, columns, steps
from tvwrl.envs.problem import Problem
from tvwrl.metrics import score_episode
from tvwrl.schedulers import GROUPS, KNOWLEDGE, NAMES, Scheduler, make_scheduler
from tvwrl.schedulers.forecast_fit import ForecastFit
from tvwrl.schedulers.registry import EXPECTED, FUTURE, NOW, PEAKS
from tvwrl.schedulers.runner import PATIENCE, Runner
from tvwrl.schedulers.tetris import Tetris
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.traces.synthetic import synthetic_trace
from tvwrl.types import Episode, ForecastTable, InputError, Machines, Placement, SequenceSet, Workload

Make = Callable[..., SequenceSet]
EVERY = (*NAMES, "deeprm")  # the last is learnt
CAUTIOUS = [*(name for name in NAMES if KNOWLEDGE[name] in (PEAKS, FUTURE)), "deeprm"]
HETEROGENEOUS = Machines(np.array([[8.0, 6.0], [6.0, 12.0], [16.0, 16.0]]), ("cpu", "mem"))


def make(name: str) -> Scheduler:
    """A scheduler of the registry, or DeepRM after a little training."""
    return deeprm() if name == "deeprm" else make_scheduler(name)


@lru_cache(maxsize=1)
def deeprm() -> Scheduler:
    trace = synthetic_trace("google", workloads=40, seed=0, days=4)
    config = replace(PRESETS["deeprm"], iterations=15, train_sequences=16, sequences_per_iteration=8, trajectories=4)
    config = replace(config, scenario=Scenario(machines=4, workloads=16, max_slots=0), eval_every=100)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(Problem.build(trace, config.scenario), config, Path(folder), {}, print)
        trainer.run()
        return DeepRM("deeprm", trainer.checkpoint())


def play(name: str, sequences: SequenceSet, machines: Machines, scenario: Scenario, sequence: int = 0) -> Episode:
    return Runner(sequences, machines, scenario, seed=3).play(make(name), sequence)


def assert_valid(episode: Episode, machines: Machines, limit: int | None) -> None:
    """Everything is placed on a real machine, not before it arrives, and no more than `limit` in a slot."""
    assert (episode.start >= episode.arrival).all()
    assert ((episode.machine >= 0) & (episode.machine < len(machines))).all()
    assert limit is None or np.bincount(episode.start).max() <= limit


# ---- every scheduler


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("limit", [1, None])
def test_places_everything(problem: Problem, train: SequenceSet, name: str, limit: int | None) -> None:
    machines = Machines.homogeneous(2, 8, ("cpu", "mem"))
    scenario = replace(problem.scenario, placements_per_slot=limit)
    for sequence in (1, 4):
        episode = play(name, train, machines, scenario, sequence)
        assert_valid(episode, machines, limit)
        assert (episode.scheduler, episode.sequence) == (name, sequence)
        assert episode.decision_ms >= 0
        assert (episode.start > episode.arrival).any()  # two machines are too few to place all at once


@pytest.mark.parametrize("name", EVERY)
def test_the_same_seed_gives_the_same_placements(problem: Problem, train: SequenceSet, name: str) -> None:
    scheduler, runner = make(name), Runner(train, problem.machines, problem.scenario, seed=3)
    first = runner.play(scheduler, 2)
    runner.play(scheduler, 5)  # what it did in between makes no difference
    for again in (runner.play(scheduler, 2), play(name, train, problem.machines, problem.scenario, 2)):
        assert np.array_equal(again.start, first.start)
        assert np.array_equal(again.machine, first.machine)


@pytest.mark.parametrize("name", EVERY)
def test_runs_on_unequal_machines(problem: Problem, train: SequenceSet, name: str) -> None:
    episode = play(name, train, HETEROGENEOUS, problem.scenario, 3)
    assert_valid(episode, HETEROGENEOUS, 1)
    first = np.array([demand[0] for demand in episode.demand])
    assert (first <= HETEROGENEOUS.capacity[episode.machine]).all()


@pytest.mark.parametrize("name", CAUTIOUS)
@pytest.mark.parametrize("quantise", [True, False])
def test_who_knows_peaks_or_future_never_overshoots(problem: Problem, google: Any, name: str, quantise: bool) -> None:
    if quantise:
        sequences = problem.sequences("test", 3, seed=1)
    else:
        fractional = Problem.build(
            google, replace(problem.scenario, quantise=False, machine_types=("3x16",)), problem.classes
        )
        sequences = fractional.sequences("test", 3, seed=1)
    machines = Machines.homogeneous(3, 8 if quantise else 16, ("cpu", "mem"))
    weights = problem.scenario.penalty_weights()
    for sequence in range(3):
        episode = play(name, sequences, machines, problem.scenario, sequence)
        assert score_episode(episode, machines, weights)["overshoot_pct"] == 0
        assert (episode.start >= 0).all()


def test_current_load_alone_does_overshoot(problem: Problem, train: SequenceSet) -> None:
    # Otherwise the test above would not tell anything.
    machines = Machines.homogeneous(3, 8, ("cpu", "mem"))
    episode = play("stack", train, machines, problem.scenario)
    assert score_episode(episode, machines, problem.scenario.penalty_weights())["overshoot_pct"] > 0


def test_every_name_says_what_it_knows() -> None:
    assert set(KNOWLEDGE) == set(NAMES)
    assert len(NAMES) == len(set(NAMES))
    assert all(knows.group in GROUPS and knows.note for knows in KNOWLEDGE.values())
    for name in NAMES:
        assert make_scheduler(name).name == name
    with pytest.raises(InputError, match="unknown scheduler 'worst'; valid: best-fit, ") as caught:
        make_scheduler("worst")
    assert all(name in str(caught.value) for name in NAMES)


# ---- what may be known


def with_other_future(sequences: SequenceSet, sequence: int, episode: Episode, now: int) -> SequenceSet:
    """The sequences with all that lies after slot `now` of an episode changed: demand and ends of what runs, demand
    after the first slot of what waits, all demand of what has not arrived."""
    demand, length = sequences.demand.copy(), sequences.length.copy()
    rng = np.random.default_rng(1)
    for i, (arrival, start) in enumerate(zip(episode.arrival, episode.start, strict=True)):
        seen = 0 if arrival > now else 1 if start > now else now - start + 1
        if seen < length[sequence, i]:
            ends = int(rng.integers(max(seen, 1), demand.shape[2] + 1))
            demand[sequence, i, seen:ends] = rng.integers(1, 7, (ends - seen, demand.shape[3]))
            demand[sequence, i, ends:] = 0
            length[sequence, i] = ends
    return replace(sequences, demand=demand, length=length)


def changed_decisions(name: str, sequences: SequenceSet, machines: Machines, scenario: Scenario) -> int:
    """How many of several moments' decisions (up to then) depend on what comes after them."""
    changed = 0
    for sequence in range(4):
        episode = play(name, sequences, machines, scenario, sequence)
        for now in np.quantile(episode.start, (0.3, 0.5, 0.7), method="nearest"):
            other = play(name, with_other_future(sequences, sequence, episode, now), machines, scenario, sequence)
            known = [np.where(e.start <= now, [e.start, e.machine], -1) for e in (episode, other)]
            changed += not np.array_equal(*known)
    return changed


@pytest.mark.parametrize("name", NAMES)
def test_only_peaks_and_clairvoyant_know_the_future(problem: Problem, train: SequenceSet, name: str) -> None:
    machines = Machines.homogeneous(3, 8, ("cpu", "mem"))
    changed = changed_decisions(name, train, machines, problem.scenario)
    if KNOWLEDGE[name] in (NOW, EXPECTED):
        assert changed == 0
    elif name in ("best-fit-peak", "clairvoyant"):
        assert changed > 0  # shows that the change can be noticed


@pytest.mark.parametrize("name", ["deeprm"] + [name for name in NAMES if KNOWLEDGE[name] == PEAKS])
def test_peaks_are_all_that_is_known_of_demand(problem: Problem, train: SequenceSet, name: str) -> None:
    # Every slot but the peaks' own is set to 1 unit: lengths and peaks stay, so nothing else may change.
    flat = np.where(train.demand > 0, 1.0, 0.0)
    at_peak = train.demand == train.demand.max(axis=2, keepdims=True)
    other = replace(train, demand=np.where(at_peak, train.demand, flat))
    assert not np.array_equal(other.demand, train.demand)
    episodes = [play(name, sequences, problem.machines, problem.scenario, 1) for sequences in (train, other)]
    assert np.array_equal(episodes[0].start, episodes[1].start)
    assert np.array_equal(episodes[0].machine, episodes[1].machine)


# ---- the runner


class Scripted:
    """Places the given (position in what it is shown, machine) pairs, one list per call."""

    name = "scripted"
    looks_at_grid = False
    needs_forecasts = False

    def __init__(self, *script: list[tuple[int, int]]) -> None:
        self._script = script

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        self.calls: list[list[int]] = []
        self.loads: list[Any] = []

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterable[Placement]:
        script = self._script[len(self.calls)] if len(self.calls) < len(self._script) else []
        self.calls.append([workload.index for workload in pending])
        for position, machine in script:
            yield Placement(pending[position], machine)
            self.loads.append(cluster.load.tolist())


TWO = Machines.homogeneous(2, 8, ("cpu", "mem"))


def test_one_that_places_nothing_is_stopped(make_sequences: Make) -> None:
    scheduler = Scripted()
    episode = Runner(make_sequences([(3, [[1, 1]]), (9, [[1, 1]])]), TWO, Scenario()).play(scheduler, 0)
    assert len(scheduler.calls) == PATIENCE == 1000
    assert episode.start.tolist() == episode.machine.tolist() == episode.finish.tolist() == [-1, -1]
    row = score_episode(episode, TWO, Scenario().penalty_weights())
    assert row["unplaced"] == 2


def test_patience_begins_anew_with_every_placement(make_sequences: Make) -> None:
    scheduler = Scripted(*[[]] * 700, [(0, 1)], *[[]] * 700, [(0, 0)])
    episode = Runner(make_sequences([(0, [[1, 1]])] * 3), TWO, Scenario()).play(scheduler, 0)
    assert episode.start.tolist() == [700, 1401, -1]
    assert len(scheduler.calls) == 1402 + 1000


def test_placements_count_at_once_and_out_of_order(make_sequences: Make) -> None:
    rows = [(0, [[1, 2]] * 2), (0, [[3, 1]] * 2), (0, [[2, 2]] * 2)]
    scheduler = Scripted([(2, 1), (0, 1)], [], [], [(0, 0)])  # asked again in slot 0, as two were placed
    episode = Runner(make_sequences(rows), TWO, Scenario(placements_per_slot=None)).play(scheduler, 0)
    assert scheduler.calls == [[0, 1, 2], [1], [1], [1]]
    assert scheduler.loads == [[[0, 0], [2, 2]], [[0, 0], [3, 4]], [[3, 1], [0, 0]]]
    assert (episode.start.tolist(), episode.machine.tolist()) == ([0, 2, 0], [1, 0, 1])


def test_no_more_is_placed_in_a_slot_than_allowed(make_sequences: Make) -> None:
    scheduler = Scripted([(0, 0), (1, 0), (2, 0)], [(0, 1)])
    episode = Runner(make_sequences([(0, [[1, 1]])] * 3), TWO, Scenario(placements_per_slot=2)).play(scheduler, 0)
    assert (episode.start.tolist(), episode.machine.tolist()) == ([0, 0, 1], [0, 0, 1])


def test_only_the_first_of_the_queue_are_shown(make_sequences: Make) -> None:
    scheduler = Scripted([], [(1, 0)], [])
    runner = Runner(make_sequences([(0, [[1, 1]])] * 4), TWO, Scenario(queue=2))
    runner.play(scheduler, 0)
    assert scheduler.calls[:3] == [[0, 1], [0, 1], [0, 2]]


def test_refuses_placements_that_cannot_be(make_sequences: Make) -> None:
    sequences = make_sequences([(0, [[1, 1]] * 3), (2, [[1, 1]])])
    runner = Runner(sequences, TWO, Scenario(placements_per_slot=None))
    with pytest.raises(InputError, match="scheduler 'scripted' placed workload 'a', which is not waiting"):
        runner.play(Scripted([(0, 0), (0, 1)]), 0)
    for machine in (2, -1):
        with pytest.raises(InputError, match=f"scheduler 'scripted' chose machine {machine}: must be 0 to 1"):
            runner.play(Scripted([(0, machine)]), 0)

    class Early(Scripted):
        def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterable[Placement]:
            return [Placement(sequences.workload(0, 1), 0)]

    with pytest.raises(InputError, match="scheduler 'scripted' placed workload 'b', which is not waiting"):
        runner.play(Early(), 0)


# ---- the rules by hand


def decide(
    scheduler: str | Scheduler,
    sequences: SequenceSet,
    running: list[int],
    machines: Machines,
    pass_slots: int = 0,
) -> list[tuple[int, int]]:
    """What is placed (workload, machine), in order, after the first workloads were put on the machines `running`.

    All of it happens in slot 0, or `pass_slots` slots after the first ones were placed.
    """
    simulation = Simulation(sequences, machines, Scenario(placements_per_slot=None, queue=9), max_slots=0)
    simulation.reset(0)
    for machine in running:
        simulation.place(0, machine)
    for _ in range(pass_slots):
        simulation.next_slot()
    cluster = Cluster(simulation)
    one = make_scheduler(scheduler) if isinstance(scheduler, str) else scheduler
    one.reset(cluster, np.random.default_rng(0))
    placed = []
    for placement in one.schedule(cluster, [sequences.workload(0, int(i)) for i in simulation.waiting()]):
        simulation.place(simulation.waiting().tolist().index(placement.workload.index), placement.machine)
        placed.append((placement.workload.index, placement.machine))
    return placed


def now(*units: list[float]) -> list[tuple[int, list[list[float]]]]:
    """Workloads that arrive in slot 0 and use the same for three slots."""
    return [(0, [row] * 3) for row in units]


THREE = Machines.homogeneous(3, 8, ("cpu", "mem"))


def test_best_fit_takes_the_fullest_machine_with_room(make_sequences: Make) -> None:
    # cpu 2, 5, 7 are in use; the newcomer needs 2 of it: m2 has no room, m1 has 3 free, m0 has 6.
    assert decide("best-fit", make_sequences(now([2, 5], [5, 1], [7, 1], [2, 1])), [0, 1, 2], THREE) == [(3, 1)]
    # The resource that counts is the newcomer's dominant one, here mem: m0 has least of it.
    assert decide("best-fit", make_sequences(now([2, 5], [5, 1], [7, 1], [1, 2])), [0, 1, 2], THREE) == [(3, 0)]
    # A tie of resources goes to the first, a tie of machines to the lowest number.
    assert decide("best-fit", make_sequences(now([2, 5], [5, 1], [5, 2], [2, 2])), [0, 1, 2], THREE) == [(3, 1)]


def test_best_fit_dominant_resource_is_a_share_of_capacity(make_sequences: Make) -> None:
    # 3 of 8 cpu is more than 4 of 16 mem, so the machine with less cpu free is taken.
    machines = Machines.homogeneous(2, (8, 16), ("cpu", "mem"))
    assert decide("best-fit", make_sequences(now([4, 1], [1, 9], [3, 4])), [0, 1], machines) == [(2, 0)]


def test_best_fit_counts_free_units_on_unequal_machines(make_sequences: Make) -> None:
    # m0 has 8 - 2 = 6 of cpu free, m1 16 - 9 = 7: more units, though the larger share of m1 is in use.
    machines = Machines(np.array([[8.0, 8.0], [16.0, 8.0]]), ("cpu", "mem"))
    assert decide("best-fit", make_sequences(now([2, 1], [9, 1], [3, 1])), [0, 1], machines) == [(2, 0)]


def test_best_fit_waits_first_in_first_out(make_sequences: Make) -> None:
    # The head finds no room, so the next one waits too, although it would fit.
    assert decide("best-fit", make_sequences(now([6, 1], [6, 1], [6, 1], [3, 1], [1, 1])), [0, 1, 2], THREE) == []


def test_best_fit_looks_at_the_first_slot_and_the_load_now(make_sequences: Make) -> None:
    rows = [(0, [[6, 1], [1, 1], [7, 1]]), (0, [[2, 1]] * 3), (0, [[1, 1], [8, 1]]), (1, [[3, 1], [6, 6]])]
    # In slot 1 loads are cpu 1, 2 and 8 (m2): m1 is the fullest with room for 3.
    assert decide("best-fit", make_sequences(rows), [0, 1, 2], THREE, pass_slots=1) == [(3, 1)]
    # With peaks 7, 2 and 8 reserved and 6 needed, m1 is left.
    assert decide("best-fit-peak", make_sequences(rows), [0, 1, 2], THREE, pass_slots=1) == [(3, 1)]
    rows[1] = (0, [[2, 1], [2, 1], [3, 1]])  # a peak of 3: now none has room for 6 more
    assert decide("best-fit-peak", make_sequences(rows), [0, 1, 2], THREE, pass_slots=1) == []
    assert decide("best-fit", make_sequences(rows), [0, 1, 2], THREE, pass_slots=1) == [(3, 1)]


def test_fits_on_peaks_differ_in_the_machine_they_choose(make_sequences: Make) -> None:
    # Peaks of cpu 3, 6, 1 are reserved, now 1 is used everywhere; the newcomer's peak is 2.
    rows = [(0, [[1, 1], [peak, 1]]) for peak in (3, 6, 1)] + [(0, [[1, 1], [2, 1]])]
    chosen = {
        name: decide(name, make_sequences(rows), [0, 1, 2], THREE) for name in NAMES if name.endswith("-fit-peak")
    }
    assert chosen == {"first-fit-peak": [(3, 0)], "best-fit-peak": [(3, 1)], "worst-fit-peak": [(3, 2)]}


def test_the_dominant_resource_is_that_of_what_is_known(make_sequences: Make) -> None:
    # The newcomer begins with more cpu, but memory has the larger peak. m0 uses more cpu, m1 more memory.
    rows = [(0, [[4, 1], [4, 1]]), (0, [[1, 3], [1, 3]]), (0, [[2, 1], [2, 4]])]
    assert decide("best-fit", make_sequences(rows), [0, 1], TWO) == [(2, 0)]
    assert decide("best-fit-peak", make_sequences(rows), [0, 1], TWO) == [(2, 1)]
    assert decide("worst-fit-peak", make_sequences(rows), [0, 1], TWO) == [(2, 0)]


def test_peaks_are_released_when_a_workload_leaves(make_sequences: Make) -> None:
    rows = [(0, [[8, 1]]), (0, [[1, 1]] * 4), (1, [[8, 1]])]
    assert decide("best-fit-peak", make_sequences(rows), [0, 0], Machines.homogeneous(1, 8, ("cpu", "mem")), 1) == []
    rows[1] = (0, [[1, 1]])
    assert decide("best-fit-peak", make_sequences(rows), [0, 0], Machines.homogeneous(1, 8, ("cpu", "mem")), 1) == [
        (2, 0)
    ]


def test_stack_takes_the_machine_with_the_fullest_resource(make_sequences: Make) -> None:
    # Largest shares 6/8 (mem of m0), 5/8 (cpu of m1), 7/8 (m2, no room for 2 of cpu).
    assert decide("stack", make_sequences(now([2, 6], [5, 5], [7, 1], [2, 1])), [0, 1, 2], THREE) == [(3, 0)]


def test_spread_takes_the_emptiest_then_the_fewest_workloads(make_sequences: Make) -> None:
    # Largest shares 3/8, 2/8, 2/8; m1 runs two workloads, m2 one.
    rows = now([1, 3], [1, 1], [1, 1], [2, 2], [1, 1])
    assert decide("spread", make_sequences(rows), [0, 1, 1, 2], THREE) == [(4, 2)]


def test_round_robin_goes_on_after_the_last_choice(make_sequences: Make) -> None:
    # m1 has no room for 2 of cpu; 0, 2, 0, then the last needs 8, which none has.
    rows = now([7, 1], [2, 1], [2, 1], [2, 1], [1, 1], [8, 1])
    assert decide("round-robin", make_sequences(rows), [1], THREE) == [(1, 0), (2, 2), (3, 0), (4, 1)]


def test_random_takes_every_machine_with_room_and_no_other(make_sequences: Make) -> None:
    sequences = make_sequences([(i, [[1, 1]]) for i in range(60)])
    machines = Machines(np.array([[8.0, 8.0], [0.5, 8.0], [8.0, 8.0]]), ("cpu", "mem"))
    episode = Runner(sequences, machines, Scenario(), seed=0).play(make_scheduler("random"), 0)
    count = np.bincount(episode.machine, minlength=3)
    assert count[1] == 0
    assert count.min(initial=60, where=[True, False, True]) > 15


def test_random_differs_by_seed_and_sequence(make_sequences: Make) -> None:
    sequences = make_sequences(*[[(i, [[1, 1]]) for i in range(40)]] * 2)
    chosen = [
        tuple(Runner(sequences, THREE, Scenario(), seed).play(make_scheduler("random"), s).machine)
        for seed, s in ((0, 0), (0, 1), (1, 0), (1, 1))
    ]
    assert len(set(chosen)) == 4


def test_tetris_chooses_the_best_pair(make_sequences: Make) -> None:
    # Two machines of 8; reserved peaks (4, 2) on m0 and (2, 6) on m1, so free shares are (1/2, 3/4) and (3/4, 1/4).
    # Waiting: c peaks at (4, 2) for 2 slots, d at (2, 4) for 4, e at (8, 1) for 1: no machine has room for e.
    # Alignment: c-m0 1/2*1/2 + 1/4*3/4 = 7/16, c-m1 1/2*3/4 + 1/4*1/4 = 7/16; d-m0 1/4*1/2 + 1/2*3/4 = 8/16,
    # d-m1 has room for 2 units of mem only. Work: c 3/4 * 2 = 1.5, d 3/4 * 4 = 3, e 9/8: of the most, 1/2, 1, 3/8.
    rows = [
        (0, [[1, 1], [4, 2]]),
        (0, [[2, 6], [1, 1]]),
        (0, [[4, 1], [1, 2]]),
        (0, [[1, 1], [2, 4], [1, 1], [1, 1]]),
        (0, [[8, 1]]),
    ]
    sequences = make_sequences(rows)
    # Without the preference for little work d goes first, to m0. That leaves (2, 2) there: c goes to m1.
    assert decide(Tetris(epsilon=0.0), sequences, [0, 1], TWO) == [(3, 0), (2, 1)]
    # With 0.1: c 7/16 - 0.05 = 0.3875 against d 0.5 - 0.1 = 0.4: still d. With 0.2 c, 0.3375, is before d, 0.3;
    # the tie of machines goes to m0, which has (0, 4) left then; d needs 2 of cpu, and m1 has 2 of mem: d waits.
    assert decide(Tetris(epsilon=0.1), sequences, [0, 1], TWO) == [(3, 0), (2, 1)]
    assert decide(Tetris(epsilon=0.2), sequences, [0, 1], TWO) == [(2, 0)]


def test_clairvoyant_keeps_room_for_the_whole_life(make_sequences: Make) -> None:
    # m0 uses 5 of cpu now and 7 in slot 2, m1 uses 2 throughout; the newcomer needs 2 for three slots.
    rows = [(0, [[5, 1], [5, 1], [7, 1]]), (0, [[2, 1]] * 3), (0, [[2, 1]] * 3)]
    assert decide("clairvoyant", make_sequences(rows), [0, 1], TWO) == [(2, 1)]
    assert decide("best-fit", make_sequences(rows), [0, 1], TWO) == [(2, 0)]
    # For two slots it fits on m0, the tighter one. Peaks would keep it away from there.
    rows[2] = (0, [[2, 1]] * 2)
    assert decide("clairvoyant", make_sequences(rows), [0, 1], TWO) == [(2, 0)]
    assert decide("best-fit-peak", make_sequences(rows), [0, 1], TWO) == [(2, 1)]
    # A peak of 8 in its third slot fits nowhere before the others are gone.
    rows[2] = (0, [[1, 1], [1, 1], [8, 1]])
    assert decide("clairvoyant", make_sequences(rows), [0, 1], TWO) == []


def test_clairvoyant_takes_the_tightest_over_the_whole_life(make_sequences: Make) -> None:
    # Over three slots m0 leaves (6 + 7 + 7) + 21 units of 8, m1 (2 + 7 + 7) + 21: the less.
    rows = [(0, [[2, 1], [1, 1], [1, 1]]), (0, [[6, 1], [1, 1], [1, 1]]), (0, [[1, 1]] * 3)]
    assert decide("clairvoyant", make_sequences(rows), [0, 1], TWO) == [(2, 1)]
    # When m0 is the fuller later on, it leaves (6 + 2 + 2) + 21.
    rows[0] = (0, [[2, 1], [6, 1], [6, 1]])
    assert decide("clairvoyant", make_sequences(rows), [0, 1], TWO) == [(2, 0)]


def test_all_fit_at_the_very_border(make_sequences: Make) -> None:
    # Exactly 8 of both is room for everyone who looks at room at all; a hair more is not.
    one = Machines.homogeneous(1, 8, ("cpu", "mem"))
    for name in (name for name in NAMES if KNOWLEDGE[name] != EXPECTED):
        assert decide(name, make_sequences(now([5, 6], [3, 2])), [0], one) == [(1, 0)], name
        assert decide(name, make_sequences(now([5, 6], [3.001, 2])), [0], one) == [], name


def test_forecast_fit_takes_the_fullest_machine_that_is_expected_to_hold(make_sequences: Make) -> None:
    # Three machines of 8 = 4/3 peaks of 6. What runs is expected to need 0.5, 0.9 and 1.2 peaks; the newcomer 0.3. With
    # a variance of 0.01 each, 1 deviation of the sum is 0.14: 0.94 and 1.34 with it, and 1.64. So the second would be
    # too full by a hair, and with less caution it is the tightest.
    rows = [(0, [[1, 1]] * 3)] * 4
    machines = Machines.homogeneous(3, 8, ("cpu", "mem"))
    wide = 2 * len(SEGMENTS)
    values = np.zeros((1, 4, 4, columns(2)), np.uint8)
    for w, need in enumerate((0.5, 0.9, 1.2, 0.3)):
        values[0, w, :, :wide] = round(need * 200)
        values[0, w, :, wide : 2 * wide] = 10
    table = ForecastTable(values, steps(2), np.zeros(len(steps(2)), np.bool_))
    sequences = replace(make_sequences(rows), forecast=table)
    simulation = Simulation(sequences, machines, Scenario(placements_per_slot=None), forecasts=True, max_slots=0)
    simulation.reset(0)
    for machine in range(3):
        simulation.place(0, machine)
    newcomer = [sequences.workload(0, 3)]
    chosen = {}
    for caution in (1.0, 0.5):
        (placement,) = ForecastFit(caution=caution).schedule(Cluster(simulation), newcomer)
        chosen[caution] = placement.machine
    assert chosen == {1.0: 0, 0.5: 1}
    assert not list(ForecastFit(caution=9.0).schedule(Cluster(simulation), newcomer))  # nowhere: it waits
