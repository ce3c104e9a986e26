"""tvwrl prepare, as it is called."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tvwrl.traces.preparation import prepare as preparing


@pytest.fixture
def prepare(call: Callable[..., Any]) -> Callable[..., tuple[int, str, str]]:
    """Calls the script; returns exit code, output and errors."""

    def prepare(*arguments: object) -> tuple[int, str, str]:
        done = call("prepare", *arguments)
        return done.returncode, done.stdout, done.stderr

    return prepare


@pytest.mark.parametrize("name", ["csv", "tianchi", "google2011"])
def test_an_address_is_no_source(name: str, prepare: Any, tmp_path: Path) -> None:
    code, _, err = prepare(name, "--source", "http://127.0.0.1:9/x.csv", "--out", tmp_path / "out")
    assert (code, f"{name} only reads files: download them first, and give their path" in err) == (2, True)


def test_the_report_is_printed(prepare: Any, tmp_path: Path) -> None:
    lines = ["time,workload_id,cpu,mem", *(f"{300 * i},a,0.1,0.2" for i in range(300) if i != 7), "9,a,-1,0.2"]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    out = tmp_path / "out"
    code, text, _ = prepare("csv", "--source", tmp_path / "x.csv", "--out", out, "--no-plots", "--readers", 1)
    assert not code
    assert "1 of 1 workloads kept; 300 slots of 300 s over 1.0 days" in text
    assert "Time: 0 s to 89,700 s." in text
    counts = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    assert counts[0] == ["rows", ""]
    assert counts[2:5] == [["read: usage", "300"], ["bad", "1"], ["bad: usage: cpu is negative", "1"]]
    assert text.endswith(f"written to {out}; train on it with: tvwrl train --trace {out}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("csv", "--scale", "gpu", 1), "--scale: no resource 'gpu'; --columns has: cpu, mem"),
        (("tianchi", "--reference-cores", -1), "reference_cores is -1.0: must be a number > 0"),
    ],
)
def test_a_bad_option_is_one_line(arguments: tuple[object, ...], message: str, prepare: Any, tmp_path: Path) -> None:
    assert prepare(*arguments, "--source", tmp_path) == (2, "", f"error: {message}\n")


@pytest.mark.parametrize(
    ("source", "options", "name"),
    [
        ("my.usage.csv", (), "my.usage"),
        ("cluster a", (), "cluster a"),
        ("my.usage.csv", ("--name", "prod"), "prod"),
    ],
)
def test_a_table_of_ones_own_has_a_name(
    source: str, options: tuple[str, ...], name: str, prepare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TVWRL_DATA", str(tmp_path / "data"))
    path = tmp_path / source
    if not path.suffix:
        path.mkdir()
    file = path if path.suffix else path / "x.csv"
    file.write_text("\n".join(["time,workload_id,cpu,mem", *(f"{300 * i},a,0.1,0.2" for i in range(300))]))
    code, text, _ = prepare("csv", "--source", path, *options, "--readers", 1, "--no-plots")
    assert not code
    assert text.startswith(f"# Trace '{name}', read as csv\n")
    assert text.endswith(f"--trace {shlex.quote(name)}\n")
    assert json.loads((tmp_path / "data" / name / "trace.json").read_text())["name"] == name
    assert (tmp_path / "data" / name / "report.md").read_text().startswith(f"# Trace '{name}'")


@pytest.mark.parametrize("name", ["", "a/b", ".a"])
def test_a_name_that_is_no_folder_is_refused(name: str, prepare: Any, tmp_path: Path) -> None:
    code, _, err = prepare("csv", "--source", tmp_path, "--name", name)
    assert (code, f"--name {name!r}: must be a name" in err) == (2, True)


def _stop(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_an_interruption_says_how_to_go_on(prepare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.csv").write_text("time,workload_id,cpu,mem\n0,a,0.1,0.2\n")
    out = tmp_path / "out"
    monkeypatch.setattr(preparing, "make_share", _stop)
    code, _, err = prepare("csv", "--source", tmp_path / "x.csv", "--out", out, "--readers", 1)
    hint = f"run the same command again to continue; finished parts are in {tmp_path / '.out.work'}\n"
    assert (code, err) == (130, hint + "interrupted\n")
    monkeypatch.setattr(preparing, "read_part", _stop)
    code, _, err = prepare("csv", "--source", tmp_path / "x.csv", "--out", tmp_path / "none", "--readers", 1)
    assert (code, err) == (130, "interrupted\n")  # nothing is kept
