"""`tvwrl dataset`: episodes of schedulers and agents on the training sequences of a task, as a Minari dataset.

A scheduler plays an episode in the simulation, as in an evaluation, and its decisions are written down. Then they are
carried out in the environment, as actions, and what that shows and pays is recorded. What the referee finds the
scheduler's own episode to cost has to be what the environment charged, so an action is never another decision.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tvwrl.benchmark.entries import Entry, Setting, entry_of
from tvwrl.benchmark.tasks import Task, check_observed, find_task, forecaster_of, is_named, problem_of
from tvwrl.checks import at_least, different
from tvwrl.envs import Observation, PlacementEnv, Problem
from tvwrl.progress import Report, nothing, ticking
from tvwrl.runs import provenance, whole_folder
from tvwrl.schedulers import Runner, Scheduler
from tvwrl.simulation import MOVE_PHASE, OVER, PHASE, SLOT, TERMINATED, Cluster, Simulation
from tvwrl.types import Episode, InputError, Move, Placement, Workload

if TYPE_CHECKING:
    import gymnasium as gym

# Who stands behind the names that users of offline datasets know: the best rule that knows nothing of the future, what
# spreads by current load, and a machine at random of those with room
KINDS = {"expert": "expected-cost", "medium": "spread", "random": "random"}
EXPERT_THAT_MOVES = "expected-cost + evacuate"
MIXED = "mixed"
MASK = "action_mask"  # in `infos`
CLOSE = 1e-9  # relative difference of two sums of the same penalties
HOLD = {"hold_action": True}


class Decision(NamedTuple):
    """What a scheduler decided in a slot."""

    slot: int
    workload: int | None  # its position in the arrival sequence; None: to place nothing
    machine: int
    moves: bool  # whether the workload runs, and moves


class Deciding(Scheduler):
    """Decides as another scheduler does, and writes the decisions of an episode down."""

    def __init__(self, inner: Scheduler) -> None:
        self.name, self.knowledge, self._inner = inner.name, inner.knowledge, inner
        self.looks_at_grid, self.needs_forecasts = inner.looks_at_grid, inner.needs_forecasts
        self.decisions: list[Decision] = []

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """See `Scheduler.reset`."""
        self.decisions = []
        self._inner.reset(cluster, rng)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterable[Placement]:
        """See `Scheduler.schedule`."""
        return self._inner.schedule(cluster, pending)

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `Scheduler.moves`."""
        for workload, machine in self._inner.moves(cluster):
            self.decisions.append(Decision(cluster.slot, int(workload), int(machine), True))
            yield Move(workload, machine)

    def note(self, cluster: Cluster, _: Sequence[Workload], placement: Placement | None) -> None:
        """A `Watch` of `Runner.play`: what is placed, or that nothing is."""
        workload, machine = (None, 0) if placement is None else (placement.workload.index, int(placement.machine))
        self.decisions.append(Decision(cluster.slot, workload, machine, False))


@dataclass(frozen=True, eq=False)
class Source:
    """Somebody whose episodes are recorded."""

    name: str  # as it was given
    entry: Entry
    task: Task
    episodes: int
    seed: int

    @cached_property
    def problem(self) -> Problem:
        """What it plays on: the task as it observes it."""
        problem = self.entry.problem or problem_of(self.task)
        if self.entry.problem is not None or not self.entry.scheduler.wants_forecasts(problem.scenario):
            return problem
        forecaster = forecaster_of(self.task) if is_named(self.task) else None
        return replace(problem, forecaster=forecaster or problem.forecaster).with_forecasts()

    @cached_property
    def _deciding(self) -> Deciding:
        return Deciding(self.entry.scheduler)

    @cached_property
    def _runner(self) -> Runner:
        problem = self.problem
        drawn = problem.sequences("train", self.episodes, self.seed)
        return Runner(drawn, problem.machines, problem.scenario, self.seed)

    def play(self, sequence: int) -> tuple[Episode, list[Decision]]:
        """Its episode on a training sequence, and what it decided."""
        episode = self._runner.play(self._deciding, sequence, self._deciding.note)
        return episode, self._deciding.decisions


def record_dataset(
    task: str | Task,
    of: Sequence[str],
    episodes: int = 100,
    seed: int = 0,
    dataset_id: str | None = None,
    observe: dict[str, Any] | None = None,
    author: str | None = None,
    report: Report = nothing,
) -> str:
    """Write a Minari dataset of episodes on training sequences of a task; `minari.load_dataset` reads it.

    Parameters
    ----------
    task : str | Task
        Its name, as in `tvwrl.TASK_NAMES`.
    of : Sequence[str]
        Who plays: names of schedulers, training runs (a folder or a .pt file), ONNX and Python files, and `expert`,
        `medium` and `random` (`KINDS`). Several take turns, an episode each.
    episodes : int, default 100
        How many, each on a sequence of its own, >= 1.
    seed : int, default 0
        Of the draw of the sequences, and of what schedulers draw at random, >= 0.
    dataset_id : str, optional
        Its name in Minari; default: `dataset_id_of` the task and names.
    observe : dict[str, Any], optional
        Fields of the task's scenario that the environment, and functions and models, observe differently, as in
        `tvwrl.make`; `hold_action` is True unless it is given, as most rules let workloads wait at times.
    author : str, optional
        Written into the dataset.
    report : Report, default nothing
        Gets a line now and then.

    Returns
    -------
    str
        The name of the dataset.

    Raises
    ------
    InputError
        For bad arguments, a dataset that exists, and a decision that no action of the environment says.

    Examples
    --------
    >>> record_dataset("google-0.5-v1", ["expert"])  # doctest: +SKIP
    'tvwrl/google-0-5/expert-v1'
    """
    import gymnasium as gym

    task = find_task(task)
    if not is_named(task):
        raise InputError(f"task {task.name} is none of the benchmark's, so no dataset could name its environment")
    at_least(1, episodes=episodes)
    at_least(0, seed=seed)
    different(of=of)
    if episodes < len(of):
        raise InputError(f"episodes is {episodes}: must be at least {len(of)}, one of each that is named")
    observe = HOLD | (observe or {})
    check_observed(observe)
    minari = _minari()
    name = dataset_id or dataset_id_of(task, of)
    folder = _new_folder(minari, name)
    made = gym.make(f"tvwrl/{task.name}", sequences=episodes, seed=seed, **observe)
    with ExitStack() as open_entries:
        open_entries.callback(made.close)
        sources = []
        for given in of:
            entry = entry_of(_called(given), _meant(task, given), Setting.of_task(task), observe)
            open_entries.callback(entry.close)
            sources.append(Source(given, entry, task, episodes, seed))
        _make_namespace(minari, name)
        facts = _facts(minari, name, task, sources, episodes, seed, author)
        judged = copy.deepcopy(made.spec)
        assert judged is not None
        judged.kwargs["split"] = "validation"  # what `recover_environment(eval_env=True)` plays was not recorded
        facts["eval_env_spec"] = judged.to_json()
        with whole_folder(folder) as partial, ticking(f"episodes of {name}", report, total=episodes) as bar:
            storage = minari.dataset.minari_storage.MinariStorage.new(
                partial / "data",
                observation_space=made.observation_space,
                action_space=made.action_space,
                env_spec=made.spec,
                jpeg_encoding=False,
            )
            for i in range(episodes):
                source = sources[i % len(sources)]
                storage.update_episodes([_recorded(minari, made, source, i, seed)])
                storage.update_episode_metadata([{"scheduler": source.name}], [i])
                bar.update()
            storage.update_metadata(facts)
    return name


def dataset_id_of(task: Task, of: Sequence[str]) -> str:
    """The usual name: `tvwrl/TASK/NAMES-vN` with the version of the task, where a Minari name has no dots.

    >>> dataset_id_of(find_task("google-0.5-v1"), ["expert"])
    'tvwrl/google-0-5/expert-v1'
    >>> dataset_id_of(find_task("google-0.5-v1"), ["random", "expected-cost(opening=200)"])
    'tvwrl/google-0-5/random-and-expected-cost-opening-200-v1'
    """
    name, _, version = task.name.rpartition("-v")
    called = "-and-".join(_plain(_called(one)) for one in of)
    return f"tvwrl/{_plain(name)}/{called}-v{version}"


def _plain(text: str) -> str:
    return re.sub(r"[^\w]+", "-", text).strip("-")


def _called(given: str) -> str:
    """The name of an entry: that of its file, if it is one."""
    plain = given.rstrip("/").removeprefix("shipped:")
    return re.sub(r"\.(pt|onnx|py)$", "", plain.rpartition("/")[2]) if _is_path(plain) else plain


def _is_path(given: str) -> bool:
    return "(" not in given and ("/" in given or given.endswith((".pt", ".onnx", ".py")))


def _meant(task: Task, given: str) -> str:
    """The scheduler behind a name that users of offline datasets know."""
    if given == MIXED:
        raise InputError(f"of is '{MIXED}': name those that take turns, as in --of random expert")
    if given == "expert" and task.scenario.moves_per_slot:
        return EXPERT_THAT_MOVES
    return KINDS.get(given, given)


def _minari() -> Any:
    try:
        import h5py  # noqa: F401  # what it writes its files with
        import minari
    except ImportError:
        raise InputError("datasets need Minari: pip install 'tvwrl[offline]'") from None
    return minari


def _new_folder(minari: Any, name: str) -> Any:
    """Where Minari looks for a dataset. Raises InputError for a bad name, and if there is one already."""
    try:
        minari.dataset.minari_dataset.parse_dataset_id(name)
    except (ValueError, TypeError):  # TypeError: it has no version
        raise InputError(
            f"id is '{name}': must be NAMESPACE/NAME-vN of letters, digits, - and _, as tvwrl/google-0-5/expert-v1"
        ) from None
    folder = minari.storage.get_dataset_path(name)
    if folder.exists():
        raise InputError(
            f"there is already a dataset {name} in {folder}: give another --id, or remove it with minari delete {name}"
        )
    return folder


def _make_namespace(minari: Any, name: str) -> None:
    """Let Minari list the namespace of a dataset."""
    namespace = name.rpartition("/")[0]
    if namespace and namespace not in minari.namespace.list_local_namespaces():
        minari.namespace.create_namespace(namespace)


def _facts(
    minari: Any, name: str, task: Task, sources: Sequence[Source], episodes: int, seed: int, author: str | None
) -> dict[str, Any]:
    """The metadata of a dataset."""
    players = [_played_by(source) for source in sources]
    turns = f"{', '.join(players)} in turn" if len(players) > 1 else players[0]
    return {
        "dataset_id": name,
        "minari_version": minari.__version__,
        "algorithm_name": ", ".join(players),
        **({} if author is None else {"author": {author}}),
        "description": (
            f"{episodes} episodes of {turns} on training sequences of the benchmark task {task.name} (seed {seed}). "
            f"Rewards are minus the penalties, divided by {task.penalty_unit:g}. infos['{MASK}'] holds the actions "
            "that the environment's mask allows, and what parts of an observation look at (machines, progress). The "
            "metadata of an episode name its scheduler."
        ),
        "requirements": [f"tvwrl>={provenance()['versions'].get('tvwrl', '0')}"],
        "task": task.as_dict(),
        "schedulers": {source.name: source.entry.origin for source in sources},
        "tvwrl": {key: value for key, value in provenance().items() if key in ("commit", "versions")},
    }


def _played_by(source: Source) -> str:
    """A name, with that of the scheduler behind it if it is another."""
    meant = _meant(source.task, source.name)
    return source.name if meant == source.name else f"{source.name} ({meant})"


def _recorded(minari: Any, made: gym.Env[Any, Any], source: Source, sequence: int, seed: int) -> Any:
    """An episode in Minari's form. Raises InputError if the actions of the environment cannot say what was decided."""
    env = made.unwrapped
    assert isinstance(env, PlacementEnv)
    episode, decisions = source.play(sequence)
    options = {"sequence": sequence}
    observation, info = env.reset(seed=seed, options=options)
    _check_same(env.simulation, source, episode, sequence)
    seen, infos = [observation], [info | _more(env)]
    actions, rewards, cost, over = list[int](), list[float](), 0.0, [False, False]
    left = iter(decisions)
    due = next(left, None)
    while not any(over):
        action, done = _action_of(env.simulation, due, source.name, sequence)
        due = next(left, None) if done else due
        observation, reward, *over, info = env.step(action)
        cost -= float(reward)
        actions.append(action)
        rewards.append(float(reward))
        seen.append(observation)
        infos.append(info | _more(env))
    if env.simulation.state.counters[0, OVER] == TERMINATED:
        own = -source.problem.score(episode)["reward"] / source.task.penalty_unit
        if due is not None or not np.isclose(cost, own, rtol=CLOSE, atol=CLOSE):
            raise InputError(
                f"'{source.name}', sequence {sequence}: its actions cost {cost:g} in the environment and {own:g} by "
                "the referee: the environment cannot say what it decides"
            )
    ended = np.zeros((2, len(actions)), np.bool_)
    ended[:, -1] = over
    return minari.data_collector.EpisodeBuffer(
        seed=seed,
        options=options,
        observations=_stacked(seen),
        actions=np.array(actions, np.int64),
        rewards=np.array(rewards),
        terminations=ended[0],
        truncations=ended[1],
        infos=_stacked(infos),
    )


def _more(env: PlacementEnv) -> dict[str, Any]:
    """What `infos` hold beside the environment's own: the mask, and what parts of an observation look at."""
    return {MASK: env.action_masks()} | {name: of[0].copy() for name, of in env.simulation.known_now().items()}


def _check_same(simulation: Simulation, source: Source, episode: Episode, sequence: int) -> None:
    """Raise InputError unless the environment plays what the scheduler played."""
    drawn = simulation.sequences
    same = np.array_equal(drawn.arrival[sequence], episode.arrival) and all(
        np.array_equal(drawn.demand[sequence, i, : len(own)], own) for i, own in enumerate(episode.demand)
    )
    if not same:
        raise InputError(
            f"'{source.name}' plays other workloads than the task's environment: only what it observes may differ"
        )


def _action_of(simulation: Simulation, due: Decision | None, name: str, sequence: int) -> tuple[int, bool]:
    """The action that says what was decided, and whether it is that decision: the end of a slot's moves is none.

    Raises InputError if there is none.
    """
    scenario, machines = simulation.scenario, len(simulation.machines)
    counters = simulation.state.counters[0]
    slot, moving = int(counters[SLOT]), counters[PHASE] == MOVE_PHASE
    where, first = f"'{name}', sequence {sequence}, slot {slot}", simulation.placements + scenario.hold_action
    if moving:
        if due is None or not due.moves or due.slot != slot:
            return simulation.actions - 1, False
        row = int(np.flatnonzero(Cluster(simulation).running.workload == due.workload)[0])
        if row >= simulation.shown_running:
            raise InputError(
                f"{where}: it moves workload {row + 1} of those that run, and actions name only the first "
                f"{simulation.shown_running}: give --observe shown_running={simulation.sequences.demand.shape[1]}"
            )
        return first + row * machines + due.machine, True
    if due is None or due.moves or due.slot != slot:
        raise InputError(f"{where}: it decided nothing here, and the environment asks: it cannot be recorded")
    if due.workload is None:
        if not scenario.hold_action:
            raise InputError(
                f"{where}: it lets workloads wait, and no action says that: give --observe hold_action=true"
            )
        return simulation.placements, True
    place = int(np.flatnonzero(simulation.waiting() == due.workload)[0])
    if place >= scenario.places:
        advice = (
            f"show more of the queue with a task whose queue is longer than {scenario.queue}"
            if scenario.choose_from_queue
            else "give --observe choose_from_queue=true"
        )
        raise InputError(
            f"{where}: it places workload {place + 1} of the queue, and actions name only the first {scenario.places}: "
            f"{advice}"
        )
    return place * machines + due.machine, True


def _stacked(rows: Sequence[Observation | dict[str, Any]]) -> dict[str, Any]:
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}
