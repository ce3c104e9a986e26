"""The explorer of an evaluation, and its episodes for other viewers, from recordings."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from tvwrl.experiments.evaluation import PAGE
from tvwrl.experiments.exploring.explored import Explored, open_explored
from tvwrl.explorer import (
    ALL,
    EVERY_AGE,
    MOST,
    SECONDS,
    Recording,
    Shown,
    costliest,
    draw_report,
    facts_of,
    most_costly,
    scheduler_facts,
    sequence_facts,
    sequence_tree,
    write_explorer,
)
from tvwrl.progress import Report, say, ticking
from tvwrl.types import InputError, SequenceSet

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
    if others := _seeing_otherwise(explored, schedulers, seen):
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


def write_report(file: Path, explored: Explored, recordings: Sequence[Recording]) -> None:
    """Draw episodes as a report, in the format that the name of the file ends with."""
    part = explored.parts[0]
    draw_report(recordings, part.scenario.cluster(part.sequences.resources), file)


def _with_forecasts(explored: Explored, load: float) -> SequenceSet:
    """The sequences of a load, with forecasts if any scheduler saw some."""
    parts = [part.sequences for part in explored.parts if part.sequences.load == load]
    return next((drawn for drawn in parts if drawn.forecast is not None), parts[0])


def _seeing_otherwise(explored: Explored, schedulers: Sequence[str], seen: Sequence[SequenceSet]) -> list[str]:
    """Schedulers that saw other classes or forecasts than those shown, `seen`."""
    shown, loads = {id(drawn) for drawn in seen}, {drawn.load for drawn in seen}
    parts = [part for part in explored.parts if part.sequences.load in loads and id(part.sequences) not in shown]
    others = {name for part in parts for name in part.schedulers}
    return [name for name in schedulers if name in others]


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
