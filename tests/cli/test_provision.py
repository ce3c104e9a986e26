"""tvwrl provision from end to end: its files, and what bad input gets to hear."""

import json

import polars as pl
import pytest

HEADER = "app_id\tnb_instances\tcore\tmemory\tinter_degree\tinter_aff\n"
ROWS = ["1\t3\t2\t2\t1\t[(2, 1)]", "2\t2\t1\t3\t0\t[]", "3\t1\t4\t1\t0\t[]"]
MACHINE = ["--machine", 4, 8]  # three by volume, but application 2 may not be beside 1 twice: four


@pytest.fixture
def write(tmp_path):
    """Writes an instance of these rows."""

    def file(*rows):
        path = tmp_path / "hand.csv"
        path.write_text(HEADER + "".join(row + "\n" for row in rows))
        return path

    return file


def test_plans_are_written_and_pass_verification(call, write, tmp_path):
    instance, out = write(*ROWS), tmp_path / "out"
    names = "FF,SpreadWFD-Avg-BinSearch,WFD-AvgExp"
    done = call("provision", "--instance", instance, *MACHINE, "--planners", names, "--out", out)
    assert done.returncode == 0, done.stderr
    rows = pl.read_csv(out / "rows.csv")
    assert {"instance", "planner", "machines", "bound", "above_bound_pct", "seconds", "peak_mb"} <= set(rows.columns)
    assert rows["planner"].to_list() == names.split(",")
    assert rows["bound"].to_list() == [3, 3, 3]  # 12 cores on machines of 4
    plans = pl.read_parquet(out / "plan.parquet")
    assert plans.columns == ["planner", "application", "machine", "replicas"]
    totals = plans.group_by("planner", "application").agg(pl.col("replicas").sum()).sort("planner", "application")
    assert totals["replicas"].to_list() == [3, 2, 1] * 3
    assert plans.group_by("planner").agg(pl.col("machine").n_unique())["machine"].sort().to_list() == sorted(
        rows["machines"]
    )
    assert (out / "trade-off.png").exists()
    assert (out / "explorer.html").exists()
    facts = json.loads((out / "run.json").read_text())
    assert (facts["applications"], facts["replicas"], facts["limits"]) == (3, 6, 1)
    checked = call("provision", "--instance", instance, *MACHINE, "--verify", out / "plan.parquet")
    assert checked.returncode == 0
    assert "no rule is broken" in checked.stdout
    smaller = call("provision", "--instance", instance, "--machine", 4, 3, "--verify", out / "plan.parquet")
    assert smaller.returncode == 1
    assert "mem 4 of 3" in smaller.stdout


def test_the_integer_programme_and_slack(call, write, tmp_path):
    instance, out = write(*ROWS), tmp_path / "out"
    done = call("provision", "--instance", instance, *MACHINE, "--milp-seconds", 10, "--out", out)
    assert done.returncode == 0, done.stderr
    row = pl.read_csv(out / "rows.csv").row(0, named=True)
    assert (row["planner"], row["machines"], row["bound"], row["above_bound_pct"]) == ("MILP", 4, 4, 0.0)
    slack = ["--machine", 8, 16, "--slack", 0.5, "--planners", "FF", "--out", tmp_path / "slack"]
    done = call("provision", "--instance", instance, *slack)
    assert done.returncode == 0, done.stderr
    assert pl.read_csv(tmp_path / "slack" / "rows.csv")["bound"].item() == 3


def test_a_fixed_fleet_of_two_kinds(call, write, tmp_path):
    fleet = ["--machine", 4, 8, "--machine", 2, 4, "--counts", 1, 2, "--fixed"]
    done = call("provision", "--instance", write(*ROWS), *fleet, "--planners", "FF", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    row = pl.read_csv(tmp_path / "out" / "rows.csv").row(0, named=True)
    # two of 1 on the first machine, one on the second; 2 beside no 1 goes to the third: 1 replica; 3 is too large
    assert (row["machines"], row["left_over"]) == (3, 2)


@pytest.mark.slow
def test_the_best_plan(call, write, tmp_path):
    instance, out = write(*ROWS), tmp_path / "out"
    done = call("provision", "--instance", instance, *MACHINE, "--seconds", 1, "--out", out)
    assert done.returncode == 0, done.stderr
    assert pl.read_csv(out / "rows.csv").select("planner", "machines").row(0) == ("best", 4)


def test_a_trace_is_planned_and_handed_over(call, trace, tmp_path):
    out = tmp_path / "out"
    asked = ["--planners", "FF", "--times", 4, "--hand-over", "--out", out]
    done = call("provision", "--instance", trace, "--machine", 2, 2, *asked)
    assert done.returncode == 0, done.stderr
    assert "overshoot 0 %" in done.stdout
    assert (out / "hand-over" / "episodes.parquet").exists()


def test_bad_instances(refused, write):
    for row, message in (
        ("4\t1\t5\t1\t0\t[]", ["application '4' needs 5, 1", "larger than every machine"]),
        ("4\t0\t1\t1\t0\t[]", ["hand.csv: line 5", "nb_instances is '0'"]),
    ):
        refused("provision", "--instance", write(*ROWS, row), *MACHINE, "--planners", "FF", message=message)


def test_bad_plans(refused, write, tmp_path):
    instance, file = write(*ROWS), tmp_path / "plan.parquet"
    plan = {"planner": ["X"] * 3, "application": ["1", "2", "3"], "machine": ["1", "2", "3"], "replicas": [2, 2, 1]}
    pl.DataFrame(plan).write_parquet(file)
    message = ["plan.parquet: row 1: X places 2 replicas of application '1': it has 3"]
    refused("provision", "--instance", instance, *MACHINE, "--verify", file, message=message)
    file.write_text("planner")
    refused("provision", "--instance", instance, *MACHINE, "--verify", file, message=["not a readable Parquet"])
    pl.DataFrame(plan).write_csv(table := tmp_path / "plan.csv")
    message = ["plan.csv: row 1: X places 2 replicas of application '1': it has 3"]
    refused("provision", "--instance", instance, *MACHINE, "--verify", table, message=message)


def test_a_folder_has_its_own_machines_and_limits(refused, tmp_path):
    (tmp_path / "applications.csv").write_text("application,replicas,cpu\na,2,1\n")
    (tmp_path / "machines.csv").write_text("cpu\n4\n")
    for options, message in (
        (("--slack", 0.1), "--slack is 0.1: must be left out without --machine"),
        (("--costs", 2), "--costs is (2.0,): must be left out without --machine"),
        (("--times", 2), "times is 2: must be left out"),
        (("--times", 2, "--machine", 8), "must be left out, as a folder of tables has its own"),
    ):
        refused("provision", "--instance", tmp_path, *options, message=[message])


def test_bad_options(refused, write, tmp_path):
    def check(*options, message):
        refused("provision", "--instance", instance, *options, message=message)

    instance = write(*ROWS)
    check(message=["no machines are given", "--machine 32 64 (cpu, mem), or --machines-file"])
    check("--machine", 4, message=["machine has 1 number: must be 2 (cpu, mem)"])
    check("--machine", 4, -8, "--planners", "FF", message=["capacity is"])
    check(*MACHINE, "--fixed", message=["--counts"])
    check(*MACHINE, "--slack", 1, message=["slack is 1.0"])
    check(*MACHINE, "--planners", "FF,BDF-Avg", message=["no planner 'BDF-Avg'", "did you mean", "--list-planners"])
    check(*MACHINE, "--planners", "FF,FF", message=["planners is FF, FF: must be different values"])
    check(*MACHINE, "--best", "--seconds", -1, message=["seconds is -1.0"])
    check(*MACHINE, "--planners", "FF", "--hand-over", message=["--hand-over needs a canonical trace"])
