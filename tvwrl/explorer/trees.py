"""The trees of numbers and names that the page of episodes shows; page/unpack.js and page/model.js read them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.envs import label_colours
from tvwrl.explorer.recording import (
    TERM_WORDS,
    WAITING,
    Recording,
    costliest_decisions,
    shortened,
    why_none_is_costly,
)
from tvwrl.forecasting import SEGMENTS, Forecast
from tvwrl.penalties import MOST
from tvwrl.schedulers import Knowledge, is_registered, titles_of
from tvwrl.simulation import Scenario
from tvwrl.types import Machines, SequenceSet

VERSION = 1
COSTLIEST = 20  # decisions of a scheduler in the list
EVERY_AGE = 200  # workloads of a sequence, up to which forecasts at every age are shown


@dataclass(frozen=True, eq=False)
class Shown:
    """One sequence, played by every scheduler."""

    sequences: SequenceSet
    number: int  # of the sequence, in `sequences`
    recordings: Sequence[Recording]


def facts_of(
    title: str, trace: Mapping[str, Any], machines: Machines, scenario: Scenario, classes: int
) -> dict[str, Any]:
    """What the index says of the cluster and the trace; `trace`: its name and source."""
    moving = scenario.moves_per_slot > 0
    return {
        "version": VERSION,
        "kind": "episodes",
        "title": shortened(title),
        "trace": {name: shortened(str(trace[name])) for name in ("name", "source")},
        "slot_seconds": scenario.step_seconds,
        "resources": [shortened(name) for name in machines.resources],
        "capacity": machines.capacity,
        "peak_units": scenario.peak_units,
        "classes": classes,
        "class_colours": ["#" + bytes(colour).hex() for colour in label_colours(classes)[1 : classes + 1]],
        "weights": {name: getattr(scenario, name) for name in MOST if moving or name != "K_m"},
        "overshoot_per": scenario.overshoot_per,
        "usage_delay": scenario.usage_delay,
        "terms": list(TERM_WORDS.values())[: None if moving else -1],
        "waiting": WAITING,
    }


def scheduler_facts(
    recordings: Sequence[Recording], knowledge: Mapping[str, Knowledge], policies: Container[str] = ()
) -> list[dict[str, Any]]:
    """What the index says of the schedulers, from a recording of each; `policies`: those that were trained here."""
    names = [recording.episode.scheduler for recording in recordings]
    titles = {name: name for name in names} | titles_of(n for n in names if is_registered(n) or n in policies)
    return [
        {
            "name": shortened(name := recording.episode.scheduler),
            "title": shortened(titles[name]),
            "group": knowledge[name].group if name in knowledge else "",
            "knows": knowledge[name].note if name in knowledge else "",
            "meaning": recording.meaning,
            "continued_by": recording.continued_by,
        }
        for recording in recordings
    ]


def sequence_facts(shown: Shown) -> dict[str, Any]:
    """What the index says of a sequence."""
    episodes = [
        {
            "scheduler": number,
            "penalties": recording.penalties.sum(axis=0).tolist(),
            "unplaced": int((recording.episode.start < 0).sum()),
            "decisions": len(recording),
            "simulated": int(recording.simulated.sum()),
        }
        for number, recording in enumerate(shown.recordings)
    ]
    return {
        "load": float(shown.sequences.load),
        "sequence": shown.number,
        "workloads": shown.sequences.arrival.shape[1],
        "slots": max((len(recording.penalties) for recording in shown.recordings), default=0),
        "episodes": episodes,
    }


def costliest(shown: Shown, number: int) -> list[dict[str, Any]]:
    """The costliest decisions of each scheduler in sequence `number` of the index."""
    found = []
    for scheduler, recording in enumerate(shown.recordings):
        regret, own, best = recording.regret, recording.own, recording.best
        for k in costliest_decisions(recording, COSTLIEST):
            found.append(
                {
                    "scheduler": scheduler,
                    "sequence": number,
                    "decision": k,
                    "slot": int(recording.slot[k]),
                    "workload": shortened(str(recording.episode.workload_id[recording.workload[k]])),
                    "chosen": int(recording.chosen[k]),
                    "best": int(recording.machines[k, best[k]]),
                    "regret": float(regret[k]),
                    "parts": (recording.costs[k, own[k]] - recording.costs[k, best[k]]).tolist(),
                }
            )
    return found


def most_costly(found: Sequence[dict[str, Any]], schedulers: int) -> list[dict[str, Any]]:
    """Of the `costliest` decisions of all sequences the first of each scheduler, all by falling regret."""
    ranked = sorted(found, key=lambda one: -one["regret"])
    return sorted(
        (one for i in range(schedulers) for one in [o for o in ranked if o["scheduler"] == i][:COSTLIEST]),
        key=lambda one: -one["regret"],
    )


def sequence_tree(shown: Shown, peak_units: float, machines: Machines) -> dict[str, Any]:
    """All that the page shows of a sequence; `peak_units`: of the scenario. Requests are at most a whole machine, as
    schedulers take them."""
    drawn, s = shown.sequences, shown.number
    length = drawn.length[s]
    runs = np.arange(drawn.demand.shape[2]) < length[:, None]
    ages = np.arange(drawn.demand.shape[2] + 1) <= length[:, None]
    demand = drawn.demand[s][runs]
    return {
        "workloads": {
            "name": [shortened(str(name)) for name in drawn.workload_id[s]],
            "source": [shortened(str(name)) for name in drawn.source_workload[s]],
            "arrival": drawn.arrival[s],
            "length": length,
            "offset": np.concatenate([[0], length.cumsum()]),
            "demand": demand.astype(np.int64) if not (demand % 1).any() else demand,
            "request": np.minimum(drawn.request[s], machines.capacity.max(axis=0)).astype(np.float32),
            "label": drawn.label[s][ages],
        },
        "background": None if drawn.background is None else drawn.background[s],
        "forecast": _forecast(drawn, s, ages, peak_units),
        "episodes": [_episode(number, recording) for number, recording in enumerate(shown.recordings)],
    }


def _forecast(drawn: SequenceSet, s: int, ages: npt.NDArray[np.bool_], units: float) -> dict[str, Any] | None:
    """The largest demand expected in each segment ahead, as whole steps, and its variance."""
    if (table := drawn.forecast) is None or not np.isfinite(table.steps).all():
        return None
    resources = len(drawn.resources)
    every_age = len(ages) <= EVERY_AGE
    values = table.values[s][ages] if every_age else table.values[s][:, 0]
    columns = Forecast(np.arange(table.values.shape[3], dtype=np.float64), resources)
    most, spread = (part.astype(np.int64) for part in (columns.most, columns.spread))
    return {
        "segments": [list(segment) for segment in SEGMENTS],
        "step": float(table.steps[most[0, 0]]) * units,
        "step_variance": float(table.steps[spread[0, 0]]) * units**2,
        "every_age": every_age,
        "most": values[:, most],
        "spread": values[:, spread],
    }


def _episode(number: int, recording: Recording) -> dict[str, Any]:
    moved = recording.episode.moves is not None and len(recording.episode.moves) > 0
    return {
        "scheduler": number,
        "machine": recording.episode.machine,
        "start": recording.episode.start,
        **({"stays": recording.episode.stays()._asdict()} if moved else {}),
        "penalties": recording.penalties,
        "slot": recording.slot,
        "workload": recording.workload,
        "chosen": recording.chosen,
        "waiting": recording.waiting,
        "machines": recording.machines,
        "costs": recording.costs,
        "scores": recording.scores.astype(np.float32),
        "possible": recording.possible.astype(np.uint8),
        "why_none_is_costly": why_none_is_costly(recording),
    }
