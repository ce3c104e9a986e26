"""CSV lists of applications and machines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tvwrl.planning.instance import NO_LIMIT
from tvwrl.planning.sources.lists import read_machines
from tvwrl.planning.sources.open_problem import open_instance
from tvwrl.types import InputError


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_applications_of_a_batch(tmp_path: Path) -> None:
    path = written(tmp_path / "batch.csv", "application,replicas,limit,cpu,mem\nweb,6,2,2,4\ndb,1,1,0.5,16\n")
    instance = open_instance(path)
    assert (instance.name, instance.resources, instance.application.tolist()) == (
        "batch",
        ("cpu", "mem"),
        ["web", "db"],
    )
    assert instance.demand.tolist() == [[[2.0, 4.0]], [[0.5, 16.0]]]
    assert (instance.replicas.tolist(), instance.affinity.own.tolist()) == ([6, 1], [2, 1])


def test_without_limits_any_number_shares_a_machine(tmp_path: Path) -> None:
    instance = open_instance(written(tmp_path / "a.csv", "application,replicas,cpu\nweb,6,2\n"))
    assert len(instance.affinity) == 0


def test_headers_may_be_quoted_and_spaced(tmp_path: Path) -> None:
    instance = open_instance(written(tmp_path / "a.csv", '\ufeff"application","replicas", cpu\nweb,6,2\n'))
    assert (instance.application.tolist(), instance.resources) == (["web"], ("cpu",))


def test_machines_are_rows_or_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "m.csv", "mem,cpu,count\n32,8,2\n16,4,1\n")
    counted = read_machines(path, ("cpu", "mem")).fleet(fixed=True)
    assert counted.capacity.tolist() == [[8.0, 32.0], [8.0, 32.0], [4.0, 16.0]]
    assert (counted.cost, counted.names_of(np.arange(3))) == (None, ["1", "2", "3"])
    assert read_machines(written(path, "cpu\n8\n4\n"), ("cpu",)).fleet(fixed=True).capacity.tolist() == [[8.0], [4.0]]
    priced = read_machines(written(path, "cpu,cost\n8,2.5\n4,1\n"), ("cpu",)).fleet(fixed=True)
    assert priced.costs.tolist() == [2.5, 1.0]


def test_machines_have_names(tmp_path: Path) -> None:
    """NAME-1, NAME-2 of a row with a count; 7 and 007 are two names; those added are called after the last."""
    path = written(tmp_path / "m.csv", 'machine,cpu,count\n 7 ,8,1\n007,8,1\n"rack 1, left",8,2\n')
    fleet = read_machines(path, ("cpu",)).fleet(fixed=False)
    left = [f"rack 1, left-{end}" for end in ("1", "2", "2+1", "2+2")]
    assert fleet.names_of(np.arange(6)) == ["7", "007", *left]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("machine,cpu\nx,1\ny,1\nx,2\n", "row 3: machine 'x' is given a second time"),
        ("machine,cpu\nx,1\n,1\n", "row 2: machine is empty"),
        ("machine,cpu,count\nx,1,2\nx-2,1,1\n", "row 2: machine 'x-2' is given a second time: the 2 machines of 'x'"),
        ("machine,cpu,count\nx-2,1,3\nx,1,2\n", "row 1: machine 'x-2' is given a second time: the 2 machines of 'x'"),
        ("cpu,count\n1,2147483646\n", "row 1: count is 2147483646: must be a whole number from 1 to 1000000"),
        ("cpu,count\n1,900000\n1,900000\n", "row 2: count is 900000, 1,800,000 with those above: must be at most"),
        ("cpu,count\n1,\n", "row 1: count is empty"),
        ("cpu,count\n1,nan\n", "row 1: count is 'nan'"),
        ("cpu,count\n1,-1\n", "row 1: count is -1"),
        ("cpu,count\n1,1e308\n", "row 1: count is 1e308"),
        ("cpu\n1e308\n", r"row 1: cpu is 1e308: must be a number from 0 to 1e\+18"),
        ("cpu\n1e-300\n", "row 1: cpu is 1e-300: must be 0 or at least 1e-12"),
        ("cpu,cost\n1,1e308\n", "row 1: cost is 1e308"),
        ("cpu,cost\n1,-1\n", "row 1: cost is -1"),
        ("cpu;count\n1;2\n", "the columns are separated by ';'"),
    ],
)
def test_bad_rows_of_machines_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=rf"m\.csv: {message}"):
        read_machines(written(tmp_path / "m.csv", text), ("cpu",)).fleet(fixed=True)


def test_names_of_machines_that_are_added_are_kept_free(tmp_path: Path) -> None:
    table = read_machines(written(tmp_path / "m.csv", "machine,cpu\nx+1,1\nx,1\n"), ("cpu",))
    assert table.fleet(fixed=True).names_of(np.arange(2)) == ["x+1", "x"]
    with pytest.raises(InputError, match=r"machine 'x\+1' is called as one that is added, like 'x'"):
        table.fleet(fixed=False)


def test_a_replica_may_request_nothing(tmp_path: Path) -> None:
    instance = open_instance(written(tmp_path / "a.csv", "application,replicas,cpu,mem\nweb,2,0,0\n"))
    assert instance.demand.tolist() == [[[0.0, 0.0]]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("application,replicas,cpu\nweb,0,2\n", "row 1: replicas is 0: must be a whole number from 1 to 10000000"),
        ("application,replicas,cpu\nweb,1,2\ndb,1.5,2\n", "row 2: replicas is 1.5: must be a whole number"),
        ("application,replicas,cpu\nweb,1,-2\n", "row 1: cpu is -2"),
        ("application,replicas,cpu\nweb,1,NaN\n", "row 1: cpu is 'NaN'"),
        ("application,replicas,cpu\na,1,1\nb,1,1\nn,1, two ,\n", "row 3 has 4 values: must be at most 3: application"),
        ("application,replicas,cpu,mem\na,1,1,1\nb,1,1,1\nn,1, two ,1\n", "row 3: cpu is 'two': must be a number"),
        ("application,replicas,cpu\na,1,1\nweb,1,\n", "row 2: cpu is empty: must be a number"),
        ("application,replicas,cpu\na,1,1\nweb,1\n", "row 2: cpu is empty: must be a number"),
        ("application,replicas,cpu,cpu\nweb,1,1,1\n", "column 'cpu' is given 2 times"),
        ("application,replicas,cpu,\nweb,1,1,1\n", "column 4 has no name"),
        (
            "app,copies,cpu\nweb,1,1\n",
            r"bad\.csv: the columns are app, copies, cpu: a list of applications needs application and replicas",
        ),
        ("application,replicas,Limit,cpu\nweb,1,1,1\n", "column 'Limit' would be a resource: did you mean 'limit'"),
        ("application,replicas,limits,cpu\nweb,1,1,1\n", "column 'limits' would be a resource: did you mean 'limit'"),
        ("application,replica,cpu\nweb,1,1\n", "column 'replica' would be a resource: did you mean 'replicas'"),
        (
            "applications,replicas,cpu\nweb,1,1\n",
            "column 'applications' would be a resource: did you mean 'application'",
        ),
        ("application,replicas,limit,cpu\nweb,1,0,2\n", "row 1: limit is 0"),
        ("application,replicas,cpu\nweb,1,2\nweb,1,2\n", "row 2: application 'web' is given a second time"),
        ("application,replicas\nweb,1\n", "no column of a resource"),
        ("application,replicas,cpu\n", "no rows"),
        (
            "application,replicas,cpu\nweb,2147483646,2\n",
            "row 1: replicas is 2147483646: must be a whole number from 1",
        ),
        ("application,replicas,cpu\na,9000000,1\nb,9000000,1\n", "row 2: replicas is 9000000, 18,000,000 with those"),
        ("application,replicas,cpu\nweb,1,1e308\n", r"row 1: cpu is 1e308: must be a number from 0 to 1e\+18"),
        ("application,replicas,cpu\nweb,1,1e-300\n", "row 1: cpu is 1e-300: must be 0 or at least 1e-12"),
        ('application,replicas,cpu\nweb,"1,000",1\n', "row 1: replicas is '1,000'"),
        ("application;replicas;cpu\nweb;1;1\n", "the columns are separated by ';': must be by ','"),
        ("application,replicas,cpu,cost\nweb,1,1,1\n", "column 'cost': a resource cannot be called so"),
        ("application,replicas,cpu\n  ,1,1\n", "row 1: application is empty"),
        ("application,replicas,limit,cpu\nweb,1,2147483647,2\n", "row 1: limit is 2147483647"),
    ],
)
def test_bad_rows_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_instance(written(tmp_path / "bad.csv", text))


def test_blanks_are_left_out_and_no_limit_is_none(tmp_path: Path) -> None:
    text = "application,replicas,limit,cpu\n web , 6 , , 2 \n,,,\ndb,1,1, 4\n"
    instance = open_instance(written(tmp_path / "a.csv", text))
    assert (instance.application.tolist(), instance.demand.ravel().tolist()) == (["web", "db"], [2.0, 4.0])
    assert instance.affinity.own.tolist() == [NO_LIMIT, 1]


def test_columns_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "m.csv", "cpu,Count\n4,8\n")
    with pytest.raises(InputError, match=r"column 'Count' is no resource of the applications: .* mean 'count'"):
        read_machines(path, ("cpu",))
    with pytest.raises(InputError, match=r"column 'rack' is no resource of the applications: .*; leave it out"):
        read_machines(written(path, "cpu,rack\n4,8\n"), ("cpu",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cpu,mem,price\n4,8,1\n", "m.csv: column 'price' is no .*; did you mean 'cost'. Rename it in this file"),
        ("cpu,memory\n4,8\n", "m.csv: column 'memory' is no .*; did you mean 'mem'. Rename it in this file"),
        (
            "cpu\n4\n",
            "m.csv: no column 'mem', which the applications need; .* Add it here, or rename or remove it where",
        ),
    ],
)
def test_the_file_to_mend_is_said(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_machines(written(tmp_path / "m.csv", text), ("cpu", "mem"))


def test_a_table_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_bytes(b"cpu\n\xff\xfe\n")
    with pytest.raises(InputError, match=r"m\.csv: line 2: byte 0xff is not UTF-8"):
        read_machines(tmp_path / "m.csv", ("cpu",))
    with pytest.raises(InputError, match="the file is empty"):
        read_machines(written(tmp_path / "m.csv", "\n"), ("cpu",))


def test_full_machines_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "m.csv", "cpu,mem\n4,8\n4,0\n")
    with pytest.raises(InputError, match="row 2: mem is 0: leave out machines"):
        read_machines(path, ("cpu", "mem"))
    assert read_machines(path, ("cpu", "mem"), some_lack=True).free.tolist() == [[4, 8], [4, 0]]
    with pytest.raises(InputError, match="no machine has any mem"):
        read_machines(written(path, "cpu,mem\n4,0\n"), ("cpu", "mem"), some_lack=True)
    with pytest.raises(InputError, match="row 2: cpu is 0: leave out machines"):
        read_machines(written(path, "cpu,mem\n4,1\n0,0\n"), ("cpu", "mem"), some_lack=True)


def test_applications_that_differ_only_in_blanks_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "application,replicas,cpu\nweb,6,2\n web,1,1\n")
    with pytest.raises(InputError, match=r"a\.csv: row 2: application is ' web', but 'web' in row 1: blanks around"):
        open_instance(path)
