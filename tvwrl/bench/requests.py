"""Whether a file says of what lies beside it that it was made as is asked for now, or names what differs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tvwrl.agents.config import TrainConfig
from tvwrl.simulation.scenario import Scenario
from tvwrl.types import InputError


def check_request(file: Path, asked: Mapping[str, Any], remedy: str = "give another --out") -> None:
    """Raises InputError with the fields of `asked` that the JSON file gives another value, and both values.

    Only what is asked is compared. A `config` (of `TrainConfig`) or `scenario` may lack fields that came later: they
    count as their defaults. No file, no difference. `remedy`: what the error tells to do.
    """
    if not file.is_file():
        return
    try:
        made = json.loads(file.read_text())
        if "config" in made:
            made["config"] = TrainConfig.from_dict(made["config"]).to_dict()
        if "scenario" in made:
            made["scenario"] = asdict(Scenario(**made["scenario"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{file} is damaged or of another version: {error}") from error
    if found := ", ".join(_differences(made, asked)):
        raise InputError(f"{file.parent} was made from another request: {found}; {remedy}")


def _differences(made: Mapping[str, Any], asked: Mapping[str, Any], within: str = "") -> Iterator[str]:
    """`field is A there, here B`, dots between the names of fields within fields."""
    for name, wanted in asked.items():
        found = made.get(name)
        if isinstance(wanted, Mapping) and isinstance(found, Mapping):
            yield from _differences(found, wanted, f"{within}{name}.")
        elif found != wanted:
            yield f"{within}{name} is {found} there, here {wanted}"
