"""scripts/reproduce.py pism-...: from the command line to tables and plots."""


def test_a_figure_and_bad_settings(call, refused, tmp_path):
    out = tmp_path / "figure"
    small = ("--preset", "smoke", "--laws", "control", "--rounds", 0, "--learns", 60, "--minutes", 28)
    done = call("reproduce.py", "pism-fig12", *small, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "(simulated)" in done.stdout
    expected = {"rows.csv", "table.md", "plot-control.png", "run.json"}
    assert {path.name for path in (out / "fig12").iterdir()} == expected
    refused("reproduce.py", "pism-fig13", "--laws", "none", said=["laws is 'none'"])
    refused("reproduce.py", "pism-table3", "--data", tmp_path / "none", *small, said=["ali18_usage_tasks.csv.gz"])
