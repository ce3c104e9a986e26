"""tvwrl size from end to end: a user's own tables, the simulated testbed, and bad input."""

import csv
import json

import pytest

HISTORY = "application,configuration,performance,cpu,mem,collocation\n"
CONFIGURATIONS = {"s": (1, 1, 1), "m": (2, 1, 1), "l": (4, 4, 1), "m2": (2, 1, 2), "m4": (2, 1, 4)}
CURVE = {"s": 0.2, "m": 0.5, "l": 0.8, "m2": 0.4, "m4": 0.2}


@pytest.fixture
def tables(tmp_path):
    """Paths of tables made by hand: ten earlier applications, and a new one of level 0.1 measured in two sizes."""
    rows = [
        f"a{i},{name},{CURVE[name] + 0.01 * i:.2f},{','.join(map(str, numbers))}\n"
        for i in range(20)
        for name, numbers in CONFIGURATIONS.items()
    ]
    history, new = tmp_path / "history.csv", tmp_path / "new.csv"
    history.write_text(HISTORY + "".join(rows))
    new.write_text("application,configuration,performance\nmine,s,0.3\nmine,l,0.9\n")
    return history, new


def test_a_users_own_tables(call, tables, tmp_path):
    history, new = tables
    out = tmp_path / "out"
    done = call("size", "--profiles", history, "--measured", new, "--goal", 0.45, "--out", out)
    assert done.returncode == 0, done.stderr
    found = json.loads((out / "recommendation.json").read_text())
    assert (found["configuration"], found["collocation"], found["reached"]) == ("m2", 2, True)
    assert found["probability"] > 0.9
    assert "Recommended: m2" in done.stdout
    assert "imulated" not in done.stdout
    assert "Left out" not in done.stdout
    rows = list(csv.DictReader((out / "curve.csv").open()))
    assert [row["configuration"] for row in rows] == ["s", "m", "m2", "m4", "l"]
    assert [row["chosen"] for row in rows] == ["False", "False", "True", "False", "False"]
    assert [row["measured"] for row in rows] == ["0.3", "", "", "", "0.9"]
    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_configurations_that_nobody_was_measured_in_are_left_out_and_named(call, refused, tables, tmp_path):
    history, new = tables
    table = tmp_path / "configurations.csv"
    rows = {"xs": (0.5, 1, 1), **CONFIGURATIONS, "xl": (8, 8, 1)}
    lines = [f"{name},{','.join(map(str, numbers))}\n" for name, numbers in rows.items()]
    table.write_text("configuration,cpu,mem,collocation\n" + "".join(lines))
    asked = ["--profiles", history, "--measured", new, "--configurations", table]
    done = call("size", *asked, "--goal", 0.1, "--out", tmp_path / "found")
    assert done.returncode == 0, done.stderr
    assert "no application of history.csv was measured in: xs, xl.\n" in done.stdout
    with (tmp_path / "found" / "curve.csv").open() as file:
        assert {row["configuration"] for row in csv.DictReader(file)} <= set(CONFIGURATIONS)
    new.write_text("application,configuration,performance\nmine,s,0.3\nmine,xl,0.9\n")
    refused("size", *asked, message=["'xl' was measured in no earlier application"])


def test_without_files_it_simulates_and_says_so(call, tmp_path):
    done = call("size", "--earlier", 12, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "SIMULATED" in done.stdout
    assert "SIMULATED" in json.loads((tmp_path / "out" / "recommendation.json").read_text())["source"]


def test_bad_input_is_refused(refused, tables, tmp_path):
    history, new = tables
    both = ["--profiles", history, "--measured", new]
    refused("size", *both, "--goal", "fast", message=["goal is 'fast'"])
    refused("size", "--profiles", history, message=["give --profiles (earlier applications), and --measured"])
    refused("size", *both, "--simulate", message=["--simulate cannot be combined"])
    refused("size", "--earlier", 1, message=["earlier is 1: must be at least 2"])
    new.write_text("application,configuration,performance\nmine,xl,0.5\n")
    refused("size", *both, message=["new.csv: row 1: configuration is 'xl'"])
    new.write_text("application,configuration,performance\nmine,s,0.5\nyours,s,0.5\n")
    refused("size", *both, message=["holds 2 applications"])
    refused("size", "--profiles", tmp_path / "none.csv", "--measured", new, message=["none.csv"])
