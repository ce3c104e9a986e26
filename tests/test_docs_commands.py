"""Every command of the pages is understood, and begins.

Each is read by the parser of the command itself. Then it runs in a folder with small files of the names that the pages
use, as far as where the long work would start, or with `--dry-run` where it has that.
"""

from __future__ import annotations

import importlib.util
import re
import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import tyro

from tests.documented_commands import ROOT, Command, documented, of_block, of_code, of_page
from tests.reader_folder import Began, reader_in
from tvwrl.cli.dispatch import HELP, HELP_ALL, Line, dispatch, line_of
from tvwrl.envs.problem import Problem
from tvwrl.types import InputError

EVERY = {command.words: command for command in reversed(documented())}  # the first place of each
TVWRL = [one for words, one in sorted(EVERY.items()) if words[0] == "tvwrl"]
SCRIPTS = [one for words, one in sorted(EVERY.items()) if words[0] == "python"]
MAKE = [one for words, one in sorted(EVERY.items()) if words[0] == "make"]
ELSEWHERE = {  # what cannot begin here -> why
    "train --moves": "it makes its folder before it prepares anything",
    "--seeds 5 --workers 2": "it makes its folder before it prepares anything",
    "--forecaster runs/forecaster/forecaster.json --split time": "it needs what the command before it fits",
    "--schedulers fewest,spread": "CONTRIBUTING.md has just shown how to write that scheduler",
    "--instance FILE --times 98": "it needs the contest's data",
    "tianchi.zip --times 98": "it needs the contest's data",
}
DRY = ("reproduce", "benchmark", "tune", "forecast")
THERE = {r"^FILE$|^TClab_2D.csv.gz$": "applications.csv"}


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
    if refused := refusal_of(line):  # a sentence may name an option without what it needs
        assert command.in_sentence, f"{command}: {refused}"
        assert re.search(r" needs (a value|[A-Z-])", refused), f"{command}: {refused}"
        known = {name for action in line.parser()._actions for name in action.option_strings}
        assert {word for word in line.words if word.startswith("--")} <= known, command


def refusal_of(line: Line) -> str:
    """Why the options are refused, "" if they are not."""
    try:
        line.parsed()
    except InputError as error:
        return str(error)
    return ""


def elsewhere(command: Command) -> bool:
    return any(part in command.text for part in ELSEWHERE)


@pytest.fixture(scope="module")
def folder(problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where a reader of the pages might be; no long work begins in it."""
    with reader_in(tmp_path_factory.mktemp("reader"), problem) as here:
        yield here


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", [one for one in TVWRL if one.whole and not elsewhere(one)], ids=title)
def test_a_command_begins(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = list(command.words[1:])
    if "--config" in words:
        words = [re.sub("^FILE$", "mine.yaml", word) for word in words]
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
    with suppress(Began):
        assert not dispatch(words), command
        return
    assert not (tmp_path / "new").exists(), command


@pytest.mark.parametrize("command", SCRIPTS, ids=title)
def test_a_script_understands_its_options(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what reads options by hand, or has none, only the file is looked for."""
    if command.words[1] in ("-m", "-X"):
        module = command.words[2] if command.words[1] == "-m" else "importtime"
        assert module == "importtime" or importlib.util.find_spec(module), command
        return
    script = ROOT / command.words[1]
    source = script.read_text(encoding="utf-8")
    if "tyro" not in source:
        assert not any(word.startswith("-") for word in command.words), command
        return
    monkeypatch.setattr(sys, "argv", [str(script), *command.words[2:]])
    monkeypatch.syspath_prepend(str(script.parent))
    monkeypatch.setattr(tyro, "cli", parsing(tyro.cli))
    monkeypatch.setattr(tyro.extras, "subcommand_cli_from_dict", parsing(tyro.extras.subcommand_cli_from_dict))
    with pytest.raises(Began):
        runpy.run_path(str(script), run_name="__main__")


def parsing(cli: Callable[..., Any]) -> Callable[..., Any]:
    """tyro's function that reads the words as ever, but calls nothing with them."""

    def idle(function: Callable[..., Any]) -> Callable[..., Any]:
        return function if isinstance(function, type) else wraps(function)(lambda *_, **__: None)

    def read(what: Any, **options: Any) -> None:
        cli({name: idle(one) for name, one in what.items()} if isinstance(what, dict) else idle(what), **options)
        raise Began

    return read


@pytest.mark.parametrize("command", MAKE, ids=title)
def test_make_has_the_target(command: Command) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for word in command.words[1:]:
        name, given, _ = word.partition("=")
        assert re.search(rf"^(export )?{name} *\?=" if given else rf"^{name}:", makefile, re.M), f"{command}: {word}"


def test_commands_are_found_in_blocks_sentences_and_docstrings() -> None:
    block = "make install && source x\nfor t in a b; do\n    tvwrl train --trace $t  # why\ndone\n"
    block += "N=1 tvwrl size \\\n  --goal 1"
    assert list(of_block(block)) == ["make install", "tvwrl train --trace a", "tvwrl size --goal 1"]
    page = "With `tvwrl\nsize`, not ``tvwrl``:\n\n```\ntvwrl place\n```\n\n```python\nmake = 1\n```\n"
    assert list(of_page(page)) == [("tvwrl place", False), ("tvwrl size", True)]
    code = '''"""Film it: python examples/a.py --run x 3.\n\npython scripts/b.py (see c)."""'''
    assert list(of_code(code)) == ["python examples/a.py --run x 3", "python scripts/b.py"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tvwrl trian", "no subcommand 'trian'"),
        ("tvwrl train --lod 0.5", "no option '--lod'"),
        ("tvwrl train --load much", "--load is 'much'"),
        ("tvwrl reproduce fig44", "no figure 'fig44'"),
    ],
)
def test_a_wrong_command_would_be_found(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        line_of(Command("a.md", text, False).words[1:]).parsed()
