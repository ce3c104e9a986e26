"""`tvwrl doctor`: what it says of an installation, and where something is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvwrl.cli import doctor
from tvwrl.cli.doctor import DoctorOptions, examine
from tvwrl.traces import open_trace, write_trace


def test_a_good_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TVWRL_DATA", str(tmp_path))
    write_trace(open_trace("google").select(range(24)), tmp_path / "small")
    assert examine(DoctorOptions()) == 0
    printed = capsys.readouterr().out
    for text in ("Versions:", "numba", "Extras:", "Kernels:", f"{tmp_path} (TVWRL_DATA)", "24 workloads", "GPU"):
        assert text in printed
    assert printed.endswith("everything that is needed works\n")


def test_what_is_broken_has_a_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TVWRL_DATA", str(tmp_path))
    write_trace(open_trace("google").select(range(24)), tmp_path / "small")
    (tmp_path / "small" / "usage.parquet").write_bytes(b"half")
    monkeypatch.setattr(doctor, "_required", lambda: {"": ["numpy", "no-such-library"]})
    assert examine(DoctorOptions()) == 1
    printed = capsys.readouterr().out
    assert "-> pip install --force-reinstall no-such-library" in printed
    assert "-> prepare it again: tvwrl prepare" in printed
    assert printed.endswith("2 things are broken\n")
