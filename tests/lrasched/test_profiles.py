"""Profiles: the feature vectors of the paper's example, tables read, and bad ones refused."""

from pathlib import Path

import numpy as np
import pytest

from tvwrl.lrasched.factorization import Rows
from tvwrl.lrasched.profiles import Configuration, Profiles, feature_rows, read_configurations, read_profiles
from tvwrl.types import InputError

EXAMPLE = """application,configuration,performance
a1,b1,0.5
a1,b2,0.6
a1,b3,0.2
a2,b3,0.8
a2,b4,0.5
a3,b1,0.2
a3,b3,0.5
"""


def dense(rows):
    table = np.zeros((len(rows), rows.features))
    for i in range(len(rows)):
        own = slice(rows.start[i], rows.start[i + 1])
        table[i, rows.index[own]] = rows.value[own]
    return table


def rows_of(profiles: Profiles):
    known = [np.nonzero(~np.isnan(row))[0] for row in profiles.grid()]
    return Rows.stack([feature_rows(a, own, own, len(profiles.configurations)) for a, own in enumerate(known)])


@pytest.fixture
def example(tmp_path: Path) -> Profiles:
    (tmp_path / "d1.csv").write_text(EXAMPLE)
    return read_profiles(tmp_path / "d1.csv")


def test_figure_4(example):
    """The seven rows of the paper: configuration, "profiled on" (it prints 1/3 as 0.3), application, performance."""
    third = 1 / 3
    expected = [  # b1 b2 b3 b4 | 1 2 3 4 | a1 a2 a3
        [1, 0, 0, 0, third, third, third, 0, 1, 0, 0],
        [0, 1, 0, 0, third, third, third, 0, 1, 0, 0],
        [0, 0, 1, 0, third, third, third, 0, 1, 0, 0],
        [0, 0, 1, 0, 0, 0, 0.5, 0.5, 0, 1, 0],
        [0, 0, 0, 1, 0, 0, 0.5, 0.5, 0, 1, 0],
        [1, 0, 0, 0, 0.5, 0, 0.5, 0, 0, 0, 1],
        [0, 0, 1, 0, 0.5, 0, 0.5, 0, 0, 0, 1],
    ]
    assert example.configurations == ("b1", "b2", "b3", "b4")
    rows = rows_of(example)
    assert dense(rows) == pytest.approx(np.array(expected))
    assert example.performance.tolist() == [0.5, 0.6, 0.2, 0.8, 0.5, 0.2, 0.5]
    assert all((np.diff(rows.index[a:b]) > 0).all() for a, b in zip(rows.start, rows.start[1:], strict=False))


def test_a_new_application_adds_a_column_and_moves_none(example):
    before = rows_of(example)
    new = feature_rows(3, np.array([0]), np.zeros(0, np.int64), 4)
    after = dense(Rows.stack([before, new]))
    assert np.array_equal(after[:7, :11], dense(before))
    assert after[7].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]  # profiled on nothing


def test_configurations_are_read_once_each(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("configuration,cpu,mem,collocation\ns,1,2,1\nl,4,8,2\ns,1,2,1\n")
    assert read_configurations(path) == (Configuration("s", 1, 2), Configuration("l", 4, 8, 2))
    path.write_text("configuration,cpu,mem\n7,1,2\n")
    assert read_configurations(path) == (Configuration("7", 1, 2, 1),)


PROFILES, CONFIGURATIONS = "application,configuration,performance\n", "configuration,cpu,mem,collocation\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PROFILES + "a,b,nan", "row 1: performance is 'nan': must be a number"),
        (PROFILES + "a,b,0.5\na,c,inf", "row 2: performance is 'inf'"),
        (PROFILES + "a,b,fast", "row 1: performance is 'fast': must be a number"),
        (PROFILES + ",b,0.5", "row 1: application is empty"),
        (PROFILES + "a,q,0.5", "row 1: configuration is 'q'"),
        (PROFILES, "no rows"),
        ("application,configuration\na,b", "no column 'performance'"),
        ("", "the file is empty"),
        (CONFIGURATIONS + "s,0,2,1", "row 1: configuration 's': cpu is 0.0: must be a number > 0"),
        (CONFIGURATIONS + "s,1,-2,1", "mem is -2.0"),
        (CONFIGURATIONS + "s,1,2,0", "collocation is 0: must be a whole number of at least 1"),
        (CONFIGURATIONS + "s,1,2,1.5", "collocation is 1.5: must be a whole number"),
        (CONFIGURATIONS + "s,1,2,1\ns,1,3,1", "row 2: configuration 's' is"),
    ],
)
def test_bad_tables_are_refused_with_file_and_row(tmp_path, text, message):
    path = tmp_path / "p.csv"
    path.write_text(text)
    with pytest.raises(InputError) as refusal:
        read_configurations(path) if text.startswith(CONFIGURATIONS) else read_profiles(path, ["b", "c"])
    assert str(path) in str(refusal.value)
    assert message in str(refusal.value)
