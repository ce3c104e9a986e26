"""The options of all commands: each has one type and stands for one thing, and docs/options.md lists them as they are.

`python tests/test_options.py` writes that page again.
"""

from __future__ import annotations

import argparse
import re
import runpy
import sys
import textwrap
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

Every option of every command in `scripts/`; `tests/test_options.py` writes this page and checks it. An option has one
type and stands for one thing in all commands, and the same thing has the same option everywhere. Its help is the same
too, except for the default, which follows the words "default:", and for the option that it needs, as in "With
--trace:". Some help is each command's own, because what the option stands for differs in detail there: {own}. Of these,
`--per` has types of its own too.

Lists (`INT,...`) take commas or spaces between their items, as in `--loads 0.3,0.5`; a comma in brackets is part of an
item. Pairs (`--columns`, `--scale`) take spaces. A list has a plural name (`--loads`, `--seeds`), except `--also` (more
traces than that of `--trace`) and where every resource has a number ({per_resource}): these numbers are together one
value. Not every plural is a list: it may also be a number of things (`--machines`, `--seconds`), a file of them
(`--profiles`), a rule for them (`--gaps`), or a switch (`--bounds`).
"""

# Help of each command's own: other files, names or units of the same kind, or a further value with a meaning
OWN_WORDS = {
    "--also", "--checkpoint", "--data", "--instance", "--interval", "--learning-rate", "--milp-seconds", "--per",
    "--planners",
    "--preset", "--reference-memory", "--resume", "--schedulers", "--seed", "--seeds", "--sequences",
}  # fmt: skip

OTHERS = {"--also"}  # a list without a plural: what it names is said by --trace
PER_RESOURCE = {"--K-c", "--K-o", "--K-u", "--capacity", "--machine"}  # a number for each, together one value

Uses = dict[str, dict[str, tuple[str, str]]]  # option -> command -> type, help


@cache
def uses() -> Uses:
    """The options of all commands, from their parsers."""
    found: Uses = defaultdict(dict)
    for path in sorted((ROOT / "scripts").glob("*.py")):
        for command, parser in parsers(path).items():
            for action in parser._actions:
                if action.option_strings and action.dest != "help":
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


def idea_of(meaning: str) -> str:
    """What is left of a help without the default, and all after it, and without the option that it needs."""
    needed_left_out = re.sub(r"^(With|For) [^:]*: ", "", meaning)
    text = re.split(r"[;.] default:", needed_left_out, flags=re.IGNORECASE)[0].removesuffix(".")
    return text[0].lower() + text[1:]


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
    own, per_resource = (", ".join(f"`{option}`" for option in sorted(some)) for some in (OWN_WORDS, PER_RESOURCE))
    paragraphs = HEAD.format(own=own, per_resource=per_resource).strip().split("\n\n")
    head = "\n\n".join(textwrap.fill(paragraph, 120, break_on_hyphens=False) for paragraph in paragraphs)
    return "\n".join([head, "", *lines, ""])


def differ(kinds: set[str]) -> bool:
    """Whether types differ, where a command may offer fewer choices than another."""
    choices = [set(kind.strip("{}").split(",")) for kind in kinds if kind.startswith("{")]
    return len(kinds) > 1 and not (len(choices) == len(kinds) and max(choices, key=len) == set().union(*choices))


def test_an_option_has_one_type():
    types = {option: {kind for kind, _ in commands.values()} for option, commands in uses().items()}
    different = {option: kinds for option, kinds in types.items() if differ(kinds)}
    assert different.keys() == {"--per"}  # what a workload is: every trace has words of its own


def test_an_option_stands_for_one_thing():
    """Its help differs in the default and the option that it needs only, but for `OWN_WORDS`."""
    ideas = {option: {idea_of(meaning) for _, meaning in commands.values()} for option, commands in uses().items()}
    assert {option for option, several in ideas.items() if len(several) > 1} == OWN_WORDS


def test_lists_have_plural_names():
    lists = {option for option, commands in uses().items() for kind, _ in commands.values() if kind.endswith(",...")}
    assert {option for option in lists if not option.endswith("s")} == PER_RESOURCE | OTHERS


@pytest.mark.parametrize(
    ("meaning", "idea"),
    [
        ("Offered load.", "offered load"),
        ("With --trace: offered load; default: 0.5.", "offered load"),
        ("Offered load, 0 to 1. Default: the preset's. Ignored by place.py.", "offered load, 0 to 1"),
    ],
)
def test_an_idea_leaves_out_the_default_and_the_option_needed(meaning, idea):
    assert idea_of(meaning) == idea


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "write it again: python tests/test_options.py"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
