"""The command line: which subcommand is meant, what help shows, and that none of it imports what the work needs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any, get_type_hints

import pytest

from tvwrl import papers
from tvwrl.commands.dispatch import dispatch
from tvwrl.commands.help import long_help, overview, short_help
from tvwrl.commands.parsing import Line, line_of, members_of
from tvwrl.commands.table import COMMANDS, Command
from tvwrl.types import InputError


def first_of(command: Command) -> Line:
    """A command that is complete."""
    member = next(iter(chain.from_iterable(members_of(command).values()))) if command.family else ""
    return Line(command, member, ())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_that_people_use_are_options(name: str) -> None:
    command = COMMANDS[name]
    members = list(chain.from_iterable(members_of(command).values())) if command.family else [""]
    known = {field for member in members for field in _fields(Line(command, member, ()).settings())}
    assert set(command.often) <= known


def _fields(kind: Any) -> set[str]:
    """Names of the fields of a dataclass, and of the dataclasses in it."""
    found = set()
    for field in fields(kind):
        inner = get_type_hints(kind)[field.name]
        found |= _fields(inner) if is_dataclass(inner) else {field.name}
    return found


def test_tvwrl_alone_lists_every_subcommand(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch([]) == 0
    printed = capsys.readouterr().out
    assert printed.strip() == overview()
    for command in COMMANDS.values():
        assert f"\n  {command.name} " in printed


def test_reproduce_lists_figures_by_paper(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["reproduce"]) == dispatch(["reproduce", "--help"]) == 0
    printed = capsys.readouterr().out
    assert "\nTVW-RL paper:\n  fig4 " in printed
    assert "\nPISM paper:\n" in printed


def test_a_family_without_a_member_does_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["reproduce", "--out", "somewhere"]) == 2


@pytest.mark.parametrize("paper", papers.PAPERS)
def test_titles_are_those_of_the_figures(paper: str) -> None:
    titles = papers._titles_of(paper)
    listed = papers.titles()[titles.PAPER]
    assert {name: papers.command(name).__name__.replace("_", "-") for name in listed} == {name: name for name in listed}
    figures = sys.modules[f"tvwrl.papers.{paper}.figures"]
    assert set(figures.COMMANDS) == set(listed)


def test_short_help_shows_few_options_and_how_to_see_the_rest() -> None:
    line = line_of(["train", "--help"])
    short, every = short_help(line), long_help(line)
    assert 8 <= sum(text.startswith("  --") for text in short.splitlines()) <= 12
    assert "`tvwrl train --help-all` shows all 8" in short
    assert "--gae-lambda" in every
    assert "--gae-lambda" not in short
    assert "\nenvironment:\n" in every


def test_help_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    for text in (overview(), short_help(first_of(COMMANDS["reproduce"])), short_help(line_of(["completion"]))):
        long = [line for line in text.splitlines() if len(line) > 40]
        assert all(len(line.split()) == 1 for line in long)  # what cannot be broken


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "no subcommand 'trian': did you mean train?"),
        (["zzz"], "tvwrl has no subcommand 'zzz': `tvwrl` lists all"),
        (["reproduce", "pism-fg12"], r"tvwrl reproduce has no choice 'pism-fg12': did you mean .*pism-fig12"),
        (["prepare", "google"], "did you mean google2019 or google2011"),
    ],
)
def test_misspelt_words_have_near_matches(words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dispatch(words)


@pytest.mark.parametrize("subcommand", [[], ["train"]])
def test_the_word_help_is_the_option(subcommand: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["help", *subcommand]) == 0
    said = capsys.readouterr().out
    assert dispatch([*subcommand, "--help"]) == 0
    assert said == capsys.readouterr().out


def test_a_misspelt_option_has_near_matches(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        dispatch(["train", "--trase", "google"])
    assert left.value.code == 2
    assert "--trace" in capfd.readouterr().err


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["--version"]) == 0
    assert capsys.readouterr().out.startswith("tvwrl ")


def test_help_of_no_subcommand_imports_torch() -> None:
    """All in one process, as each would import nearly the same."""
    code = """
import sys
from tests.commands.test_dispatch import COMMANDS, first_of, long_help
from tvwrl import papers
for command in COMMANDS.values():
    assert long_help(first_of(command)).startswith("usage: tvwrl " + command.name)
for name in [names for names in papers.titles().values()]:
    papers.command(next(iter(name)))
print([name for name in ("torch", "tensorboard", "matplotlib", "sklearn", "ray", "optuna") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_the_overview_needs_next_to_nothing() -> None:
    code = "import sys; from tvwrl.commands.dispatch import dispatch; dispatch(['reproduce']); print([*sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in ("torch", "numba", "polars", "tyro"):
        assert f"'{name}'" not in done.stdout
