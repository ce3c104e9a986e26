"""The explorer of an evaluation: its episodes played again, what every alternative would have cost, and its page."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.experiments.engine import Cell, as_folder
from tvwrl.experiments.evaluation import EPISODES, PAGE, RUN
from tvwrl.experiments.exploring.observed import OBSERVED, Observed, read_observed
from tvwrl.experiments.scheduler_names import is_of_checkpoint, made_of, scheduler_of
from tvwrl.explorer import (
    ALL,
    EVERY_AGE,
    MOST,
    SECONDS,
    Followed,
    Recording,
    Shown,
    costliest,
    facts_of,
    most_costly,
    read_recording,
    record,
    scheduler_facts,
    sequence_facts,
    sequence_tree,
    write_explorer,
    write_recording,
)
from tvwrl.metrics import MOVES
from tvwrl.progress import Report, say, ticking
from tvwrl.schedulers import CURRENT_LOAD, KNOWLEDGE, Knowledge, Runner, Scheduler, UnknownScheduler, make_scheduler
from tvwrl.types import InputError, Int, Moves, SequenceSet, Strings

RECORDING = "recording.npz"
NO_MOVES: Int = np.zeros((0, 4), np.int64)


@dataclass(frozen=True, eq=False)
class Explored:
    """An evaluation whose episodes can be played again; `open_explored` makes one."""

    folder: Path
    about: Mapping[str, Any]  # run.json
    schedulers: tuple[str, ...]
    parts: Sequence[Observed]
    placed: Mapping[tuple[str, float, int], tuple[Int, Int]]  # scheduler, load, sequence -> machine and start (N,)
    moved: Mapping[tuple[str, float, int], Int]  # the same -> (n, 4) workload, slot, from, to; empty: nothing moved
    live: Mapping[str, Scheduler]  # schedulers that need not be made from their names
    made: dict[str, Scheduler] = field(default_factory=dict)  # those that were
    runners: dict[int, Runner] = field(default_factory=dict)  # part -> what plays on it

    @property
    def loads(self) -> tuple[float, ...]:
        """The loads, in order."""
        return tuple(dict.fromkeys(float(part.sequences.load) for part in self.parts))

    def kept(self, load: float) -> int:
        """How many sequences of a load can be played again."""
        return min(len(part.sequences) for part in self.parts if part.sequences.load == load)

    def played(self, load: float) -> int:
        """How many sequences of a load were played."""
        return len({sequence for _, of, sequence in self.placed if of == load})

    def part(self, scheduler: str, load: float) -> Observed:
        """The sequences as that scheduler saw them."""
        found = [part for part in self.parts if scheduler in part.schedulers and part.sequences.load == load]
        if not found:
            raise InputError(f"{self.folder / OBSERVED} has no sequences of scheduler '{scheduler}' at load {load}")
        return found[0]

    def runner(self, part: Observed) -> Runner:
        """What plays on the sequences of a part."""
        number = self.parts.index(part)
        if number not in self.runners:
            machines = part.scenario.cluster(part.sequences.resources)
            self.runners[number] = Runner(part.sequences, machines, part.scenario, part.seed)
        return self.runners[number]

    def scheduler(self, name: str) -> Scheduler:
        """The scheduler of that name. Raises InputError if it cannot be made again."""
        if name in self.live:
            return self.live[name]
        if name not in self.made:
            self.made[name] = _made_again(name, self.about, self.folder)
        return self.made[name]

    def knowledge(self) -> dict[str, Knowledge]:
        """Scheduler -> what it knows, as far as they can be made again."""
        found = {name: KNOWLEDGE[name] for name in self.schedulers if name in KNOWLEDGE}
        for name in self.schedulers:
            with suppress(InputError):
                found[name] = self.scheduler(name).knowledge
        return found

    def record(
        self, name: str, load: float, sequence: int, what_if: bool = True, seconds: float = SECONDS
    ) -> tuple[Recording, str]:
        """An episode, and why it has no costs of alternatives, empty if it has; see `explorer.record`.

        If the scheduler cannot be made, or decides otherwise now, the episode is shown as it was recorded.
        """
        part = self.part(name, load)
        runner = self.runner(part)
        machine, start = self.placed[name, load, sequence]
        try:
            scheduler = self.scheduler(name)
        except InputError as error:
            return self._followed(runner, name, sequence), f"{name} cannot be recreated: {error}"
        if scheduler.leader is not None:
            return self._followed(runner, name, sequence, scheduler, what_if, seconds), ""
        try:
            recording = record(runner, scheduler, sequence, what_if, seconds)
        except InputError as error:
            return self._followed(runner, name, sequence), f"{name} cannot be recreated: {error}"
        episode, moves = recording.episode, self.moves_of(name, load, sequence)
        same = np.array_equal(episode.machine, machine) and np.array_equal(episode.start, start)
        if same and _rows_of(episode.moves).tolist() == _rows_of(moves).tolist():
            return recording, ""
        why = f"{name} decides differently when the episode is repeated, so its alternatives have no costs"
        return self._followed(runner, name, sequence), why

    def moves_of(self, name: str, load: float, sequence: int) -> Moves | None:
        """The moves that were recorded of an episode; None if nothing might move."""
        rules = self.part(name, load).scenario.move_rules()
        if rules is None:
            return None
        workload, slot, source, target = self.moved.get((name, load, sequence), NO_MOVES).T
        return Moves(workload, slot, source, target, rules)

    def _followed(
        self,
        runner: Runner,
        name: str,
        sequence: int,
        behind: Scheduler | None = None,
        what_if: bool = False,
        seconds: float = SECONDS,
    ) -> Recording:
        machine, start = self.placed[name, float(runner.sequences.load), sequence]
        knowledge = KNOWLEDGE.get(name, CURRENT_LOAD)
        moves = self.moves_of(name, float(runner.sequences.load), sequence)
        return record(runner, Followed(name, knowledge, machine, start, behind, moves), sequence, what_if, seconds)


def open_explored(folder: Path, live: Mapping[str, Scheduler] | None = None) -> Explored:
    """The evaluation in a folder, or in `evaluation/` of a training run.

    `live`: the schedulers by name, where they are at hand; others are made from what run.json says

    Raises InputError if there is none, its files are damaged or of another version, or it has no episodes.
    """
    import polars as pl

    folder = folder / "evaluation" if (folder / "checkpoints").is_dir() else folder
    if not (folder / EPISODES).is_file():
        found = "no evaluation here" if folder.is_dir() else "it is a file" if folder.exists() else "no such folder"
        raise InputError(f"{folder}: {found}: give a folder written by tvwrl evaluate, train, provision or place")
    try:
        about = json.loads((folder / RUN).read_text(encoding="utf-8"))
        frame = pl.read_parquet(folder / EPISODES)
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{folder}: damaged: {error}") from error
    if frame.is_empty():
        raise InputError(f"{folder / EPISODES} has no episodes: no scheduler has finished")
    keys = ("scheduler", "load", "sequence")
    placed: dict[tuple[str, float, int], tuple[Int, Int]] = {}
    names: dict[tuple[float, int], tuple[Strings, Strings]] = {}
    for group in frame.partition_by(keys, maintain_order=True):
        scheduler, load, sequence = group.select(keys).row(0)
        machine, start = (group[name].to_numpy().astype(np.int64) for name in ("machine", "start"))
        placed[scheduler, load, sequence] = machine, start
        names[load, sequence] = (group["workload_id"].to_numpy(), group["source_workload"].to_numpy())
    schedulers = tuple(dict.fromkeys(frame["scheduler"].to_list()))
    parts = read_observed(folder, names)
    moved = _read_moved(folder / MOVES, names) if any(part.scenario.moves_per_slot for part in parts) else {}
    return Explored(folder, about, schedulers, parts, placed, moved, dict(live or {}))


def _read_moved(
    path: Path, names: Mapping[tuple[float, int], tuple[Strings, Strings]]
) -> dict[tuple[str, float, int], Int]:
    """Scheduler, load, sequence -> (n, 4) workload, slot, from, to; `names`: of the workloads of each sequence."""
    import polars as pl

    try:
        frame = pl.read_parquet(path)
        found = {}
        for group in frame.partition_by(("scheduler", "load", "sequence"), maintain_order=True):
            scheduler, load, sequence = group.select("scheduler", "load", "sequence").row(0)
            place = {name: i for i, name in enumerate(names[load, sequence][0])}
            workload = [place[name] for name in group["workload_id"]]
            rows = [workload, *(group[name].to_list() for name in ("slot", "from", "to"))]
            found[scheduler, load, sequence] = np.array(rows, np.int64).T
    except (OSError, KeyError, TypeError, pl.exceptions.PolarsError) as error:
        raise InputError(f"{path}: damaged: {error}") from error
    return found


def _rows_of(moves: Moves | None) -> Int:
    """(n, 4) workload, slot, from, to."""
    return NO_MOVES if moves is None else np.stack([moves.workload, moves.slot, moves.source, moves.target], axis=1)


@lru_cache(maxsize=1)
def _opened(folder: Path, stamp: tuple[int, ...]) -> Explored:
    """The evaluation in a folder; `stamp` is of its files, so that a later one is not taken for it."""
    return open_explored(folder)


def _made_again(name: str, about: Mapping[str, Any], folder: Path) -> Scheduler:
    """The scheduler that run.json says played under that name. Raises InputError if there is none any more."""
    policies, given = dict(about.get("policies") or {}), about.get("schedulers")
    if name in policies:
        return _policy(name, folder / policies[name])
    if isinstance(given, dict):  # by tvwrl.evaluate, which says what each was made of
        try:
            made = scheduler_of(made_of(given.get(name, name)), "cpu")
        except UnknownScheduler:
            raise InputError(
                f"it was a Python object ({given.get(name, name)}): call explore() on the result of tvwrl.evaluate"
            ) from None
        made.name = name
        return made
    for entry in given or []:
        needed = list(policies.items())[:1] if is_of_checkpoint(entry) else []
        with suppress(InputError):  # what this entry needs may be gone, and `name` another's
            made = scheduler_of(entry, "cpu", next((_policy(run, folder / file) for run, file in needed), None))
            if made.name == name:
                return made
    return make_scheduler(name)


def _policy(name: str, file: Path) -> Scheduler:
    if not file.is_file():
        raise InputError(f"its checkpoint {file} is no longer there")
    if file.suffix == ".onnx":
        from tvwrl.agents import load_exported

        return load_exported(file)
    import torch

    from tvwrl.agents import load_policy

    torch.set_num_threads(1)  # networks are small: several threads wait for one another
    policy = load_policy(file)
    policy.name = name
    return policy


@dataclass(frozen=True)
class EpisodeCell(Cell):
    """An episode and its alternatives."""

    folder: Path
    scheduler: str
    load: float
    sequence: int
    what_if: bool
    policy: Path | None = None  # its checkpoint

    @property
    def name(self) -> str:
        return f"{self.group}/sequence-{self.sequence}" + "-alone" * (not self.what_if)

    @property
    def group(self) -> str:
        return f"{as_folder(self.scheduler)}/load-{self.load}"

    def request(self) -> dict[str, Any]:
        files = {name: self.folder / name for name in (EPISODES, OBSERVED, RUN)}
        asked = {"scheduler": self.scheduler, "load": self.load, "sequence": self.sequence, "what_if": self.what_if}
        return asked | files | {"policy": self.policy, "tvwrl": version("tvwrl")}

    def run(self, folder: Path) -> None:
        """Leave the recording."""
        where = self.folder.resolve()
        explored = _opened(where, tuple((where / name).stat().st_mtime_ns for name in (EPISODES, OBSERVED, RUN)))
        recording, why = explored.record(self.scheduler, self.load, self.sequence, self.what_if)
        write_recording(folder / RECORDING, recording, why)

    def read(self, folder: Path, explored: Explored) -> tuple[Recording, str]:
        """What `run` left in its folder."""
        drawn = explored.part(self.scheduler, self.load).sequences
        machine, start = explored.placed[self.scheduler, self.load, self.sequence]
        found, why = read_recording(folder / RECORDING, drawn, self.sequence, self.scheduler, machine, start)
        moves = explored.moves_of(self.scheduler, self.load, self.sequence)
        return replace(found, episode=replace(found.episode, moves=moves)), why


def cells_of(
    explored: Explored, schedulers: Sequence[str], chosen: Mapping[float, Sequence[int]], what_if: bool
) -> Iterator[EpisodeCell]:
    """A cell for each episode of the sequences chosen of each load; all schedulers of a sequence, then the next."""
    given = dict(explored.about.get("policies") or {})
    policies = {name: explored.folder / file for name, file in given.items()}
    for load, sequences in chosen.items():
        for sequence in sequences:
            for name in schedulers:
                if (name, load, sequence) not in explored.placed:
                    raise InputError(f"{explored.folder / EPISODES}: '{name}' did not play sequence {sequence}")
                yield EpisodeCell(explored.folder, name, load, sequence, what_if, policies.get(name))


FIRST_LOOK = 5.0  # seconds for an episode

Read = Callable[[str, float, int], tuple[Recording, str]]  # scheduler, load, sequence -> see `Explored.record`
Chosen = Mapping[float, Sequence[int]]  # load -> sequences


def write_page(
    file: Path,
    explored: Explored,
    schedulers: Sequence[str],
    chosen: Chosen,
    read: Read,
    left_out: Iterable[str] = (),
) -> None:
    """Write the explorer of these schedulers and sequences; `left_out`: sentences on what is not in the file."""
    part, shown, reasons = explored.parts[0], [], dict.fromkeys(left_out)
    seen = [_with_forecasts(explored, load) for load in chosen]
    for load, sequences in chosen.items():
        for sequence in sequences:
            found = [read(name, load, sequence) for name in schedulers]
            reasons |= dict.fromkeys(f"{why}." for _, why in found if why)
            shown.append(Shown(_with_forecasts(explored, load), sequence, [recording for recording, _ in found]))
    machines, scenario = part.scenario.cluster(part.sequences.resources), part.scenario
    reasons |= dict.fromkeys(_limits(shown, len(machines)))
    unseen = [p for p in explored.parts if p.sequences.load in chosen and not any(p.sequences is s for s in seen)]
    if others := [name for name in schedulers if any(name in part.schedulers for part in unseen)]:
        reasons[f"The classes and forecasts shown are not those that these schedulers saw: {', '.join(others)}."] = None
    expensive = [one for number, each in enumerate(shown) for one in costliest(each, number)]
    title, trace = explored.folder.absolute().name, explored.about["trace"]
    index = facts_of(title, trace, machines, scenario, max(drawn.classes for drawn in seen)) | {
        "schedulers": scheduler_facts(shown[0].recordings, explored.knowledge(), explored.about.get("policies") or {}),
        "sequences": [sequence_facts(one) for one in shown],
        "costliest": most_costly(expensive, len(schedulers)),
        "left_out": list(reasons),
    }
    write_explorer(file, index, (sequence_tree(one, scenario.peak_units, machines) for one in shown))


def write_at_once(
    explored: Explored,
    file: Path,
    chosen: Chosen,
    what_if: bool = True,
    seconds: float = SECONDS,
    report: Report = say,
    left_out: Iterable[str] = (),
    schedulers: Sequence[str] = (),
) -> None:
    """Play the episodes of the schedulers, by default of all, in this process, and write the explorer.

    `seconds`: see `explorer.record`
    """
    schedulers = schedulers or explored.schedulers
    count = len(schedulers) * sum(map(len, chosen.values()))
    report(f"playing {count} episode{'s' * (count > 1)}" + " and simulating the alternatives" * what_if)
    with ticking("episodes", report, total=count, unit="episode") as bar:

        def read(scheduler: str, load: float, sequence: int) -> tuple[Recording, str]:
            found = explored.record(scheduler, load, sequence, what_if, seconds)
            bar.update()
            if bar.disable and scheduler == schedulers[-1] and count > len(schedulers):  # no terminal, but a log
                report(f"load {load:g}: {sequence + 1} of {len(chosen[load])} sequences are simulated")
            return found

        write_page(file, explored, schedulers, chosen, read, left_out)


def first_look(folder: Path) -> str:
    """Write the explorer of the first sequence of each load of an evaluation; returns what a user should know of it."""
    explored = open_explored(folder)
    file, command = explored.folder / PAGE, shlex.join(["tvwrl", "explore", str(folder)])
    left_out = [
        f"Of the {played:,} sequences of load {load:g}, only the first is shown. {command} shows {explored.kept(load)}."
        for load in explored.loads
        if (played := explored.played(load)) > 1
    ]
    write_at_once(explored, file, {load: [0] for load in explored.loads}, True, FIRST_LOOK, left_out=left_out)
    text = f"see every decision, and what the alternatives would have cost: {file.absolute().as_uri()}"
    return f"{text}\nthis page shows the first sequence; for more, run: {command}" if left_out else text


def sequences_of(
    explored: Explored, loads: Sequence[float], count: int | None = None
) -> tuple[dict[float, list[int]], list[str]]:
    """Load -> its first `count` sequences, by default all that were kept, and sentences on those left out.

    Raises InputError for more than were kept.
    """
    chosen, left_out = {}, []
    for load in loads:
        kept = explored.kept(load)
        if count is not None and not 1 <= count <= kept:
            raise InputError(f"sequences is {count}: must be 1 to {kept}; the evaluation kept {kept} of load {load:g}")
        chosen[load] = list(range(count or kept))
        if (played := explored.played(load)) > len(chosen[load]):
            left_out.append(f"Of the {played:,} sequences of load {load:g}, the first {len(chosen[load])} are shown.")
    return chosen, left_out


def _with_forecasts(explored: Explored, load: float) -> SequenceSet:
    """The sequences of a load, with forecasts if any scheduler saw some."""
    parts = [part.sequences for part in explored.parts if part.sequences.load == load]
    return next((drawn for drawn in parts if drawn.forecast is not None), parts[0])


def _limits(shown: Sequence[Shown], machines: int) -> Iterator[str]:
    """Sentences on what recordings leave out."""
    for number, first in enumerate(shown[0].recordings):
        mine = [one.recordings[number] for one in shown]
        name, decisions = first.episode.scheduler, sum(map(len, mine))
        played = sum(int(recording.simulated.sum()) for recording in mine)
        if 0 < played < decisions:
            yield (
                f"{name}: alternatives were simulated for {played:,} of {decisions:,} decisions only; the others would "
                "take too long."
            )
        if not all(recording.repeats for recording in mine):
            yield f"{name} does not decide the same way twice: the cost of an alternative is one sample."
    if machines > ALL:
        yield f"Each decision is compared with the {MOST} most promising of {machines:,} machines."
    if any(one.sequences.forecast is not None and one.sequences.arrival.shape[1] > EVERY_AGE for one in shown):
        yield "Only the forecasts made at a workload's arrival are shown."
