"""How long `tvwrl` takes to show help: processor time of each subcommand, in a fresh process.

The first call of each writes bytecode and does not count.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import chain

from timing import least_seconds

from tvwrl.cli.dispatch import members_of
from tvwrl.cli.table import COMMANDS
from tvwrl.markdown import markdown_table

REPEATS = 5


def main() -> None:
    """Print a row per subcommand, the slowest first; of a family, its first member."""
    rows = {"": seconds()}
    for name, command in COMMANDS.items():
        member = next(chain.from_iterable(members_of(command).values())) if command.family else ""
        words = [name, *filter(None, [member]), "--help"]
        rows[" ".join(words)] = seconds(*words)
    rows["(import torch)"] = least_seconds(lambda: python("-c", "import torch"), REPEATS)
    slowest = sorted(rows.items(), key=lambda row: -row[1])
    print(markdown_table(["tvwrl ...", "CPU s"], [[words, f"{one:.2f}"] for words, one in slowest]))


def seconds(*words: str) -> float:
    """Processor time of the command, bytecode being there."""
    python("-m", "tvwrl", *words)
    return least_seconds(lambda: python("-m", "tvwrl", *words), REPEATS)


def python(*arguments: str) -> None:
    """Run Python to its end."""
    subprocess.run([sys.executable, *arguments], stdout=subprocess.DEVNULL, check=True)


if __name__ == "__main__":
    main()
