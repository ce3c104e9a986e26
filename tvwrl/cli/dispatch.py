"""From the words of a command line to its work: finds the subcommand, shows help or parses, checks, calls."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from difflib import get_close_matches
from inspect import signature
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvwrl.checks import either, hint
from tvwrl.cli.table import COMMANDS, Command, imported
from tvwrl.option_files import FILE, read_options
from tvwrl.runs import check_new_folder, locked
from tvwrl.types import InputError

if TYPE_CHECKING:
    import argparse

FEW = 4  # options that an error can list
FILE_FIELD = "config_file"  # of settings that may come from a file
MOVES = "--moves"  # of `train`: what it learns then has options of its own
HELP, HELP_ALL = ("-h", "--help"), "--help-all"


def dispatch(words: Sequence[str]) -> int:
    """Do what the words ask for; returns the exit code.

    Raises InputError for a subcommand that there is not, an output folder that cannot be used, and whatever the work
    refuses.
    """
    from tvwrl.cli.help import long_help, overview, short_help

    if words and words[0] == "help":  # as other commands understand it: `tvwrl help train`
        words = [*words[1:], "--help"]
    if not words or words[0] in (*HELP, HELP_ALL):
        print(overview())
        return 0
    if words[0] == "--version":
        from tvwrl import __version__

        print(f"tvwrl {__version__}")
        return 0
    line = line_of(words)
    if HELP_ALL in line.words:
        print(long_help(line))
        return 0
    if any(word in HELP for word in line.words) or not line.complete:
        print(short_help(line))
        return 0 if line.complete or not line.words or line.words[0] in HELP else 2  # options of nothing
    settings = with_file(line).parsed()
    from tvwrl.compiling import announce

    check_output(settings)
    with undisturbed(settings) if line.command.alone else nullcontext():
        check_contents(settings, line.command)
        announce()
        result = line.work()(settings)
    if isinstance(result, str):
        print(result)
    return result if isinstance(result, int) else 0


def with_file(line: Line) -> Line:
    """The line with the options of the file that it names before its own, which count more.

    Raises InputError for a file that cannot be read, or whose options the command does not take.
    """
    file = line._given(FILE)
    if not file and any(word.partition("=")[0] == f"--{FILE}" for word in line.words):
        raise InputError(f"--{FILE} needs the name of a file")
    if not file or not hasattr(line.settings(), FILE_FIELD):
        return line
    found = tuple(read_options(Path(file)))
    whole = replace(line, words=(*found, *line.words))
    try:
        whole.parsed()
    except InputError:
        alone = replace(line, words=found)
        try:
            alone.parsed()
        except InputError as error:
            raise InputError(f"--{FILE} {file}: {error}") from error
        raise
    return whole


TYPES = {  # as tyro shows them, and as people call them
    "INT": "a whole number",
    "FLOAT": "a number",
    "INT,...": "whole numbers with commas between them",
    "FLOAT,...": "numbers with commas between them",
}


@dataclass(frozen=True)
class Line:
    """A command line whose subcommand is known, and of a family the member too."""

    command: Command
    member: str  # empty if the command is no family, or none was named
    words: tuple[str, ...]  # its options
    called: str = ""  # where a user types something else than its name

    @property
    def title(self) -> str:
        """What a user types: `tvwrl train`, `tvwrl reproduce fig4`."""
        if self.called:
            return self.called
        return " ".join(("tvwrl", self.command.name, *filter(None, [self.member])))

    @property
    def complete(self) -> bool:
        """Whether it names all that has options."""
        return bool(self.member) or not self.command.family

    def settings(self) -> Any:
        """The dataclass of its options."""
        found = imported(self.command.settings)
        return found(self.member) if self.command.family else found

    def work(self) -> Callable[[Any], Any]:
        """The function that takes the options."""
        work: Callable[[Any], Any] = imported(self.command.work)
        return work

    def parsed(self) -> Any:
        """Its options as an object. Raises InputError where they are wrong."""
        import tyro

        try:
            from tyro._errors import on_parse_error
        except ImportError:  # another version, which prints its errors in boxes and ends the process
            return tyro.cli(self.settings(), args=self.words, prog=self.title, **self._more())
        with on_parse_error(self._refuse):
            return tyro.cli(self.settings(), args=self.words, prog=self.title, **self._more())

    def parser(self) -> argparse.ArgumentParser:
        """Its options as they would be parsed, for help."""
        import tyro

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            parser: argparse.ArgumentParser = tyro.extras.get_parser(  # type: ignore[assignment]
                self.settings(), prog=self.title, **self._more()
            )
        return parser

    def _refuse(self, wrong: Any) -> None:
        """Raise InputError for what tyro has found wrong, in a line like those of all other errors."""
        fault, option = type(wrong).__name__, _option(getattr(wrong, "argument", None))
        if fault == "UnrecognizedArgs":
            given = next((token for token in wrong.tokens if token.startswith("-")), wrong.tokens[0]).partition("=")[0]
            kind = "option" if given.startswith("-") else "argument"
            raise InputError(f"{self.title} has no {kind} '{given}': {self._near(given)}")
        elif fault == "InvalidChoice":
            elsewhere = self._of_moves(option, wrong.value)
            raise InputError(
                f"{option} is '{wrong.value}': {elsewhere or hint(wrong.value, wrong.choices, list_all=True)}"
            )
        elif fault == "BadValue":
            raise InputError(f"{option} needs a value: `{self.title} --help` shows which kind")
        elif fault == "MissingArgs":
            needed = (one.arg for one in wrong.missing_arguments)
            raise InputError(f"{self.title} needs {', '.join(_option(arg) + _choices(arg) for arg in needed)}")
        elif fault == "InstantiationFailure":
            raise InputError(self._not_read(option, wrong.argument) if option else wrong.message)

    def _of_moves(self, option: str, value: str) -> str:
        """What to write where an option of `tvwrl train` has a value of `tvwrl train --moves`; empty for others."""
        if self.title != "tvwrl train":
            return ""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            options = line_of(["train", MOVES]).parser()._actions
        fits = any(option in action.option_strings and value in (action.choices or ()) for action in options)
        return f"that learns what to move: tvwrl train {MOVES} {option} {value}" if fits else ""

    def _near(self, given: str) -> str:
        """What an option that there is not may have been meant to be."""
        names = [name for action in self.parser()._actions for name in action.option_strings]
        found = get_close_matches(given.lstrip("-"), [name.lstrip("-") for name in names if len(name) > 2], n=2)
        longest = [name for name in names if name.startswith("--") and not name.startswith("--help")]
        if given.startswith("-") and not found and 0 < len(longest) <= FEW:
            return f"its options are {' and '.join(longest)}; `{self.title} --help` says what else it takes"
        if not given.startswith("-") or not found:
            return f"`{self.title} --help-all` shows all options"
        return f"did you mean {either([f'--{name}' for name in found])}?"

    def _not_read(self, option: str, argument: Any) -> str:
        """That the words behind an option are not what it takes."""
        kind = str(argument.lowered.metavar).removeprefix("{None}|")
        after = ""
        for place, word in enumerate(self.words):
            name, _, value = word.partition("=")
            if name.replace("_", "-") == option.replace("_", "-"):
                several = takewhile(lambda one: not one.startswith("--"), self.words[place + 1 :])
                following = list(several) if "..." in kind else list(self.words[place + 1 : place + 2])
                after = value or " ".join(following)
        return f"{option} is '{after}': must be {TYPES.get(kind, kind)}"

    def _more(self) -> dict[str, Any]:
        """What tyro has to know: the default of settings that depend on a preset among the words."""
        from tvwrl.command_line import LISTS

        default_for = getattr(self.settings(), "default_for", None)
        if default_for is None:
            return {"registry": LISTS}
        return {"registry": LISTS, "default": default_for(*map(self._given, signature(default_for).parameters))}

    def _given(self, name: str) -> str:
        """The value of an option among the words, the last one as in parsing; empty if it is not among them."""
        found = ""
        for word, following in zip(self.words, (*self.words[1:], ""), strict=False):
            option, given, value = word.partition("=")
            if option == f"--{name}":
                found = value if given else following
        return found


def line_of(words: Sequence[str]) -> Line:
    """The command line of words that begin with a subcommand. Raises InputError for one that there is not."""
    if words[0] == "train" and MOVES in words:
        rest = [word for word in words[1:] if word != MOVES]
        return Line(COMMANDS["learn-moves"], "", tuple(rest), f"tvwrl train {MOVES}")
    name, *rest = words
    command = COMMANDS[known(name, COMMANDS, "tvwrl", "tvwrl has no subcommand")]
    if not command.family:
        return Line(command, "", tuple(rest))
    if not rest or rest[0].startswith("-"):
        return Line(command, "", tuple(rest))
    members = {member for listed in members_of(command).values() for member in listed}
    member = known(rest[0], members, f"tvwrl {name}", f"there is no {command.one}")
    return Line(command, member, tuple(rest[1:]))


def members_of(command: Command) -> Mapping[str, Mapping[str, str]]:
    """Title -> name -> a line of help, of the members of a family."""
    listed: Mapping[str, Mapping[str, str]] = imported(command.family)()
    return listed


def known(name: str, names: Collection[str], title: str, unknown: str) -> str:
    """`name` itself. Raises InputError if it is not among the names; the message has those that are near.

    `title`: the command that lists all
    `unknown`: how the message begins
    """
    if name in names:
        return name
    near = "" if name.startswith("-") else hint(name, names)
    meant = near if near.startswith("did") else f"`{title}` lists all"  # which may be many
    raise InputError(f"{unknown} '{name}': {meant}")


def _choices(argument: Any) -> str:
    """What an argument may be, if there are few choices: `, one of bash, zsh, fish`."""
    choices = argument.lowered.choices
    return f", one of {', '.join(map(str, choices))}" if choices else ""


def _option(argument: Any) -> str:
    """How a user spells an option of tyro's, or the name of an argument without one; empty for None."""
    if argument is None:
        return ""
    return str(argument.field.intern_name.upper() if argument.is_positional() else argument.lowered.name_or_flags[0])


FOLDERS = ("out", "resume")  # fields of settings that name a folder to write to
FILES = ("file", "page")  # and a file
WITHOUT_OUTPUT = (
    "dry_run",
    "verify",
    "explain",
    "list_tasks",
    "list_schedulers",
    "check",
)  # nothing is written with these
DEFAULT = Path("runs")  # where commands write that have no --out


def check_output(settings: Any) -> None:
    """Raise InputError unless the folder or file that the settings name can be made and written to."""
    given: dict[str, Any] = {name: getattr(settings, name, None) for name in (*FOLDERS, *FILES)}
    if _writes_nothing(settings):
        return
    for name in FOLDERS:
        if given[name] is not None:
            check_folder(Path(given[name]), f"--{name}")
    for name in FILES:
        if given[name] is not None:
            path = Path(given[name])
            if path.is_dir():
                raise InputError(f"--{name} {path} is a folder: give the name of a file")
            check_folder(path.parent, f"--{name}")
    if hasattr(settings, "out") and not any(given[name] for name in FOLDERS):
        check_folder(getattr(settings, "folder", DEFAULT), "the output folder")


def check_contents(settings: Any, command: Command) -> None:
    """Raise InputError if --out holds something, where the command can neither begin nor continue."""
    out = getattr(settings, "out", None)
    if out is None or _writes_nothing(settings):
        return
    if command.fresh or (command.continues and not (Path(out) / command.continues).is_dir()):
        check_new_folder(Path(out))


@contextmanager
def undisturbed(settings: Any) -> Iterator[None]:
    """No other command works in the folder that the settings name. Raises InputError if one does."""
    named = next((Path(one) for name in FOLDERS if (one := getattr(settings, name, None)) is not None), None)
    unmade = named is not None and not named.absolute().parent.is_dir()  # nobody has made even what it is in
    if named is None or unmade or _writes_nothing(settings):
        yield
        return
    with locked(named.absolute()):
        yield


def _writes_nothing(settings: Any) -> bool:
    given = (getattr(settings, name, None) for name in WITHOUT_OUTPUT)
    return any(one for one in given if not callable(one))


def check_folder(folder: Path, option: str) -> None:
    """Raise InputError unless `folder` is one that can be written to, or can be made; it leaves nothing behind."""
    whole = Path(os.path.normpath(folder.absolute()))  # "missing/../file" is "file"
    there = next(path for path in (whole, *whole.parents) if path.exists() or path.is_symlink())
    if not there.is_dir():
        raise InputError(f"{option} {folder}: {there} is a file: give a folder")
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            file.write(bytes(1))
            file.flush()
    except OSError as error:
        raise InputError(f"{option} {folder}: nothing can be written to {there}: {error.strerror}") from error
