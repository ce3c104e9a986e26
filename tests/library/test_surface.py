"""The public names: those of `__all__` here and in every room exist, are described, and stay few."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
from types import ModuleType

import numpy as np
import pytest

import tvwrl

ROOMS = [room.name for room in pkgutil.iter_modules(tvwrl.__path__) if room.ispkg and room.name != "library"]
PACKAGES = [tvwrl, *(importlib.import_module(f"tvwrl.{room}") for room in ROOMS)]
NAMES = [(package.__name__, name) for package in PACKAGES for name in package.__all__]
CALLABLE = [
    (where, name)
    for where, name in NAMES
    if callable(found := getattr(importlib.import_module(where), name)) and found.__module__.startswith("tvwrl")
]


def public(where: str, name: str):
    return getattr(importlib.import_module(where), name)


def parameters(found) -> list[str]:
    """Those of a function that its docstring has to explain."""
    return [name for name in inspect.signature(found).parameters if name not in ("self", "cls")]


def mentioned(name: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def test_what_is_public_is_listed():
    assert [set(package.__all__) - set(dir(package)) for package in PACKAGES] == [set()] * len(PACKAGES)


def test_every_room_says_what_it_is_for_and_names_what_it_exports():
    assert [package.__name__ for package in PACKAGES if not (package.__doc__ and package.__all__)] == []


@pytest.mark.parametrize(("where", "name"), NAMES)
def test_a_public_name_exists_and_is_not_hidden_by_a_module(where, name):
    found = public(where, name)
    assert isinstance(found, ModuleType) == (where == "tvwrl" and name in ROOMS)


@pytest.mark.parametrize(("where", "name"), CALLABLE)
def test_a_public_function_explains_its_arguments(where, name):
    found = public(where, name)
    text = inspect.getdoc(found) or ""
    assert text, "no docstring"
    if inspect.isfunction(found):
        assert [one for one in parameters(found) if not mentioned(one, text)] == []


@pytest.mark.parametrize(("where", "name"), CALLABLE)
def test_examples_of_public_names_are_right(where, name):
    found = public(where, name)
    names = {"tvwrl": tvwrl, "np": np} | vars(importlib.import_module(found.__module__))
    runner = doctest.DocTestRunner(optionflags=doctest.IGNORE_EXCEPTION_DETAIL)
    for test in doctest.DocTestFinder(recurse=False).find(found, name, globs=names):
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0


def test_what_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="evalute"):
        tvwrl.evalute  # noqa: B018
