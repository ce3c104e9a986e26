"""The episodes of an evaluation folder played again, with the cost of every alternative."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from tvwrl.experiments.engine import Cell
from tvwrl.experiments.evaluation import EPISODES, RUN
from tvwrl.experiments.exploring.observed import OBSERVED, Observed, read_observed
from tvwrl.experiments.scheduler_names import is_of_checkpoint, scheduler_of
from tvwrl.explorer import SECONDS, Followed, Recording, read_recording, record, write_recording
from tvwrl.schedulers import CURRENT_LOAD, KNOWLEDGE, Knowledge, Runner, Scheduler, UnknownScheduler, make_scheduler
from tvwrl.types import InputError, Int, Strings

RECORDING = "recording.npz"


@dataclass(frozen=True, eq=False)
class Explored:
    """An evaluation whose episodes can be played again; `open_explored` makes one."""

    folder: Path
    about: Mapping[str, Any]  # run.json
    schedulers: tuple[str, ...]
    parts: Sequence[Observed]
    placed: Mapping[tuple[str, float, int], tuple[Int, Int]]  # scheduler, load, sequence -> machine and start (N,)
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
        if np.array_equal(recording.episode.machine, machine) and np.array_equal(recording.episode.start, start):
            return recording, ""
        why = f"{name} decides differently when the episode is repeated, so its alternatives have no costs"
        return self._followed(runner, name, sequence), why

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
        return record(runner, Followed(name, knowledge, machine, start, behind), sequence, what_if, seconds)


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
    return Explored(folder, about, schedulers, read_observed(folder, names), placed, dict(live or {}))


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
            made = make_scheduler(given.get(name, name))
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
        return f"{self.scheduler}/load-{self.load}"

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
        return read_recording(folder / RECORDING, drawn, self.sequence, self.scheduler, machine, start)


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
