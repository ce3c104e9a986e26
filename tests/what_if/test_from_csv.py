"""Tables of a user: what is read, and how what is wrong in one is refused."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from tvwrl.types import InputError
from tvwrl.what_if.from_csv import read_csv_record

HEAD = "pod,time,cpu,memory,node,request_cpu,request_memory,owner\n"


def test_columns_by_hand(tables):
    usage = (
        "x/one,2026-01-05T00:00:00Z,1,4,a,2,,x/deployment/one\n"
        "x/one,1767571260,3,4,,2,,\n"
        "x/one,2026-01-05T01:05:00+01:00,1,8,a,2,,\n"
    )
    found = read_csv_record(*tables(HEAD + usage), 300)
    assert found.origin == 1767571200
    assert (found.usage[0] * found.reference).tolist() == [[2, 4], [1, 8]]  # two samples of the first slot: their mean
    np.testing.assert_array_equal(found.request * found.reference, [[2, np.nan]])
    assert (found.owner.tolist(), found.node_name.tolist()) == (["x/deployment/one"], ["a", "b"])


def test_each_run_of_a_pod_has_its_own_requests(tables):
    """A pod of a StatefulSet that asked for less after it had moved, and for none when it came back hours later."""
    runs = [
        *(f"x/db-0,{300 * slot},1,1,a,{2 + slot},3,\n" for slot in range(2)),
        *(f"x/db-0,{300 * slot},1,1,b,1,2,\n" for slot in range(2, 4)),
        *(f"x/db-0,{300 * slot},1,1,b,,,\n" for slot in range(40, 42)),
        *(f"x/other,{300 * slot},1,1,a,1,1,\n" for slot in range(42)),
    ]
    found = read_csv_record(*tables(HEAD + "".join(runs)), 300)
    assert found.pod.tolist() == ["x/db-0", "x/db-0#2", "x/db-0#3", "x/other"]
    expected = [[3, 3], [1, 2], [np.nan, np.nan], [1, 1]]
    np.testing.assert_array_equal(found.request * found.reference, expected)
    assert found.trust.without_cpu_request == 1
    assert found.trust.overasked == ""  # 3 + 1 of 4 cores at most, and never the first run's on the second's node


def test_only_four_columns_are_needed_but_then_nobody_knows_where_pods_ran(tables):
    with pytest.raises(InputError, match=r"no pod is on a node whose size is known.*of pods: none; with a size: a, b"):
        read_csv_record(*tables("pod,time,cpu,memory\nx/one,0,1,4\n"), 300)
    found = read_csv_record(*tables("pod,time,cpu,memory,node\nx/one,0,1,4,a\n"), 300)
    assert (found.trust.without_cpu_request, found.trust.without_owner) == (1, 1)


@pytest.mark.parametrize(
    ("usage", "message"),
    [
        ("pod,time,cpu,node\nx,0,1,a\n", "usage.csv: no column 'memory'; the columns are: pod, time, cpu, node"),
        ("pod,time,cpu,memory,nodes\nx,0,1,1,a\n", "usage.csv: column 'nodes' is no column.*did you mean 'node'"),
        ("pod,time,cpu,memory,node\n", "usage.csv: no rows under the header"),
        ("pod,time,cpu,memory,node\nx,0,1,1,a\n,0,1,1,a\n", "usage.csv: row 2: pod is empty"),
        ("pod,time,cpu,memory,node\nx,0,-1,1,a\n", "usage.csv: row 1: cpu is -1: must be a number from 0 to 100000"),
        (
            "pod,time,cpu,memory,node\nx,0,nan,1,a\n",
            "usage.csv: row 1: cpu is 'nan': must be a number from 0 to 100000",
        ),
        ("pod,time,cpu,memory,node\nx,0,1,17179869184,a\n", "row 1: memory is 17179869184: must be a number from 0 to"),
        ("pod,time,cpu,memory,node\nx,0,1,1,a\nx,noon,1,1,a\n", "row 2: time is 'noon': needed: 2026-01-31T12:00:00Z"),
        ("pod,time,cpu,memory,node\nx,,1,1,a\n", "row 1: time is empty: needed: 2026-01-31T12:00:00Z"),
        ("pod,time,cpu,memory,node,request_cpu\nx,0,1,1,a,lots\n", "row 1: request_cpu is 'lots': must be a number"),
    ],
)
def test_bad_usage(tables, usage, message):
    with pytest.raises(InputError, match=message):
        read_csv_record(*tables(usage), 300)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("node,cpu\na,4\n", "nodes.csv: no column 'memory'"),
        ("node,cpu,memory\na,0,16\n", "nodes.csv: row 1: cpu is 0: must be a number above 0"),
        ("node,cpu,memory\na,4,16\na,4,16\n", "nodes.csv: row 2: node is 'a', as in a row above"),
    ],
)
def test_bad_nodes(tables, nodes, message):
    with pytest.raises(InputError, match=message):
        read_csv_record(*tables("pod,time,cpu,memory,node\nx,0,1,1,a\n", nodes), 300)


def test_another_unit_is_noticed(tables):
    """1,500 millicores, taken for cores, on nodes of 8 cores in all."""
    with pytest.raises(
        InputError, match=r"usage\.csv: column cpu: the pods use 18750% of what .* have; it must be in cores"
    ):
        read_csv_record(*tables("pod,time,cpu,memory,node\nx,0,1500,1,a\n"), 300)


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        (["x,0,1,1,a,,,", " x,300,1,1,a,,,"], "row 2: pod is ' x', but 'x' in row 1: blanks around a name"),
        (["x,0,1,1,a,,,", "y,0,1,1,a ,,,"], "row 2: node is 'a ', but 'a' in row 1: blanks around a name"),
        (["x,0,1,1,a,,,o", "y,0,1,1,a,,,\to"], "row 2: owner is '.to', but 'o' in row 1: blanks around a name"),
        ([" x, 0, 1, 1, a,,, o", " y, 0, 1, 1, a,,, o"], ""),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_names_that_differ_only_in_blanks_are_refused(tables, kind, rows, fault):
    usage, nodes = tables(HEAD + "\n".join(rows) + "\n")
    if kind == "parquet":
        frame = pl.read_csv(usage, infer_schema=False)
        numbers = pl.col("time", "cpu", "memory").str.strip_chars().cast(pl.Float64)
        frame.with_columns(numbers).write_parquet(usage := usage.with_suffix(".parquet"))
    if fault:
        with pytest.raises(InputError, match=fault):
            read_csv_record(usage, nodes, 300)
    else:
        found = read_csv_record(usage, nodes, 300)
        assert (found.pod.tolist(), found.owner.tolist()) == (["x", "y"], ["o", "o"])
