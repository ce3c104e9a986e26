"""Forecaster files: a fitted forecaster as JSON, with what it was fitted for, so that it is used for nothing else."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tvwrl.forecasting.base import Forecaster
from tvwrl.forecasting.network import NetworkForecaster
from tvwrl.runs import write_json
from tvwrl.traces import SequenceSampler, trace_hash
from tvwrl.types import InputError

FORMAT = 3  # 3: with a digest
FILE = "forecaster.json"
AGAIN = "fit a new one with tvwrl forecast"


def purpose_of(sampler: SequenceSampler) -> dict[str, Any]:
    """What a forecaster must have been fitted for to forecast the windows of a sampler, field by field."""
    trace, scenario = sampler.trace, sampler.scenario
    return {
        "trace": {"name": trace.name, "hash": trace_hash(trace)},
        "resources": list(trace.resources),
        "step_seconds": scenario.step_seconds,
        "peak_units": scenario.peak_units,
        "quantise": scenario.quantise,
        "sample": scenario.sample,
        "own_past": scenario.own_past,
        "split": scenario.split,
        "unit": [float(value) for value in sampler.unit],
    }


def write_forecaster(path: Path, forecaster: Forecaster, sampler: SequenceSampler) -> None:
    """Write a fitted forecaster to a file, whole or not at all.

    Parameters
    ----------
    path : Path
        The file.
    forecaster : Forecaster
        The forecaster.
    sampler : SequenceSampler
        What it was fitted for.

    Raises
    ------
    InputError
        For a forecaster that cannot be saved.

    Examples
    --------
    >>> write_forecaster(Path("forecaster.json"), forecaster, problem.sampler)  # doctest: +SKIP
    """
    content = forecaster.to_dict()
    made = {"format": FORMAT, "made_for": purpose_of(sampler), "sha256": _digest(content), "forecaster": content}
    write_json(path, made)


def forecaster_file(path: Path) -> Path:
    """The file that a path stands for: `forecaster.json` in a folder."""
    return path / FILE if path.is_dir() else path


def read_forecaster(path: Path, sampler: SequenceSampler) -> Forecaster:
    """Read a forecaster from a file, of which no code runs.

    Parameters
    ----------
    path : Path
        The file, or the folder of a `forecaster.json`.
    sampler : SequenceSampler
        What is to be forecast.

    Returns
    -------
    Forecaster
        The forecaster.

    Raises
    ------
    InputError
        For a file that is missing, damaged, of another format, or made for another trace, unit, length of a slot, split
        or scale of demand: it names the field with both values.

    Examples
    --------
    >>> forecaster = read_forecaster(Path("forecaster.json"), problem.sampler)  # doctest: +SKIP
    """
    path = forecaster_file(path)
    content = _content(path)
    try:
        made, needed = {"own_past": False} | dict(content["made_for"]), purpose_of(sampler)
        other = [
            f"{field} {_shown(made[field])}, but here it is {_shown(asked)}"
            for field, asked in needed.items()
            if made[field] != asked
        ]
        if other:
            raise InputError(f"{path} was made for {'; for '.join(other)}: {AGAIN}")
        if _digest(content["forecaster"]) != content["sha256"]:
            raise ValueError("its forecaster is not what was written")
        forecaster = NetworkForecaster.from_dict(content["forecaster"])
        own = {
            "resources": (forecaster.resources_, len(needed["resources"])),
            "peak_units": (forecaster.peak_units, needed["peak_units"]),
            "step_seconds": (forecaster.step_seconds, needed["step_seconds"]),
        }
        for field, (found, said) in own.items():
            if found != said:
                raise ValueError(f"it forecasts with {field} {found}, but says that it was made for {said}")
    except InputError:
        raise
    except Exception as error:  # whatever a damaged file leads to
        raise InputError(f"{path} is damaged: {type(error).__name__} {error}; {AGAIN}") from None
    return forecaster


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"no forecaster file {path}: {error.strerror}; make one with tvwrl forecast") from None
    except ValueError:
        raise InputError(f"{path} is not a forecaster file: it is not JSON, or was cut off") from None
    found = content.get("format") if isinstance(content, dict) else None
    if found != FORMAT or not isinstance(content, dict):
        raise InputError(f"{path} is not a forecaster file of format {FORMAT} (format: {found}); {AGAIN}")
    return content


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _shown(value: Any) -> str:
    """A value of a field in a message; of a trace, its name and the beginning of its digest."""
    if isinstance(value, dict):
        return f"'{value.get('name')}' (content {str(value.get('hash'))[:12]})"
    if isinstance(value, list):
        return ", ".join(f"{part:.4g}" if isinstance(part, float) else str(part) for part in value)
    return str(value)
