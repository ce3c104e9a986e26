"""Compiling ahead: that the work of every use is what it should be; the work itself takes long."""

from pathlib import Path

import pytest

from tvwrl import warm_up
from tvwrl.types import InputError


def test_chains_have_every_use_once() -> None:
    assert sorted(use for chain in warm_up.CHAINS for use in chain) == sorted(warm_up.USES)


@pytest.mark.parametrize("processes", [0, 3])
def test_only_as_many_processes_are_started_as_there_is_work_for(processes: int) -> None:
    with pytest.raises(InputError, match=rf"processes is {processes}: must be 1 to 2"):
        warm_up.warm_up(processes)


def test_a_use_works_without_a_word_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TVWRL_DATA", "elsewhere")  # for monkeypatch to undo what the use sets
    monkeypatch.setattr(warm_up.tempfile, "tempdir", str(tmp_path))
    warm_up.use_kernels("environment", "provision")
    assert not list(tmp_path.iterdir())
    assert capsys.readouterr() == ("", "")
    with pytest.raises(InputError, match="'party'"):
        warm_up.use_kernels("party")
