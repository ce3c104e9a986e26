"""Help as text: the subcommands in groups, the options of one that people use, or all of them in groups."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from tvwrl.cli.dispatch import Line, members_of
from tvwrl.cli.table import GROUPS

WIDEST = 110  # columns; longer lines are hard to read
FEW = 12  # so many options are all shown
LONG = 200  # letters of a default that short help leaves out
ABOUT = "Place long-running workloads whose usage changes over time: train policies, compare schedulers, plan clusters."
MORE = (
    "`tvwrl SUBCOMMAND --help` shows the most common options, `--help-all` shows all of them. Start with `tvwrl train "
    "--trace google --preset smoke`; if something does not work, run `tvwrl doctor`."
)


def overview() -> str:
    """What `tvwrl` alone prints."""
    listed = {title: {one.name: one.summary for one in commands} for title, commands in GROUPS.items()}
    return "\n\n".join(["usage: tvwrl SUBCOMMAND [options]", _filled(ABOUT), _sections(listed), _filled(MORE)])


def short_help(line: Line) -> str:
    """The options that people use, or the members of a family."""
    if line.complete:
        return _help(line, everything=False)
    about = f"{line.command.summary[0].upper()}{line.command.summary[1:]}."
    more = f"`{line.title} NAME --help` shows the options of NAME."
    usage = f"usage: {line.title} NAME [options]"
    return "\n\n".join([usage, _filled(about), _sections(members_of(line.command)), _filled(more)])


def long_help(line: Line) -> str:
    """All options, in groups."""
    return _help(line, everything=True) if line.complete else short_help(line)


def type_of(action: Any) -> str:
    """The type of an option as help shows it; that None may be given, where it is the default, goes without saying."""
    if not action.option_strings and not action.choices:
        return _field(action).upper()
    return re.sub(r"\{None\}\||None,", "", str(action.metavar or ""))


def meaning_of(action: Any) -> tuple[str, str]:
    """The help of an option without its default, and what stands in brackets behind it, such as "default: 3"."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(action.help)).replace("%%", "%")
    found = re.fullmatch(r"(.*?)\s*(?:\((default: .*|required|repeatable)\))?", " ".join(text.split()))
    assert found is not None
    return found[1], found[2] or ""


def _help(line: Line, everything: bool) -> str:
    parser = line.parser()
    actions = [action for action in parser._actions if action.dest != "help" and action.help != "==SUPPRESS=="]
    few, often = len(actions) <= FEW, line.command.often
    chosen = [one for one in actions if everything or few or not often or _field(one) in often]
    if often and not everything:
        chosen.sort(key=lambda one: often.index(_field(one)) if _field(one) in often else -1)
    positional = [type_of(one) for one in chosen if not one.option_strings]
    named = len(chosen) > len(positional)
    parts = [" ".join(["usage:", line.title, *positional, *(["[options]"] if named else [])])]
    parts += [_filled(paragraph) for paragraph in (parser.description or "").split("\n\n")]
    if chosen:
        parts.append(
            _sections(
                {
                    title: dict(_shown(one, everything) for one in own)
                    for title, own in _grouped(chosen, everything, _headings(line.settings())).items()
                }
            )
        )
    if len(chosen) < len(actions):
        parts.append(_filled(f"`{line.title} --help-all` shows all {len(actions)} options, in groups."))
    return "\n\n".join(parts)


def _field(action: Any) -> str:
    """Name of the field that an option sets, without those of the dataclasses around it."""
    return str(action.dest).rpartition(".")[2].replace("-", "_")


def _headings(settings: Any) -> dict[str, str]:
    """Of settings that inherit their options, the `heading` of the class that declares each."""
    classes = [one for one in getattr(settings, "__mro__", ()) if "heading" in vars(one)]
    return {name: str(one.heading) for one in classes for name in vars(one).get("__annotations__", {})}


def _grouped(actions: Iterable[Any], everything: bool, headings: Mapping[str, str]) -> dict[str, list[Any]]:
    """Options by the dataclass that they are fields of: its heading, or where it has none its name, is the title."""
    groups: dict[str, list[Any]] = {}
    for action in actions:
        inner = str(action.dest).rpartition(".")[0].rpartition(".")[2].replace("-", " ")
        title = {"config": "hyper-parameters", "scenario": "environment", "common": ""}.get(inner, inner)
        title = headings.get(_field(action), title)
        groups.setdefault(title if everything and title else "options", []).append(action)
    return groups


def _shown(action: Any, everything: bool) -> tuple[str, str]:
    """An option with its type, and its help; a default that says nothing, or is told in the help, is left out."""
    meaning, hint = meaning_of(action)
    off = hint == "default: False"  # of such a switch, --no-... says nothing
    if off or hint in ("default: None", "default: ''", "default:", "repeatable") or not action.option_strings:
        hint = ""
    if "default:" in meaning.lower():
        hint = ""
    names = ", ".join(action.option_strings[:1] if off else action.option_strings) or type_of(action)
    kind = type_of(action) if action.option_strings else ""
    hint = re.sub(r",(?=\S)", ", ", hint)  # lists, of which a line may break
    if len(hint) > LONG and not everything:
        hint = f"default: {hint.count(',') + 1} of them, which --help-all lists"
    return f"{names} {kind}".rstrip(), f"{meaning} ({hint})" if hint else meaning


def _sections(sections: dict[str, dict[str, str]] | Any) -> str:
    """Titles, and below each its names with a text beside or below them."""
    longest = max(len(name) for names in sections.values() for name in names)
    indent = min(longest + 4, 28 if _width() >= 70 else 8)
    return "\n\n".join(
        "\n".join([f"{title}:", *(_entry(name, text, indent) for name, text in names.items())])
        for title, names in sections.items()
    )


def _entry(name: str, text: str, indent: int) -> str:
    head = f"  {name}"
    if len(head) + 2 > indent:
        return "\n".join([_filled(head, "      "), _filled(text, " " * indent, " " * indent)])
    return _filled(text, " " * indent, head.ljust(indent))


def _filled(text: str, indent: str = "", first: str = "") -> str:
    return textwrap.fill(
        " ".join(text.split()) if first.strip() or not text.startswith(" ") else text,
        _width(), initial_indent=first, subsequent_indent=indent, break_on_hyphens=False,
    )  # fmt: skip


def _width() -> int:
    """Columns to fill."""
    return max(min(shutil.get_terminal_size().columns, WIDEST), 30)
