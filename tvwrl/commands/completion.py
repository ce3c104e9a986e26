"""`tvwrl completion`: a script for a shell that completes subcommands, options and their choices.

tyro has such scripts too. They start Python for every press of the tab key, split help of several lines into
candidates, and are too long for fish where a command has as many subcommands as this one.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import tyro

from tvwrl.commands.help import meaning_of
from tvwrl.commands.parsing import Line, members_of
from tvwrl.commands.table import COMMANDS

BASH = """\
_tvwrl() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}"
    local at="${{COMP_WORDS[1]}}" words=""
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        at="" before="SUBCOMMAND"
    else
        case " {families} " in
            *" $at "*) [ "$COMP_CWORD" = 2 ] && before="SUBCOMMAND" || at="$at ${{COMP_WORDS[2]}}";;
        esac
    fi
    case "$at/$before" in
{choices}
        */-h|*/--help|*/--help-all) ;;
        */--*) case "$at" in
{switches}
            *) return;;  # files
            esac;;
    esac
    if [ -z "$words" ]; then
        case "$at" in
{options}
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _tvwrl tvwrl
"""
ZSH = "#compdef tvwrl\nautoload -U +X compinit && compinit -u\nautoload -U +X bashcompinit && bashcompinit\n"
FISH = """\
function __tvwrl_at
    set -l words (commandline -opc)
    set -l last (math 1 + (count $argv))
    test (count $words) -ge $last; and test "$words[2..$last]" = "$argv"
end
function __tvwrl_is
    set -l words (commandline -opc)
    set -e words[1]
    test "$words" = "$argv"
end
complete -c tvwrl -f
"""


@dataclass(frozen=True)
class CompletionOptions:
    """Print a script that completes subcommands, options and their choices in a shell; print it again after an update.

    bash: tvwrl completion bash > ~/.local/share/bash-completion/completions/tvwrl

    zsh: tvwrl completion zsh > ~/.tvwrl.zsh, and the line source ~/.tvwrl.zsh in ~/.zshrc

    fish: tvwrl completion fish > ~/.config/fish/completions/tvwrl.fish
    """

    shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]]
    """The shell."""


def print_completion(options: CompletionOptions) -> None:
    """Print the script."""
    print({"bash": _bash, "zsh": lambda: ZSH + _bash(), "fish": _fish}[options.shell](), end="")


def _names() -> Iterator[tuple[str, dict[str, str]]]:
    """What stands before a subcommand or member, and which may follow, with a line of help."""
    yield "", {name: command.summary for name, command in COMMANDS.items()}
    for name, command in COMMANDS.items():
        if command.family:
            yield name, {member: help for listed in members_of(command).values() for member, help in listed.items()}


def _actions() -> Iterator[tuple[str, list[Any]]]:
    """Words of a complete command, and its options."""
    for name, command in COMMANDS.items():
        members = [member for listed in members_of(command).values() for member in listed] if command.family else [""]
        for member in members:
            yield f"{name} {member}".rstrip(), Line(command, member, ()).parser()._actions


def _bash() -> str:
    choices, switches, options = [], [], []
    for before, names in _names():
        choices.append(_case(8, f'"{before}/SUBCOMMAND"', names))
    for at, actions in _actions():
        every = [option for action in actions for option in action.option_strings]
        fixed = [str(choice) for action in actions if not action.option_strings for choice in action.choices or ()]
        options.append(_case(12, f'"{at}"', [*fixed, *every, "--help-all"]))
        for action in actions:
            if action.option_strings and action.choices:
                choices.append(_case(8, f'"{at}/{action.option_strings[0]}"', map(str, action.choices)))
        found = [option for action in actions if action.nargs == 0 for option in action.option_strings]
        switches.append(f'            "{at}") case "$before" in {"|".join(found)}) ;; *) return;; esac;;')
    families = " ".join(name for name, command in COMMANDS.items() if command.family)
    parts = {"choices": choices, "switches": switches, "options": options}
    return BASH.format(families=families, **{name: "\n".join(lines) for name, lines in parts.items()})


def _case(indent: int, pattern: str, words: Any) -> str:
    return f"{'':{indent}}{pattern}) words={shlex.quote(' '.join(words))};;"


def _fish() -> str:
    lines = []
    for before, names in _names():
        for name, help in names.items():
            lines.append(_complete(f"__tvwrl_is {before}".rstrip(), ["-a", name], help))
    for at, actions in _actions():
        for action in actions:
            value = ["-x", "-a", " ".join(map(str, action.choices))] if action.choices else ["-r", "-F"]
            if not action.option_strings and action.choices:
                lines.append(_complete(f"__tvwrl_is {at}", value, ""))
            for option in action.option_strings:
                words = ["-l", option[2:]] if option.startswith("--") else ["-s", option[1:]]
                words += [] if action.nargs == 0 else value
                lines.append(_complete(f"__tvwrl_at {at}", words, meaning_of(action)[0].partition(". ")[0]))
    return FISH + "\n".join(lines) + "\n"


def _complete(condition: str, words: Sequence[str], help: str) -> str:
    quoted = [word if word.startswith("-") else _quoted(word) for word in words]
    return " ".join(["complete -c tvwrl -n", _quoted(condition), *quoted, "-d", _quoted(help[:80])])


def _quoted(text: str) -> str:
    """In fish's single quotes, only a backslash and a quote have to be escaped."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
