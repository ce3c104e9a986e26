"""scripts/reproduce.py lrasched-...: from the command line to tables and plots."""


def test_a_figure_and_bad_settings(call, refused, tmp_path):
    out = tmp_path / "figure"
    done = call("reproduce.py", "lrasched-fig2", "--seeds", "1,2", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "simulated" in done.stdout
    assert {path.name for path in (out / "fig2").iterdir()} == {"rows.csv", "table.md", "plot.png", "run.json"}
    refused("reproduce.py", "lrasched-table2", "--seeds", "1,1", said=["seeds is 1, 1"])
    refused("reproduce.py", "lrasched-fig5", "--arriving", 0, said=["arriving is 0"])
    refused("reproduce.py", "lrasched-table2", "--data", tmp_path / "none", said=["erms_inflection.csv.gz"])
    refused("reproduce.py", "lrasched-fig8", "--largest", 2, said=["largest is 2"])
    refused("reproduce.py", "lrasched-fig6", "--milp-seconds", -1, said=["milp_seconds is -1"])
