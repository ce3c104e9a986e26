"""From the words of a command line to its work: finds the subcommand, shows help or parses, checks, calls."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

HELP, HELP_ALL = ("-h", "--help"), "--help-all"


def dispatch(words: Sequence[str]) -> int:
    """Do what the words ask for; returns the exit code.

    Raises InputError for a subcommand that there is not, an output folder that cannot be used, and whatever the work
    refuses.
    """
    from tvwrl.commands.help import long_help, overview, short_help
    from tvwrl.commands.parsing import line_of

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
    settings = line.parsed()
    from tvwrl.commands.output import check_contents, check_output, undisturbed
    from tvwrl.compiling import announce

    check_output(settings)
    with undisturbed(settings) if line.command.alone else nullcontext():
        check_contents(settings, line.command)
        announce(words[0])
        result = line.work()(settings)
    if isinstance(result, str):
        print(result)
    return result if isinstance(result, int) else 0
