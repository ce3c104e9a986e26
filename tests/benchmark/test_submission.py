"""Submissions: what is handed in replays; what was changed is refused with the first line that differs."""

from __future__ import annotations

import json
import shutil

import numpy as np
import polars as pl
import pytest

import tvwrl
from tvwrl.benchmark.submission import check_submission
from tvwrl.types import InputError


@pytest.fixture(scope="module")
def comparison(small):
    """Two entries on all sequences."""
    return tvwrl.compare({"mine": lambda observation, mask: int(np.flatnonzero(mask)[-1] % 4), "rule": "spread"}, small)


@pytest.fixture(scope="module")
def folder(comparison, tmp_path_factory):
    """A good submission."""
    return tvwrl.submit(comparison, tmp_path_factory.mktemp("good") / "submission", "somebody", "a@b.example")


@pytest.fixture
def copy(folder, tmp_path):
    """One to change."""
    return shutil.copytree(folder, tmp_path / "copy")


def change(path, read, write, **columns):
    """Change columns of a table in place."""
    write(read(path).with_columns(**columns), path)


def episodes(copy, **columns):
    change(copy / "episodes.parquet", pl.read_parquet, pl.DataFrame.write_parquet, **columns)


def rows(copy, **columns):
    change(copy / "rows.csv", pl.read_csv, pl.DataFrame.write_csv, **columns)


def at(line, column, value):
    """The column with another value at one line."""
    return pl.when(pl.int_range(pl.len()) == line).then(value).otherwise(pl.col(column))


def test_what_is_submitted_replays(comparison, folder):
    found = check_submission(folder)
    assert found["scheduler"].to_list() == ["mine"] * 3 + ["rule"] * 3
    own = comparison.rows.filter(pl.col("scheduler").is_in(["mine", "rule"]))
    assert np.allclose(found["reward"], own["reward"])
    about = json.loads((folder / "submission.json").read_text())
    assert about["name"] == "somebody"
    assert about["contact"] == "a@b.example"
    assert about["entries"]["rule"]["knowledge"]["group"] == "current load and history"
    assert "tvwrl" in about["provenance"]["versions"]


def test_one_placement_changed(copy):
    machine = pl.read_parquet(copy / "episodes.parquet")["machine"][3]
    episodes(copy, machine=at(3, "machine", (machine + 1) % 4))
    with pytest.raises(InputError, match=r"rows\.csv, line 2 \(mine, sequence 0\): \w+ is .*, the replay of .* gives"):
        check_submission(copy)


def test_one_start_changed(copy):
    episodes(copy, start=at(3, "start", pl.col("start") + 1))
    with pytest.raises(InputError, match=r"finish is .*: must be start"):
        check_submission(copy)


def test_an_arrival_changed(copy):
    episodes(copy, arrival=at(25, "arrival", pl.col("arrival") + 1))
    with pytest.raises(InputError, match=r"episodes\.parquet, line 25 \(mine, sequence 1\): arrival is \d+, not \d+"):
        check_submission(copy)


def test_a_row_changed(copy):
    rows(copy, reward=at(4, "reward", pl.col("reward") + 1.0))
    with pytest.raises(InputError, match=r"rows\.csv, line 6 \(rule, sequence 1\): reward is"):
        check_submission(copy)


def test_a_row_and_its_episode_left_out(copy):
    path = copy / "rows.csv"
    pl.read_csv(path).filter(pl.int_range(pl.len()) != 1).write_csv(path)
    with pytest.raises(InputError, match=r"rows\.csv, line 3: it is of mine, sequence 2; expected mine, 1"):
        check_submission(copy)


def test_episodes_left_out(copy):
    path = copy / "episodes.parquet"
    pl.read_parquet(path).filter(pl.col("scheduler") == "mine").write_parquet(path)
    with pytest.raises(InputError, match=r"rows\.csv, line 5: episodes\.parquet has no episode"):
        check_submission(copy)


def test_two_workloads_in_a_slot_that_allows_one(copy):
    frame = pl.read_parquet(copy / "episodes.parquet")
    second = frame["start"][1]
    shift = second - pl.col("start")
    episodes(copy, start=at(0, "start", second), finish=at(0, "finish", pl.col("finish") + shift))
    with pytest.raises(InputError, match=rf"2 workloads start in slot {second}, the task allows 1"):
        check_submission(copy)


def test_a_workload_from_behind_what_is_seen(copy):
    """Six that are placed late, so that the next one starts from place 7 of the queue."""
    frame = pl.read_parquet(copy / "episodes.parquet")
    late = frame["arrival"][19] + 10
    shifted = late + pl.int_range(pl.len()) - pl.col("start")
    held = (pl.int_range(pl.len()) < 6).cast(pl.Int64)
    episodes(copy, start=pl.col("start") + held * shifted, finish=pl.col("finish") + held * shifted)
    with pytest.raises(InputError, match=r"from place 7 of the queue, of which only 5 are seen"):
        check_submission(copy)


def test_another_definition_of_the_task(copy):
    path = copy / "submission.json"
    about = json.loads(path.read_text())
    about["task"]["trace_hash"] = "0" * 64
    path.write_text(json.dumps(about))
    with pytest.raises(InputError, match=r"task small-v0 has trace_hash .*, the submission was made with 0000"):
        check_submission(copy)
    about["task"] = about["task"] | {"name": "smal-v0"}
    path.write_text(json.dumps(about))
    with pytest.raises(InputError, match="unknown task 'smal-v0': did you mean small-v0"):
        check_submission(copy)


@pytest.mark.parametrize("name", ["rows.csv", "episodes.parquet", "submission.json"])
def test_damaged_and_missing_files(copy, name):
    (copy / name).write_bytes(b"\0")
    with pytest.raises(InputError, match=name):
        check_submission(copy)
    (copy / name).unlink()
    with pytest.raises(InputError, match=name):
        check_submission(copy)


def test_fields_and_columns_that_are_missing(copy):
    episodes = pl.read_parquet(copy / "episodes.parquet").drop("machine")
    episodes.write_parquet(copy / "episodes.parquet")
    with pytest.raises(InputError, match=r"episodes\.parquet: column machine is missing"):
        check_submission(copy)
    (copy / "submission.json").write_text("{}")
    with pytest.raises(InputError, match=r"submission\.json: field 'task' is missing"):
        check_submission(copy)


def test_what_cannot_be_submitted(comparison, folder, small, tmp_path):
    part = tvwrl.compare({"mine": "spread"}, small, 2, against=(), bounds=False)
    with pytest.raises(InputError, match="2 of the 3 sequences"):
        tvwrl.submit(part, tmp_path / "part", "somebody")
    with pytest.raises(InputError, match="name is empty"):
        tvwrl.submit(comparison, tmp_path / "part", " ")
    with pytest.raises(InputError, match="not empty"):
        tvwrl.submit(comparison, folder, "somebody")
