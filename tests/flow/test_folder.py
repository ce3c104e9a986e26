"""A user's own tables: what they mean, and what is refused with file and row."""

import re
from pathlib import Path

import pytest

from tvwrl.flow.folder import read_folder
from tvwrl.types import InputError

TABLES = {
    "applications.csv": "application,replicas,limit,cpu,mem\na,2,1,1,2\nb,2,2,2,1\nc,1,1,4,4\n",
    "machines.csv": "cpu,mem,count\n8,16,2\n4,4,1\n",
    "affinity.csv": "group,application,count\nfront,a,1\nfront,b,1\n",
    "anti-affinity.csv": "app_a,app_b,limit\na,c,0\nb,b,1\n",
}


def write(folder: Path, **changes: str) -> Path:
    for name, text in TABLES.items():
        (folder / name).write_text(changes.get(name.removesuffix(".csv").replace("-", "_"), text))
    return folder


def test_tables_become_a_problem(tmp_path: Path) -> None:
    problem = read_folder(write(tmp_path))
    assert problem.instance.application.tolist() == ["a", "b", "c"]
    assert problem.fleet.capacity.tolist() == [[8, 16], [8, 16], [4, 4]]
    assert (problem.bundles.member.tolist(), problem.bundles.count.tolist()) == ([0, 1], [1, 1])
    assert problem.instance.affinity.own.tolist() == [1, 1, 1]  # the lower of two limits
    assert problem.instance.affinity.to.tolist() == [0, 2, 1, 2]
    for name in ("affinity.csv", "anti-affinity.csv"):
        (tmp_path / name).unlink()
    plain = read_folder(tmp_path)
    assert (len(plain.bundles), plain.instance.affinity.own.tolist()) == (0, [1, 2, 1])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"affinity": "group,application\nx,z\n"}, "affinity.csv: row 1: application is 'z', which is no application"),
        ({"affinity": "group,application,count\nx,a,0\n"}, "affinity.csv: row 1: count is 0: must be a whole number"),
        ({"affinity": "group,application\nx,a\nx,a\n"}, "affinity.csv: row 2: application 'a' is given a second time"),
        ({"affinity": "group,application\nx,a\nx,c\n"}, "make 1 groups: must be a whole number, the same for all"),
        ({"affinity": "team,application\nx,a\n"}, "affinity.csv: no column 'group'"),
        ({"affinity": "group,application\n,a\n"}, "affinity.csv: row 1: group is empty"),
        ({"anti_affinity": "app_a,app_b,limit\na,z,0\n"}, "anti-affinity.csv: row 1: app_b is 'z'"),
        ({"anti_affinity": "app_a,app_b,limit\na,b,-1\n"}, "anti-affinity.csv: row 1: limit is -1"),
        ({"machines": "cpu,mem\n8,0\n"}, "machines.csv: row 1: mem is 0"),
        ({"applications": "application,replicas,cpu,mem\na,0,1,1\n"}, "applications.csv: row 1: replicas is 0"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, changes: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        read_folder(write(tmp_path, **changes))


def test_missing_tables_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        read_folder(tmp_path / "none")
    (write(tmp_path) / "machines.csv").unlink()
    with pytest.raises(InputError, match=r"no machines\.csv; it has: affinity\.csv"):
        read_folder(tmp_path)
