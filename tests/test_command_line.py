"""Lists on a command line."""

from dataclasses import dataclass

import pytest
import tyro

from tvwrl.command_line import Names, split_list


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("", []),
        ("a, b,,c ", ["a", "b", "c"]),
        ("Tetris.1,Medea(1,0.5,0.5),TRIVIAL-cpu", ["Tetris.1", "Medea(1,0.5,0.5)", "TRIVIAL-cpu"]),
        ("best(FF,of(a,b)),c", ["best(FF,of(a,b))", "c"]),
        ("Medea(1,1", ["Medea(1,1"]),
    ],
)
def test_commas_in_brackets_do_not_split(text: str, items: list[str]) -> None:
    assert split_list(text) == items


@dataclass
class Options:
    """Of a command."""

    schedulers: Names = ()


def test_lists_of_names_may_be_split_by_commas_and_spaces() -> None:
    given = tyro.cli(Options, args=["--schedulers", "Medea(1,1,1)", "Tetris.1,TRIVIAL-cpu"])
    assert given.schedulers == ("Medea(1,1,1)", "Tetris.1", "TRIVIAL-cpu")
