"""Modules that are imported when they are first used: some take longer than all that most callers need."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any


class _Deferred(ModuleType):
    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self.__name__), name)
        setattr(self, name, found)
        return found


def deferred(name: str) -> Any:
    """What stands for a module, and imports it when something of it is asked for; from several threads too.

    >>> deferred("math").floor(2.5)
    2
    """
    return _Deferred(name)
