"""tvwrl place from end to end: its files, and what bad input gets to hear."""

import errno
import json
import os

import polars as pl
import pytest

TABLES = {
    "applications.csv": "application,replicas,cpu,mem\nweb,2,2,2\ncache,2,1,4\nbatch,1,3,1\nhuge,1,99,1\n",
    "machines.csv": "cpu,mem,count\n4,8,2\n8,8,1\n",
    "affinity.csv": "group,application\nfront,web\nfront,cache\n",
    "anti-affinity.csv": "app_a,app_b,limit\nweb,batch,0\nweb,web,1\n",
}


@pytest.fixture
def folder(tmp_path):
    """Tables of three machines; one application is larger than all of them."""
    made = tmp_path / "mine"
    made.mkdir()
    for name, text in TABLES.items():
        (made / name).write_text(text)
    return made


def test_a_folder_of_tables(call, folder, tmp_path):
    out = tmp_path / "out"
    done = call("place", "--instance", folder, "--planners", "Aladdin+H.2,Tetris.1", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "mine: 4 applications, 6 replicas, 3 machines, 2 limits, 1 affinity group" in done.stdout
    assert "Aladdin+H.2: without a machine: 1 of 'huge': it needs 99, 1" in done.stdout
    assert "not all replicas can be placed: 'huge': it needs 99, 1" in done.stdout
    assert "nan" not in done.stdout
    assert done.stdout.endswith(f"open {out / 'explorer.html'} in a browser to see what is on every machine\n")
    assert (out / "explorer.html").exists()
    rows = pl.read_csv(out / "rows.csv")
    assert rows["planner"].to_list() == ["Aladdin+H.2", "Tetris.1"]
    assert rows.row(0, named=True)["violations"] == 0
    placed = pl.read_parquet(out / "plan.parquet").filter(pl.col("planner") == "Aladdin+H.2")
    assert placed.columns == ["planner", "application", "machine", "replicas"]
    assert placed["replicas"].sum() == 5
    where = {name: set(own["machine"]) for (name,), own in placed.group_by("application")}
    assert where["web"] == where["cache"]
    assert len(where["web"]) == 2
    assert not where["web"] & where["batch"]
    left = pl.read_csv(out / "unplaced.csv")
    assert left.columns == ["planner", "application", "replicas", "reason"]
    assert left["application"].to_list() == ["huge", "huge"]
    assert json.loads((out / "run.json").read_text())["planners"] == ["Aladdin+H.2", "Tetris.1"]


def test_planners_are_listed_by_how_they_place(call):
    listed = call("place", "--list-planners").stdout
    assert "by flow through groups of machines (fixed fleets only):\n  Aladdin+H.2(LRF), " in listed
    assert "without regard to constraints (fixed fleets only, may break limits):\n  Tetris.1, " in listed
    assert "within a time budget:\n  best\n" in listed
    assert "  {pull}: DotProduct, L2Norm, Fitness, TightFill\n" in listed
    assert "  {strategy}: BinSearch, Decr1 to Decr99\n" in listed


def test_a_full_disk_leaves_nothing(call, folder, tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("tvwrl.planning.suite.write_json", full)
    done = call("place", "--instance", folder, "--planners", "Tetris.1", "--out", tmp_path / "out")
    assert (done.returncode, done.stderr) == (2, "error: No space left on device\n")
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_drawn_problems_and_names_with_commas(call, tmp_path):
    out = tmp_path / "out"
    size = ("--machines", 30, "--replicas", 200, "--demand", 0.5)
    done = call("place", *size, "--planners", "Medea(1,0.5,0.5),Graphene.4", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "a plan that places all replicas without a violation needs at least" in done.stdout
    assert pl.read_csv(out / "rows.csv")["planner"].to_list() == ["Medea(1,0.5,0.5)", "Graphene.4"]
    assert pl.read_csv(out / "unplaced.csv").is_empty()


def test_a_bound_above_the_machines_says_that_not_all_can_be_placed(call, folder, tmp_path):
    """Nine that must be apart, and five machines: 9 > 5; then more demand than there is."""
    for name in ("affinity.csv", "anti-affinity.csv"):
        (folder / name).unlink()
    (folder / "machines.csv").write_text("cpu\n" + 5 * "4\n")
    (folder / "applications.csv").write_text("application,replicas,limit,cpu\nweb,9,1,1\n")
    done = call("place", "--instance", folder, "--planners", "Medea(1,1,1)", "--out", tmp_path / "apart")
    assert (
        "not all replicas can be placed: without a violation that takes at least 9 machines, and there are 5"
        in done.stdout
    )
    (folder / "applications.csv").write_text("application,replicas,cpu\nweb,2000,3\n")
    done = call("place", "--instance", folder, "--planners", "Medea(1,1,0)", "--out", tmp_path / "many")
    assert "together they demand more than the machines that may hold them have" in done.stdout
    assert "Medea(1,1,0): without a machine: 1,995 of 'web'" in done.stdout
    assert "nan" not in done.stdout


def test_bad_input_is_refused(call, refused, folder, tmp_path):
    refused("place", "--planners", "Best", message=["there is no planner 'Best': did you mean best"])
    refused("place", "--planners", "FOO", message=["there is no planner 'FOO': tvwrl place --list-planners lists all"])
    refused("place", "--planners", "Medea(0,0,0)", message=["weights are 0, 0, 0: at least one must be above 0"])
    refused("place", "--planners", "Aladdin+H.4-none-still", message=["did you mean Aladdin+H.4"])
    refused("place", "--planners", "Tetris.1,Tetris.1", message=["must be different values"])
    refused("place", "--machines", 3, message=["machines is 3: must be 23 to 1000000"])
    refused(
        "place",
        "--instance",
        tmp_path / "none",
        message=["there is no file or folder", "must be generated, a folder with"],
    )
    refused(
        "place",
        "--instance",
        folder,
        "--demand",
        0.5,
        message=["demand is 0.5: must be left out, as only generated problems"],
    )
    refused("place", "--times", 98, message=["times is 98: must be left out, as the demand of generated problems"])
    refused("place", "--instance", folder, "--machines", 2, message=["machines is 2: must be left out"])
    refused(
        "place",
        "--instance",
        folder,
        "--replicas",
        2,
        message=["replicas is 2: must be left out, as only generated"],
    )
    (folder / "affinity.csv").write_text("group,application\nfront,nobody\n")
    refused("place", "--instance", folder, message=["affinity.csv: row 1, group 'front': application is 'nobody'"])
    done = call("place", "--machines", 30, "--out", folder)
    assert done.returncode == 2
    assert "already exists and is not empty" in done.stderr
