"""The options of all commands: one has one type everywhere, and docs/options.md lists them as they are.

`python tests/test_options.py` writes that page again.
"""

from __future__ import annotations

import argparse
import re
import runpy
import sys
import warnings
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import tyro

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "options.md"
HEAD = """# Options

Every option of every command in `scripts/`, with what it means in each; `tests/test_options.py` writes this page and
checks it. An option has one type and one meaning in all commands, and the same thing has the same option everywhere.
Lists (`INT,...`) take commas or spaces between their items, as in `--loads 0.3,0.5`; a comma in brackets is part of an
item. Pairs (`--columns`) take spaces. A plural (`--loads`, `--seeds`) is a list, the singular one value.
"""

Uses = dict[str, dict[str, tuple[str, str]]]  # option -> command -> type, help


@cache
def uses() -> Uses:
    """The options of all commands, from their parsers."""
    found: Uses = defaultdict(dict)
    for path in sorted((ROOT / "scripts").glob("*.py")):
        for command, parser in parsers(path).items():
            for action in parser._actions:
                if action.option_strings and not isinstance(action, argparse._HelpAction):
                    found[action.option_strings[0]][command] = type_of(action), meaning_of(action)
    return found


def parsers(path: Path) -> dict[str, argparse.ArgumentParser]:
    """Each command of a script with its parser; nothing is run."""
    found: dict[str, argparse.ArgumentParser] = {}

    class Parsed(Exception):
        pass

    def several(kinds: dict[str, Any], description: str = "", config: tuple[Any, ...] = (), **options: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, kind in kinds.items():
                found[f"{path.stem} {name}".strip()] = tyro.extras.get_parser(kind, config=config, **options)
        raise Parsed

    def one(kind: Any, **options: Any) -> None:
        several({"": kind}, **options)

    replaced = mock.patch.object(tyro, "cli", one), mock.patch.object(tyro.extras, "subcommand_cli_from_dict", several)
    with replaced[0], replaced[1], mock.patch.object(sys, "argv", [str(path)]), pytest.raises(Parsed):
        runpy.run_path(str(path), run_name="__main__")
    return found


def type_of(action: argparse.Action) -> str:
    """The type as --help shows it; whether there is a default makes no difference, nor do the choices of a name."""
    shown = re.sub(r"\{None\}\||None,", "", str(action.metavar))
    return "yes or no" if shown == "None" else shown


def meaning_of(action: argparse.Action) -> str:
    """The help without its default."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(action.help)).replace("%%", "%")
    return re.sub(r"\s*\((default: .*|required|repeatable)\)$", "", " ".join(text.split()), flags=re.DOTALL)


def shortened(commands: list[str]) -> str:
    """Commands with the subcommands of a script in brackets."""
    by_script: dict[str, list[str]] = defaultdict(list)
    for command in commands:
        script, _, name = command.partition(" ")
        by_script[script].append(name)
    parts = [f"`{script}`" + (f" ({', '.join(names)})" if names[0] else "") for script, names in by_script.items()]
    return ", ".join(parts)


def page() -> str:
    """docs/options.md."""
    lines = ["| option | type | meaning | commands |", "|---|---|---|---|"]
    for option, commands in sorted(uses().items()):
        meanings: dict[str, list[str]] = defaultdict(list)
        for command, (_, meaning) in commands.items():
            meanings[meaning].append(command)
        for meaning, own in meanings.items():
            cells = [f"`{option}`", commands[own[0]][0], meaning, shortened(own)]
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    return "\n".join([HEAD, *lines, ""])


def differ(kinds: set[str]) -> bool:
    """Whether types differ, where a command may offer fewer choices than another."""
    choices = [set(kind.strip("{}").split(",")) for kind in kinds if kind.startswith("{")]
    return len(kinds) > 1 and not (len(choices) == len(kinds) and max(choices, key=len) == set().union(*choices))


def test_an_option_has_one_type():
    types = {option: {kind for kind, _ in commands.values()} for option, commands in uses().items()}
    different = {option: kinds for option, kinds in types.items() if differ(kinds)}
    assert different.keys() == {"--per"}  # what a workload is: every trace has words of its own


# What these mean in a command is said in its own words: another default, another object of the same kind.
OWN_WORDS = {
    "--alibaba", "--bound-seconds", "--bounds", "--checkpoint", "--data", "--demand", "--device", "--earlier",
    "--entropy-bonus", "--episodes", "--epochs", "--gae-lambda", "--gamma", "--google", "--hours", "--instance",
    "--interval", "--iterations", "--learning-rate", "--load", "--machines", "--margin",
    "--milp-seconds", "--out", "--per", "--planners", "--preset", "--ray", "--reference-cores",
    "--reference-memory", "--resume", "--rounds", "--save-every", "--schedulers", "--seconds", "--seed",
    "--seeds", "--sequences", "--services", "--slot-seconds", "--split", "--step-seconds", "--stop-after",
    "--times", "--trace", "--train-loads", "--truth", "--workers",
}  # fmt: skip


def test_an_option_has_one_meaning():
    meanings = {option: {meaning for _, meaning in commands.values()} for option, commands in uses().items()}
    assert {option for option, several in meanings.items() if len(several) > 1} <= OWN_WORDS


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "write it again: python tests/test_options.py"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
