"""TVW-RL and relatives: placement of long-running workloads whose resource usage changes over time.

Importing it registers `tvwrl/Placement-v0` and the tasks of the benchmark (`TASK_NAMES`) with Gymnasium; everything
heavy is imported where it is used. `tvwrl.compare` and `tvwrl.submit` come from `tvwrl.benchmark`
(docs/how-to/enter-the-benchmark.md).
"""

from importlib import import_module
from typing import Any

from tvwrl.registration import register_environments

__version__ = "0.1.0"

TASK_NAMES = tuple(  # TRACE-LOAD-VERSION or TRACE-LOAD-VARIANT-VERSION; tvwrl.benchmark.tasks defines each
    f"{trace}-{kind}-v0"
    for trace in ("google", "google2011", "google2019", "tianchi", "bitbrains")
    for kind in ("0.3", "0.5", "0.8", "0.5-burst", "0.5-delay", "0.5-large")
)
_ENTRANCES = {"compare": "tvwrl.benchmark.comparison", "submit": "tvwrl.benchmark.submission"}

register_environments(TASK_NAMES)


def __dir__() -> list[str]:
    """The names that are here, and those that `__getattr__` imports."""
    return sorted({*globals(), *_ENTRANCES})


def __getattr__(name: str) -> Any:
    """Import `compare` and `submit` on first use."""
    if name not in _ENTRANCES:
        raise AttributeError(f"module 'tvwrl' has no attribute '{name}'")
    return getattr(import_module(_ENTRANCES[name]), name)
