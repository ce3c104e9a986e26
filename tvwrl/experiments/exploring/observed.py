"""What the schedulers of an evaluation saw, so that its episodes can be played again without the trace.

`observed.npz` holds the first sequences of every load as arrays: arrivals, demand, requests, labels, forecasts and
background load. Names of workloads are in episodes.parquet. A scheduler that observes other things than the rest of the
evaluation, as a policy with classes of its own does, has sequences of its own.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tvwrl.runs import whole_file
from tvwrl.simulation import Scenario
from tvwrl.types import Float, ForecastTable, InputError, SequenceSet, Strings

OBSERVED = "observed.npz"
VERSION = 1
MOST_SEQUENCES, MOST_WORKLOADS = 30, 12_000  # of a load that are kept, together in all sequences
ABOUT = "about"  # name of the array that holds what is no array, as the bytes of a JSON text


@dataclass(frozen=True, eq=False)
class Observed:
    """Sequences as some schedulers of an evaluation saw them."""

    schedulers: tuple[str, ...]
    sequences: SequenceSet
    scenario: Scenario
    seed: int  # of the evaluation


def write_observed(file: Path, parts: Sequence[Observed]) -> None:
    """Write the first sequences of each part, at most `MOST_SEQUENCES` of at most `MOST_WORKLOADS` workloads."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    about = []
    for number, part in enumerate(parts):
        drawn = part.sequences
        about.append(
            {
                "schedulers": list(part.schedulers),
                "scenario": asdict(part.scenario),
                "seed": part.seed,
                "resources": list(drawn.resources),
                "classes": drawn.classes,
                "load": float(drawn.load),
            }
        )
        arrays |= {f"{number}/{name}": content for name, content in _arrays(drawn).items()}
    text = json.dumps({"version": VERSION, "parts": about}).encode()
    with whole_file(file) as partial, partial.open("wb") as out:
        np.savez_compressed(out, allow_pickle=False, **{ABOUT: np.frombuffer(text, np.uint8)}, **arrays)


def _arrays(drawn: SequenceSet) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a part by name; those by age only as far as each workload runs, which halves them."""
    workloads = drawn.arrival.shape[1]
    first = slice(0, min(MOST_SEQUENCES, max(1, MOST_WORKLOADS // max(1, workloads))))
    length = drawn.length[first]
    runs = np.arange(drawn.demand.shape[2] + 1) <= length[..., None]  # (S, N, L + 1), with the age 0
    found: dict[str, npt.NDArray[Any]] = {"label": drawn.label[first][runs]}
    demand = drawn.demand[first][runs[..., 1:]]
    whole = not (demand % 1).any() and demand.max(initial=0) < 2**16
    found["demand"] = demand.astype(np.uint16) if whole else demand
    for name in ("source_slot", "arrival", "length", "request"):
        found[name] = getattr(drawn, name)[first]
    if drawn.request_factor is not None:
        found["request_factor"] = drawn.request_factor
    if drawn.background is not None:
        found["background"] = drawn.background[first]
    if (table := drawn.forecast) is not None:
        found |= {"forecast": table.values[first][runs], "steps": table.steps, "peaks": table.peaks}
    return found


def read_observed(folder: Path, names: Mapping[tuple[float, int], tuple[Strings, Strings]]) -> list[Observed]:
    """The parts of the evaluation in a folder; `names`: (load, sequence) -> workload_id and source_workload (N,).

    Raises InputError if the file is missing, damaged or of another version.
    """
    file = folder / OBSERVED
    if not file.is_file():
        raise InputError(
            f"{file} is missing: the evaluation was made by an earlier version, or as part of a study; evaluate again "
            "with tvwrl evaluate or tvwrl.evaluate"
        )
    try:
        with np.load(file, allow_pickle=False) as content:
            about = json.loads(bytes(content[ABOUT]))
            if about["version"] != VERSION:
                raise InputError(f"{file} has version {about['version']}, this tvwrl reads {VERSION}: evaluate again")
            arrays = {name: content[name] for name in content.files}
        return [_part(part, number, arrays, names) for number, part in enumerate(about["parts"])]
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{file} is damaged ({type(error).__name__}): evaluate again") from error


def _part(
    about: Mapping[str, Any],
    number: int,
    arrays: Mapping[str, npt.NDArray[Any]],
    names: Mapping[tuple[float, int], tuple[Strings, Strings]],
) -> Observed:
    def of(name: str) -> npt.NDArray[Any] | None:
        return arrays.get(f"{number}/{name}")

    known = {field.name for field in fields(Scenario)}
    scenario = Scenario(**{name: value for name, value in about["scenario"].items() if name in known})
    length = arrays[f"{number}/length"]
    longest = int(length.max(initial=1))
    runs = np.arange(longest + 1) <= length[..., None]
    load = about["load"]
    ids = [names[load, sequence] for sequence in range(len(length))]

    def spread(content: npt.NDArray[Any], where: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
        whole = np.zeros((*where.shape, *content.shape[1:]), content.dtype)
        whole[where] = content
        return whole

    values = of("forecast")
    forecast = None
    if values is not None:
        forecast = ForecastTable(
            spread(values, runs), arrays[f"{number}/steps"], arrays[f"{number}/peaks"].astype(np.int64)
        )
    demand: Float = spread(arrays[f"{number}/demand"], runs[..., 1:]).astype(np.float64)
    sequences = SequenceSet(
        resources=tuple(about["resources"]),
        workload_id=np.array([workload for workload, _ in ids], object).reshape(length.shape),
        source_workload=np.array([source for _, source in ids], object).reshape(length.shape),
        source_slot=arrays[f"{number}/source_slot"],
        arrival=arrays[f"{number}/arrival"],
        length=length,
        demand=demand,
        request=arrays[f"{number}/request"],
        label=spread(arrays[f"{number}/label"], runs),
        classes=about["classes"],
        load=load,
        forecast=forecast,
        background=of("background"),
        request_factor=of("request_factor"),
    )
    return Observed(tuple(about["schedulers"]), sequences, replace(scenario, load=load), about["seed"])
