"""`tvwrl compare`: what its words name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tvwrl.cli.compare import TaskComparison, compare_on_task
from tvwrl.cli.dispatch import line_of
from tvwrl.types import InputError


def test_entries_have_a_name_or_are_called_like_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    words = ["waits=expected-cost", "spread", "r=rollout(spread,milliseconds=5)", str(tmp_path / "model.onnx")]
    assert TaskComparison((*words, "rollout(spread,rollouts=9)")).named() == {
        "waits": "expected-cost",
        "spread": "spread",
        "r": "rollout(spread,milliseconds=5)",
        "model": str(tmp_path / "model.onnx"),
        "rollout(spread,rollouts=9)": "rollout(spread,rollouts=9)",
    }


@pytest.mark.parametrize(
    "text", ["spread + machine-value=a/v.npz", "spread+pism=a/s.npz", "rollout(spread+policy,horizon=8)=runs/mine"]
)
def test_a_file_behind_a_name_is_part_of_the_entry(text: str) -> None:
    assert TaskComparison((text, f"mine={text}")).named() == {text: text, "mine": text}


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ((), "nothing to compare: give NAME=ENTRY"),
        (("=spread",), "'=spread': must be NAME=ENTRY"),
        (("a=spread", "a=stack"), "there is already an entry 'a'"),
    ],
)
def test_bad_entries_are_refused(entries: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TaskComparison(entries).named()


def test_words_become_settings() -> None:
    parsed = line_of(["compare", "a=spread", "b=stack", "--task", "google-0.3-v1", "--no-bounds"]).parsed()
    assert parsed == TaskComparison(("a=spread", "b=stack"), task="google-0.3-v1", bounds=False)


def test_the_table_is_printed_and_the_folder_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    settings = TaskComparison(("mine=best-fit",), sequences=1, against=("spread",), bounds=False, out=out)
    compare_on_task(settings)
    printed = capsys.readouterr().out
    assert "Task google-0.5-v1" in printed
    assert "\nmine " in printed
    assert printed.endswith(f"written to {out}\n")
    assert (out / "rows.csv").exists()
    with pytest.raises(InputError, match="already exists and is not empty"):
        compare_on_task(settings)


def test_what_is_observed_is_given_by_field() -> None:
    settings = TaskComparison(("spread",), observe=("history=5", "hold_action=true", "mask=any"))
    assert settings.observed() == {"history": 5, "hold_action": True, "mask": "any"}
    for text, message in {
        "history": "must be FIELD=VALUE",
        "history=five": "must be a whole number",
        "hold_action=2": "must be true or false",
    }.items():
        with pytest.raises(InputError, match=message):
            TaskComparison(("spread",), observe=(text,)).observed()
