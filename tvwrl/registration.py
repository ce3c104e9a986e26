"""Registers environments with Gymnasium when that is imported, not before: it takes longer to import than we do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

GYMNASIUM = "gymnasium"


def register_environments(tasks: Sequence[str]) -> None:
    """Register `tvwrl/Placement-v0` and the tasks of the benchmark, now or once Gymnasium is imported."""
    if GYMNASIUM in sys.modules:
        _register(tasks)
    else:
        sys.meta_path.insert(0, _Waiting(lambda: _register(tasks)))


class _Waiting(MetaPathFinder):
    """Finds Gymnasium as it would be found anyway, and calls `then` when it has been loaded."""

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        """See `MetaPathFinder`; None for all modules but Gymnasium."""
        if name != GYMNASIUM or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        found = find_spec(name)
        if found is not None and found.loader is not None:
            execute = found.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self._then()

            found.loader.exec_module = exec_module  # type: ignore[method-assign]
        return found


def _register(tasks: Sequence[str]) -> None:
    from gymnasium.envs.registration import register, registry

    if "tvwrl/Placement-v0" in registry:
        return
    register(
        id="tvwrl/Placement-v0",
        entry_point="tvwrl.envs:PlacementEnv",
        vector_entry_point="tvwrl.envs:PlacementVectorEnv",
    )
    for task in tasks:
        register(
            id=f"tvwrl/{task}",
            entry_point="tvwrl.benchmark.environment:TaskEnv",
            vector_entry_point="tvwrl.benchmark.environment:TaskVectorEnv",
            kwargs={"task": task},
        )
