"""The options of all commands: each has one type and stands for one thing, and docs/reference/options.md lists them as
they are.

`python tests/test_options.py` writes that page again.
"""

from __future__ import annotations

import re
import textwrap
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

import pytest

from tvwrl.cli.dispatch import Line, members_of
from tvwrl.cli.help import meaning_of, type_of
from tvwrl.cli.table import COMMANDS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "options.md"
HEAD = """# Options

Every option of every subcommand of `tvwrl`; `tests/test_options.py` writes this page and checks it. An option has one
type and stands for one thing in all commands, and the same thing has the same option everywhere. Its help is the same
too, except for the default, which follows the words "default:", and for the option that it needs, as in "With
--trace:". Some help is each command's own, because what the option stands for differs in detail there: {own}. Of these,
`--algo`, `--per` and `--policy` have types of their own too, and `--seeds` is a number of seeds in `train`,
where it is a list in `reproduce`.

Lists (`INT,...`) take commas or spaces between their items, as in `--loads 0.3,0.5`; a comma in brackets is part of
an item. Pairs (`--columns`, `--scale`) take spaces. A list has a plural name (`--loads`, `--schedulers`), except
`--also` (more traces than that of `--trace`), `--against` (schedulers, as entries are) and where every resource has a
number ({per_resource}): these numbers are together one value. Not every plural is a list: it may also be a number of
things (`--machines`, `--seconds`), a file of them (`--profiles`), a rule for them (`--gaps`), or a switch (`--bounds`).
"""

Uses = dict[str, dict[str, tuple[str, str]]]  # option -> command -> type, help


@cache
def uses() -> Uses:
    """The options of all subcommands, from their parsers."""
    found: Uses = defaultdict(dict)
    for line in lines():
        for action in line.parser()._actions:
            if action.option_strings and action.dest != "help":
                name = f"{line.command.name} {line.member}".strip()
                found[action.option_strings[0]][name] = type_of(action) or "yes or no", meaning_of(action)[0]
    return found


def lines() -> Iterator[Line]:
    """Every subcommand, and every member of a family."""
    for command in COMMANDS.values():
        members = chain.from_iterable(members_of(command).values()) if command.family else [""]
        yield from (Line(command, member, ()) for member in members)


def idea_of(meaning: str) -> str:
    """What is left of a help without the default, and all after it, and without the option that it needs."""
    needed_left_out = re.sub(r"^(With|For) [^:]*: ", "", meaning)
    text = re.split(r"[;.] default:", needed_left_out, flags=re.IGNORECASE)[0].removesuffix(".")
    return text[0].lower() + text[1:]


def own_words() -> set[str]:
    """Options whose help differs in more than the default and the option that it needs."""
    ideas = {option: {idea_of(meaning) for _, meaning in commands.values()} for option, commands in uses().items()}
    return {option for option, several in ideas.items() if len(several) > 1}


def per_resource() -> set[str]:
    """Lists of numbers that have no plural name: there is a number for each resource."""
    kinds = {(option, kind) for option, commands in uses().items() for kind, _ in commands.values()}
    return {option for option, kind in kinds if kind in ("FLOAT,...", "INT,...") and not option.endswith("s")}


def shortened(commands: list[str]) -> str:
    """Subcommands, with the members of a family in brackets."""
    by_family: dict[str, list[str]] = defaultdict(list)
    for command in commands:
        family, _, name = command.partition(" ")
        by_family[family].append(name)
    parts = [f"`{family}`" + (f" ({', '.join(names)})" if names[0] else "") for family, names in by_family.items()]
    return ", ".join(parts)


def page() -> str:
    """docs/reference/options.md."""
    lines = ["| option | type | meaning | commands |", "|---|---|---|---|"]
    for option, commands in sorted(uses().items()):
        meanings: dict[str, list[str]] = defaultdict(list)
        for command, (_, meaning) in commands.items():
            meanings[meaning].append(command)
        for meaning, own in meanings.items():
            cells = [f"`{option}`", commands[own[0]][0], meaning, shortened(own)]
            lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
    found = own_words(), per_resource()
    own, numbers = (", ".join(f"`{option}`" for option in sorted(some)) for some in found)
    paragraphs = HEAD.format(own=own, per_resource=numbers).strip().split("\n\n")
    head = "\n\n".join(textwrap.fill(paragraph, 120, break_on_hyphens=False) for paragraph in paragraphs)
    return "\n".join([head, "", *lines, ""])


def differ(kinds: set[str]) -> bool:
    """Whether types differ, where a command may offer fewer choices than another."""
    choices = [set(kind.strip("{}").split(",")) for kind in kinds if kind.startswith("{")]
    return len(kinds) > 1 and not (len(choices) == len(kinds) and max(choices, key=len) == set().union(*choices))


def test_an_option_has_one_type():
    types = {option: {kind for kind, _ in commands.values()} for option, commands in uses().items()}
    different = {option: kinds for option, kinds in types.items() if differ(kinds)}
    # Words of their own: how it learns, what a workload is, what decides, what is to be reached; and a number of seeds
    # where others are lists
    assert different.keys() == {"--algo", "--per", "--policy", "--seeds"}


@pytest.mark.parametrize(
    ("meaning", "idea"),
    [
        ("Offered load.", "offered load"),
        ("With --trace: offered load; default: 0.5.", "offered load"),
        ("Offered load, 0 to 1. Default: the preset's. Ignored by place.", "offered load, 0 to 1"),
    ],
)
def test_an_idea_leaves_out_the_default_and_the_option_needed(meaning, idea):
    assert idea_of(meaning) == idea


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "write it again: python tests/test_options.py"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
