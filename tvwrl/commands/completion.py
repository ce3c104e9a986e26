"""`tvwrl completion`: a script for a shell that completes subcommands, options and their choices."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from typing import Annotated, Any, Literal, Union

import tyro

from tvwrl.commands.parsing import members_of
from tvwrl.commands.table import COMMANDS, Command, imported


@dataclass(frozen=True)
class CompletionOptions:
    """Print a script that completes subcommands, options and their choices in a shell.

    bash: put `eval "$(tvwrl completion bash)"` into ~/.bashrc. zsh: `tvwrl completion zsh > FOLDER/_tvwrl`, with FOLDER
    in fpath before compinit. fish: `tvwrl completion fish > ~/.config/fish/completions/tvwrl.fish`.
    """

    shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]]
    """The shell."""


def print_completion(options: CompletionOptions) -> None:
    """Print the script. It knows the options of this version: make it again after an update."""
    every = _choice({name: _options_of(command) for name, command in COMMANDS.items()})
    tyro.cli(every, prog="tvwrl", args=["--tyro-write-completion", options.shell, "-"])


def _options_of(command: Command) -> Any:
    """The options of a subcommand; of a family, its members as subcommands."""
    found = imported(command.settings)
    if not command.family:
        return found
    names = [name for listed in members_of(command).values() for name in listed]
    member = tyro.conf.OmitSubcommandPrefixes[_choice({name: found(name) for name in names})]
    return make_dataclass(command.name, [("member", member)])


def _choice(kinds: dict[str, Any]) -> Any:
    """One of several subcommands."""
    options = [Annotated[kind, tyro.conf.subcommand(name, prefix_name=False)] for name, kind in kinds.items()]
    return Union[tuple(options)]  # noqa: UP007 their number is not known
