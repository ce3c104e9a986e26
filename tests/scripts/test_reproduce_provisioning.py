"""scripts/reproduce.py provisioning-...: from the command line to tables, plots and a page, then from what is there."""

from pathlib import Path

HEADER = "app_id\tnb_instances\tcore\tmemory\tinter_degree\tinter_aff\n"


def test_a_smoke_goes_on_and_refuses_another_request(call, refused, tmp_path: Path) -> None:
    rows = [f"{i}\t2\t{1 + i % 7}\t{1 + i % 11}\t1\t[({i % 500 + 1}, {i % 2})]\n" for i in range(1, 501)]
    base, out, page = tmp_path / "base.csv", tmp_path / "result", tmp_path / "page.md"
    base.write_text(HEADER + "".join(rows))
    asked = ["provisioning-fig4", "--base", base, "--densities", 10, "--out", out]
    done = call("reproduce.py", *asked, "--page", page)
    assert done.returncode == 0, done.stderr
    assert "| SpreadWFD-Avg-BinSearch |" in done.stdout
    assert {path.name for path in (out / "fig4").iterdir()} == {"rows.csv", "table.md", "plot.png", "run.json"}
    assert "![Figure 4: affinity densities, fixed demand](page/fig4.png)" in page.read_text()
    before = (out / "fig4" / "rows.csv").read_text()
    assert before.count("\n") == 1 + 9  # algorithms, one instance
    again = call("reproduce.py", *asked, "--report-only")
    assert again.returncode == 0, again.stderr
    assert (out / "fig4" / "rows.csv").read_text() == before
    other = call("reproduce.py", *asked, "--seed", 3)
    assert other.returncode == 2
    assert "seed is 0 there, here 3" in other.stderr
    assert (out / "fig4" / "rows.csv").read_text() == before
    refused("reproduce.py", "provisioning-fig4", "--graphs", "round", said=["graphs is round: must be different ones"])
    refused("reproduce.py", "provisioning-fig4", "--base", tmp_path / "none", said=["none"])
    refused("reproduce.py", "provisioning-fig6", "--base", base, said=["demand at one time"])
    refused("reproduce.py", "provisioning-fig4", "--workers", 0, said=["workers is 0"])
