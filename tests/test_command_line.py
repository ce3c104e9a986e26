"""Lists on a command line."""

from dataclasses import dataclass

import pytest

from tvwrl.command_line import parse, split_list


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

    schedulers: tuple[str, ...] = ()
    machine_types: tuple[str, ...] = ()
    weight: float | tuple[float, ...] = 0.5


def test_lists_of_names_may_be_split_by_commas_and_spaces() -> None:
    given = parse(Options, args=["--schedulers", "Medea(1,1,1)", "Tetris.1,TRIVIAL-cpu"])
    assert given.schedulers == ("Medea(1,1,1)", "Tetris.1", "TRIVIAL-cpu")


def test_machine_types_keep_their_own_commas() -> None:
    for words in (["6x8,8,4x16,8"], ["6x8,8", "4x16,8"]):
        assert parse(Options, args=["--machine-types", *words]).machine_types == ("6x8,8", "4x16,8")


def test_a_single_weight_is_a_number() -> None:
    assert parse(Options, args=["--weight", "2"]).weight == 2.0
    assert parse(Options, args=["--weight", "2,3"]).weight == (2.0, 3.0)
    assert parse(Options, args=[]).weight == 0.5
