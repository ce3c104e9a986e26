"""tvwrl reproduce pism-...: options from the command line; tests/papers/test_pism.py makes the figures."""


def test_cells_of_a_figure_and_bad_settings(call, refused, tmp_path):
    small = ("--preset", "smoke", "--laws", "control", "--rounds", 0, "--learns", 60, "--minutes", 28)
    done = call("reproduce", "pism-fig12", *small, "--dry-run", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "control-6-24-28-1-0/pism+learnt-once" in done.stdout
    refused("reproduce", "pism-fig13", "--laws", "none", message=["laws is 'none'"])
    refused("reproduce", "pism-table3", "--data", tmp_path / "none", *small, message=["ali18_usage_tasks.csv.gz"])
