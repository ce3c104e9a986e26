"""The command line: which subcommand is meant, what help shows, and that none of it imports what the work needs."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from itertools import chain
from typing import Any, get_type_hints

import pytest

from tvwrl import papers
from tvwrl.cli.dispatch import Line, dispatch, line_of, members_of
from tvwrl.cli.help import long_help, overview, short_help
from tvwrl.cli.table import COMMANDS, Command
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
def test_every_figure_has_a_command(paper: str) -> None:
    listed = papers.titles()[papers.PAPERS[paper].name]
    assert {name: papers.command(name).__name__.replace("_", "-") for name in listed} == {name: name for name in listed}


def test_options_that_are_inherited_stand_in_the_groups_of_their_classes():
    every = long_help(line_of(["rebalance"]))
    titles = re.findall(r"^(\w[^:\n]*):$", every, re.MULTILINE)
    assert titles[:5] == [
        "what to do",
        "reading the cluster",
        "what may move",
        "goal, and prices",
        "budgets of evictions",
    ]
    assert "options" not in titles
    assert every.index("budgets of evictions:") < every.index("--hourly-per-node") < every.index("when to stop:")


def test_short_help_shows_few_options_and_how_to_see_the_rest() -> None:
    line = line_of(["train", "--help"])
    short, every = short_help(line), long_help(line)
    assert 8 <= sum(text.startswith("  --") for text in short.splitlines()) <= 12
    assert re.search("`tvwrl train --help-all` shows all [89][0-9]", short)
    assert "--gae-lambda" in every
    assert "--gae-lambda" not in short
    assert "\nenvironment:\n" in every


@pytest.mark.parametrize("name", COMMANDS)
def test_short_help_is_short(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert len(short_help(first_of(COMMANDS[name])).splitlines()) <= 45


def test_evaluate_lists_schedulers_by_what_they_know(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["evaluate", "--list-schedulers"]) == 0
    printed = capsys.readouterr().out
    assert "the whole future:\n  clairvoyant, hindsight, peak-oracle.\n" in printed
    assert "\nrollout(BASE+policy)=RUN\n" in printed
    assert not [line for line in printed.splitlines() if line.strip() == "."]  # a group that is empty


def test_help_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    for text in (overview(), short_help(first_of(COMMANDS["reproduce"])), short_help(line_of(["doctor"]))):
        long = [line for line in text.splitlines() if len(line) > 40]
        assert all(len(line.split()) == 1 for line in long)  # what cannot be broken


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["trian"], "no subcommand 'trian': did you mean train?"),
        (["zzz"], "tvwrl has no subcommand 'zzz': `tvwrl` lists all"),
        (["reproduce", "pism-fg12"], r"there is no figure 'pism-fg12': did you mean .*pism-fig12"),
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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("train --trase google", "tvwrl train has no option '--trase': did you mean --trace?"),
        ("train --hlep", "tvwrl train has no option '--hlep': did you mean --help?"),
        ("train --zzz=3", "tvwrl train has no option '--zzz': `tvwrl train --help-all` shows all options"),
        ("train extra", "tvwrl train has no argument 'extra': `tvwrl train --help-all` shows all options"),
        ("train --machines -3", "machines is -3: must be at least 1"),
        ("train --machines three", "--machines is 'three': must be a whole number"),
        ("evaluate --loads 0.3,half", "--loads is '0.3,half': must be numbers with commas between them"),
        (
            "reproduce fig4 --preset smok",
            "--preset is 'smok': did you mean smoke? It must be one of smoke, medium, paper",
        ),
        ("train --trace", "--trace needs a value: `tvwrl train --help` shows which kind"),
        ("provision --machine 8 8", "tvwrl provision needs --instance"),
        ("train --iterations 5 --iterations x", "--iterations is 'x': must be a whole number"),
        ("train --train_sequences=x", "--train-sequences is 'x': must be a whole number"),
        (
            "provision --instance x --machines-file f --machine a,b",
            "--machine is 'a,b': must be numbers with commas between them",
        ),
    ],
)
def test_a_bad_option_is_one_line(words: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError) as refused:
        dispatch(words.split())
    assert str(refused.value) == message
    assert capfd.readouterr() == ("", "")


def test_of_an_option_that_is_given_twice_the_last_one_counts_also_for_the_preset() -> None:
    twice = line_of(["train", "--preset", "smoke", "--preset=paper"]).parsed()
    assert twice == line_of(["train", "--preset", "paper"]).parsed()


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["--version"]) == 0
    assert capsys.readouterr().out.startswith("tvwrl ")


def test_help_of_no_subcommand_imports_what_takes_long() -> None:
    """All in one process, as each would import nearly the same."""
    code = """
import sys
from tests.cli.test_dispatch import COMMANDS, first_of, long_help
from tvwrl import papers
for command in COMMANDS.values():
    assert long_help(first_of(command)).startswith("usage: tvwrl " + command.name)
for name in [names for names in papers.titles().values()]:
    papers.command(next(iter(name)))
heavy = ("torch", "tensorboard", "matplotlib", "sklearn", "ray", "optuna", "numba")
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr


def test_the_overview_needs_next_to_nothing() -> None:
    code = "import sys; from tvwrl.cli.dispatch import dispatch; dispatch(['reproduce']); print([*sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in ("torch", "numba", "polars", "tyro"):
        assert f"'{name}'" not in done.stdout
