"""Lists on a command line."""

import pytest

from tvwrl.command_line import split_list


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
