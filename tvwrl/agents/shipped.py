"""Agents that come with the package, so that nobody has to train one first. Needs no PyTorch to schedule.

Each is an exported policy (`.onnx`), its model card (`.md`) and its weights to start a training from (`.pt`), all made
by `benchmarks/ship_agents.py`.
"""

from __future__ import annotations

from pathlib import Path

from tvwrl.agents.exported import ExportedPolicy, load_exported
from tvwrl.checks import hint
from tvwrl.types import InputError

SHIPPED = "shipped:"  # before a name where a file may stand
FOLDER = Path(__file__).with_name("models")
SCHEDULES, STARTS = ".onnx", ".pt"


def shipped_agents() -> list[str]:
    """Names of the agents that come with the package.

    Returns
    -------
    list[str]
        In order.

    Examples
    --------
    >>> "google" in shipped_agents()
    True
    """
    return sorted(file.stem for file in FOLDER.glob(f"*{SCHEDULES}"))


def is_shipped(path: str | Path) -> bool:
    """Whether this is shipped:NAME and no path."""
    return str(path).startswith(SHIPPED)


def located(path: str | Path, suffix: str = SCHEDULES) -> Path:
    """The file of shipped:NAME with this ending; any other path as it is.

    Raises InputError for a name that there is not.
    """
    if not is_shipped(path):
        return Path(path)
    name = str(path).removeprefix(SHIPPED)
    if name not in shipped_agents():
        raise InputError(f"no agent '{name}' comes with this package: {hint(name, shipped_agents(), list_all=True)}")
    return FOLDER / f"{name}{suffix}"


def load(name: str) -> ExportedPolicy:
    """Load an agent that comes with the package.

    Parameters
    ----------
    name : str
        One of `shipped_agents()`, as `google`: named after the trace that it was trained on.

    Returns
    -------
    ExportedPolicy
        A scheduler; its `facts` say what it was trained on, and its model card is beside the file.

    Raises
    ------
    InputError
        If there is none of that name, or onnxruntime is missing.

    Examples
    --------
    >>> load("google").knowledge.group
    'demand forecasts'
    """
    return load_exported(located(SHIPPED + name.removeprefix(SHIPPED)))
