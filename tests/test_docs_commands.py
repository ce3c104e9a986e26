"""Every command of the pages is understood, and begins.

Each is read by the parser of the command itself. Then it runs in a folder with small files of the names that the pages
use, as far as where the long work would start, or with `--dry-run` where it has that.
"""

from __future__ import annotations

import importlib.util
import re
import runpy
import shutil
import sys
from collections.abc import Iterator
from functools import wraps
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import tyro

from tests.documented_commands import ROOT, Command, documented, of_block, of_code, of_page
from tests.reader_folder import fill
from tvwrl.commands.dispatch import HELP, HELP_ALL, dispatch
from tvwrl.commands.parsing import Line, line_of
from tvwrl.envs.problem import Problem
from tvwrl.traces import write_trace
from tvwrl.traces.catalogue import trace_identity
from tvwrl.types import InputError, Trace

EVERY = {command.words: command for command in reversed(documented())}  # the first place of each
TVWRL = [one for words, one in sorted(EVERY.items()) if words[0] == "tvwrl"]
SCRIPTS = [one for words, one in sorted(EVERY.items()) if words[0] == "python"]
MAKE = [one for words, one in sorted(EVERY.items()) if words[0] == "make"]
LONG = (  # where long work starts
    "tvwrl.agents.checkpoint.Checkpoint.problem",
    "tvwrl.agents.exporting.exported.load_exported",
    "tvwrl.benchmark.command.check_submission",
    "tvwrl.benchmark.command.trace_of",
    "tvwrl.benchmark.comparison.compare",
    "tvwrl.ec.fitting.compare",
    "tvwrl.ec.classes.EquivalenceClasses.load",
    "tvwrl.envs.problem.Problem.build",
    "tvwrl.experiments.cell_options.complete",
    "tvwrl.experiments.exploring.explore_command.complete",
    "tvwrl.experiments.place_command.run_planners",
    "tvwrl.experiments.provision_command.run_planners",
    "tvwrl.agents.exporting.export.export_policy",
    "tvwrl.interference.score.InterferenceScore.load",
    "tvwrl.interference.fitting.train_on_batch_tasks",
    "tvwrl.lrasched.sizing._from_simulation",
    "tvwrl.serve.service.Service.run",
    "tvwrl.traces.preparation.options.prepare",
    "tvwrl.what_if.command.read_csv_record",
    "socket.getaddrinfo",
)


class Began(BaseException):
    """The long work would start now. No `except Exception` on the way may take it for a fault."""


ELSEWHERE = {  # what cannot begin here -> why
    "--schedulers fewest,spread": "CONTRIBUTING.md has just shown how to write that scheduler",
    "--instance FILE --times 98": "it needs the contest's data",
    "tianchi.zip --times 98": "it needs the contest's data",
}
DRY = ("reproduce", "benchmark", "tune", "forecast")
THERE = {r"^FILE$|^TClab_2D.csv.gz$": "applications.csv"}


def began(*_: Any, **__: Any) -> None:
    raise Began


def title(command: Command) -> str:
    return " ".join(command.words)[:100]


@pytest.mark.parametrize("command", TVWRL, ids=title)
def test_a_command_is_understood(command: Command) -> None:
    line = line_of(command.words[1:]) if command.words[1:2] and command.words[1] not in HELP else None
    if line is None or {HELP_ALL, *HELP} & set(line.words):
        return
    if not line.complete:
        assert command.in_sentence, command
        return
    unknown = [word for word in options_of(command) if word not in known(line)]
    assert not unknown, f"{command}: {line.title} has no {unknown}"
    try:
        line.parsed()
    except InputError as error:
        assert in_part(command, error), f"{command}: {error}"


def options_of(command: Command) -> list[str]:
    return [re.split("=|\\.\\.\\.", word)[0] for word in command.words if word.startswith("--")]


def known(line: Line) -> set[str]:
    return {name for action in line.parser()._actions for name in action.option_strings}


def in_part(command: Command, error: InputError) -> bool:
    """Whether a sentence only names a command, or an option, without what it needs."""
    return command.in_sentence and re.search(r" needs (a value|[A-Z-])", str(error)) is not None


def elsewhere(command: Command) -> bool:
    return any(part in command.text for part in ELSEWHERE)


@pytest.fixture(scope="module")
def folder(problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a reader of the pages might be; no long work begins in it."""
    here = tmp_path_factory.mktemp("reader")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TVWRL_DATA", str(here / "data"))
        patch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        patch.chdir(here)
        fill(here, problem)
        for place in LONG:
            patch.setattr(place, began)
        yield here


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", [one for one in TVWRL if one.whole and not elsewhere(one)], ids=title)
def test_a_command_begins(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = list(command.words[1:])
    for pattern, there in THERE.items():
        words = [re.sub(pattern, there, word) for word in words]
    name, out = words[0], str(tmp_path / "new")
    if "--out" in words:
        words[words.index("--out") + 1] = out  # what its examples write to may be what others read
    elif name == "prepare":
        words += ["--out", out]
    if name in DRY and "--dry-run" not in words:
        words += ["--dry-run"]
    monkeypatch.setattr(sys, "argv", ["tvwrl", *words])
    try:
        assert not dispatch(words), command
    except Began:
        pass
