"""A user's own tables: what they mean, and what is refused with file and row."""

import re
from pathlib import Path

import pytest

from tests.planning.flow.conftest import replicas_of
from tvwrl.planning.instance import Fleet
from tvwrl.planning.problem import NOWHERE
from tvwrl.planning.referee import validate
from tvwrl.planning.registry import make_plan
from tvwrl.planning.sources.folder import read_folder
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
    ("changes", "message"),
    [
        (
            {"affinity": "group,application\nx,z\n"},
            "affinity.csv: row 1, group 'x': application is 'z', which is not in",
        ),
        (
            {"affinity": "group,application,count\nx,a,0\n"},
            "affinity.csv: row 1: count is 0: must be a whole number",
        ),
        ({"affinity": "group,application\nx,a\nx,a\n"}, "row 2, group 'x': application 'a' is given a second time"),
        (
            {"affinity": "group,application\nx,a\ny,a\n"},
            "row 2, group 'y': application 'a' is given a second time, after row 1",
        ),
        (
            {"affinity": "group,application\nx,a\nx,c\n"},
            "affinity.csv: row 2, group 'x': 1 replica of 'c', 1 in each, make 1 group: must be a whole number, and "
            "as many as of 'a', 2",
        ),
        ({"affinity": "group,application,count\nx,a,3\n"}, "2 replicas of 'a', 3 in each, make 0.666667 groups"),
        ({"affinity": "group,application,Count\nx,a,3\n"}, "column 'Count' is not known here: must be one of group"),
        ({"anti_affinity": "app_a,app_b,k,limit\na,b,1,1\n"}, "column 'k' is not known here"),
        ({"anti_affinity": "app_a,app_b,limit\na,b,1\na,c,\n"}, "row 2: limit is empty: must be a whole number"),
        ({"anti_affinity": "app_a,app_b,limit\na,b,1\na,c,few\n"}, "row 2: limit is 'few': must be a whole number"),
        ({"anti_affinity": "app_a,app_b,limit\na,,1\n"}, "row 1: app_b is empty"),
        ({"machines": "cpu,mem,Count\n8,8,2\n"}, "machines.csv: column 'Count' is no resource of the applications"),
        ({"affinity": "team,application\nx,a\n"}, "affinity.csv: no column 'group'"),
        ({"affinity": "group,application\n,a\n"}, "affinity.csv: row 1: group is empty"),
        ({"anti_affinity": "app_a,app_b,limit\na,z,0\n"}, "anti-affinity.csv: row 1: app_b is 'z'"),
        ({"anti_affinity": "app_a,app_b,limit\na,b,-1\n"}, "anti-affinity.csv: row 1: limit is -1"),
        ({"machines": "cpu,mem\n8,0\n"}, "machines.csv: no machine has any mem"),
        ({"applications": "application,replicas,cpu,mem\na,0,1,1\n"}, "applications.csv: row 1: replicas is 0"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        read_folder(write(tmp_path, **changes))


NAMED = {"machines": "machine,cpu,mem,count\nbig,8,16,2\n007,4,4,1\n7,4,4,1\n"}


@pytest.mark.parametrize(
    ("machines", "rows", "barred"),
    [
        (NAMED["machines"], "a,big\n", [[0, 0], [0, 1]]),  # a row of machines
        (
            NAMED["machines"],
            "a,big-2\n c , 7 \n c , 7 \n",
            [[0, 1], [2, 3]],
        ),  # one of them; a name like a number; twice
        (NAMED["machines"], "a,007\n", [[0, 2]]),
        ("cpu,mem\n8,16\n4,4\n", "a,2\n", [[0, 1]]),  # numbers from 1
        ("cpu,mem,count\n8,16,1\n4,4,1\n", "a,1\n", [[0, 0]]),
    ],
)
def test_blacklists_name_rows_or_machines(tmp_path: Path, machines: str, rows: str, barred: list[list[int]]) -> None:
    write(tmp_path, machines=machines)
    (tmp_path / "blacklist.csv").write_text(f"application,machine\n{rows}")
    assert read_folder(tmp_path).barred.tolist() == barred


@pytest.mark.parametrize(
    ("table", "row", "changes", "message"),
    [
        (
            "blacklist",
            "a,big-3",
            NAMED,
            "blacklist.csv: row 1: machine is 'big-3', which is no machine here; did you m",
        ),
        ("blacklist", "a,1", NAMED, "blacklist.csv: row 1: machine is 1, which is no machine here"),
        (
            "blacklist",
            "A,big",
            NAMED,
            "blacklist.csv: row 1: application is 'A', which is no application here; did you",
        ),
        ("blacklist", "a,1", {}, "machines.csv: row 1: count is 2, and blacklist.csv cannot say whether it means rows"),
        ("running", "a,big", NAMED, "running.csv: row 1: machine is 'big', which is no machine here"),
        ("running", "a,0", {}, "running.csv: row 1: machine is 0: must be a whole number from 1 to 3"),
    ],
)
def test_unknown_machines_are_named(
    tmp_path: Path, table: str, row: str, changes: dict[str, str], message: str
) -> None:
    write(tmp_path, **changes)
    (tmp_path / f"{table}.csv").write_text(f"application,machine\n{row}\n")
    with pytest.raises(InputError, match=re.escape(message)):
        read_folder(tmp_path)


def test_a_blacklist_of_too_many_pairs_is_refused(tmp_path: Path) -> None:
    write(tmp_path, machines="machine,cpu,mem,count\nbig,8,16,900000\n")
    (tmp_path / "blacklist.csv").write_text("application,machine\n" + "a,big\n" * 12)
    with pytest.raises(InputError, match=r"blacklist\.csv: row 12: 10,800,000 pairs of an application and a machine"):
        read_folder(tmp_path)


def test_tables_that_name_machines_need_those_machines(tmp_path: Path) -> None:
    """--machine replaces machines.csv: its names must not be taken for numbers of the others."""
    write(tmp_path, **NAMED)
    (tmp_path / "blacklist.csv").write_text("application,machine\na,7\n")
    with pytest.raises(InputError, match=r"blacklist\.csv names machines of machines\.csv"):
        read_folder(tmp_path, Fleet.of_kinds([[8.0, 16.0]], [9]))
    same = Fleet.of_kinds([[8.0, 16.0]] * 2, name=["x", "7"])
    assert read_folder(tmp_path, same).barred.tolist() == [[0, 1]]


def test_tables_with_a_header_alone_constrain_nothing(tmp_path: Path) -> None:
    problem = read_folder(write(tmp_path, affinity="group,application\n", anti_affinity="app_a,app_b,limit\n"))
    assert (len(problem.bundles), problem.instance.affinity.own.tolist()) == (0, [1, 2, 1])


@pytest.mark.parametrize("columns", ["cpu,mem,gpu", "gpu,cpu,mem"])
@pytest.mark.parametrize("name", ["Aladdin+H.2", "Tetris.1", "Medea(1,1,0)"])
def test_machines_may_lack_a_resource(tmp_path: Path, columns: str, name: str) -> None:
    """What asks for a GPU goes to the one machine with two; the third replica of it nowhere; the rest anywhere."""
    order = columns.split(",")
    rows = (
        [
            {"cpu": 1, "mem": 1, "gpu": 1},
            {"cpu": 3, "mem": 3, "gpu": 0},
        ],
        [{"cpu": 4, "mem": 4, "gpu": 0}, {"cpu": 8, "mem": 8, "gpu": 2}],
    )
    applications, machines = ([",".join(str(row[column]) for column in order) for row in table] for table in rows)
    text = {
        "applications.csv": f"application,replicas,{columns}\nlearn,3,{applications[0]}\nserve,2,{applications[1]}\n",
        "machines.csv": f"{columns}\n{machines[0]}\n{machines[1]}\n",
    }
    for file, content in text.items():
        (tmp_path / file).write_text(content)
    problem = read_folder(tmp_path)
    plan = make_plan(problem, name)
    machine = replicas_of(problem, plan)
    assert machine[:3] == [1, 1, NOWHERE]
    assert NOWHERE not in machine[3:]
    assert validate(problem, plan).over_capacity == 0


def test_missing_tables_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        read_folder(tmp_path / "none")
    (write(tmp_path) / "machines.csv").unlink()
    with pytest.raises(InputError, match=r"no machines\.csv; it has: affinity\.csv"):
        read_folder(tmp_path)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("blacklists.csv", "blacklist.csv"),
        ("antiaffinity.csv", "anti-affinity.csv"),
        ("anti_affinity.csv", "anti-affinity.csv"),
        ("Running.csv", "running.csv"),
        ("running.csv.gz", "running.csv"),
        ("affinities.csv", "affinity.csv"),
    ],
)
def test_misnamed_tables_are_refused(tmp_path: Path, name: str, meant: str) -> None:
    """Their rules would be left out unnoticed."""
    write(tmp_path)
    for optional in ("affinity.csv", "anti-affinity.csv"):
        (tmp_path / optional).unlink()
    (tmp_path / name).write_text("application,machine\n")
    with pytest.raises(InputError, match=re.escape(f"{name}: no table of this name is read: did you mean '{meant}'?")):
        read_folder(tmp_path)


def test_other_tables_are_said_not_to_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """prices.csv is like no table, and the copy is beside its table; what is no CSV file is nobody's table."""
    for name in ("prices.csv", "machines-old.csv", "notes.txt"):
        (write(tmp_path) / name).write_text("x\n")
    read_folder(tmp_path)
    said = capsys.readouterr().err
    assert "prices.csv is not read: tables are called applications.csv, machines.csv" in said
    assert "machines-old.csv is not read" in said
    assert "notes.txt" not in said
