"""Submissions: what is handed in replays; what was changed is refused with the first line that differs."""

from __future__ import annotations

import json
import shutil

import numpy as np
import polars as pl
import pytest

import tvwrl
from tvwrl.benchmark.submission import check_submission, read_submission
from tvwrl.schedulers import Scheduler
from tvwrl.schedulers.knowledge import CURRENT_LOAD, REQUESTS
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


class Idle(Scheduler):
    """Places nothing."""

    name, knowledge = "idle", CURRENT_LOAD

    def schedule(self, cluster, pending):
        return ()


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


@pytest.mark.parametrize("told", ["as its rows said before", "as the referee says now"])
def test_an_entry_that_left_workloads_unplaced_is_refused_with_their_count(copy, told):
    left = (pl.col("scheduler") == "mine") & (pl.col("sequence") < 2) & (pl.col("machine") >= 2)
    count = pl.read_parquet(copy / "episodes.parquet").filter(left).height
    columns = ("start", "finish", "machine")
    episodes(copy, **{name: pl.when(left).then(-1).otherwise(pl.col(name)) for name in columns})
    if told.endswith("now"):
        empty = (pl.col("scheduler") == "mine") & (pl.col("sequence") < 2)
        rows(copy, reward=pl.when(empty).then(None).otherwise(pl.col("reward")))
    message = rf"episodes\.parquet, line \d+: mine: 2 of 3 sequences incomplete, {count} workloads not placed"
    with pytest.raises(InputError, match=message):
        check_submission(copy)


def test_an_entry_that_places_nothing_is_last_in_the_comparison_and_cannot_be_submitted(small, tmp_path):
    idle = {"idle": Idle()}
    found = tvwrl.compare(idle, small, against=("spread", "clairvoyant", "best-fit-peak"))
    own = found.rows.filter(pl.col("scheduler") == "idle")
    assert own["reward"].is_nan().all()
    assert own["unplaced"].to_list() == [20] * 3
    assert "nan" not in (found.folder / "rows.csv").read_text().lower()
    assert "No means for idle: 3 of 3 sequences incomplete, 60 workloads not placed." in str(found)
    assert "No reward of `idle` to compare: 3 of 3 sequences incomplete" in found.table()
    assert "nan" not in (str(found) + found.table()).lower()
    with pytest.raises(InputError, match="entry 'idle': 3 of 3 sequences incomplete, 60 workloads not placed"):
        tvwrl.submit(found, tmp_path / "submission", "somebody")


def test_one_start_changed(copy):
    episodes(copy, start=at(3, "start", pl.col("start") + 1))
    with pytest.raises(InputError, match=r"finish is .*: must be start"):
        check_submission(copy)


def test_an_arrival_changed(copy):
    episodes(copy, arrival=at(25, "arrival", pl.col("arrival") + 1))
    with pytest.raises(InputError, match=r"episodes\.parquet, line 27 \(mine, sequence 1\): arrival is \d+, not \d+"):
        check_submission(copy)


def test_a_row_changed(copy):
    rows(copy, reward=at(4, "reward", pl.col("reward") + 1.0))
    with pytest.raises(InputError, match=r"rows\.csv, line 6 \(rule, sequence 1\): reward is"):
        check_submission(copy)


def test_a_row_and_its_episode_left_out(copy):
    path = copy / "rows.csv"
    pl.read_csv(path).filter(pl.int_range(pl.len()) != 1).write_csv(path)
    with pytest.raises(InputError, match=r"rows\.csv, line 3: the row is of mine, sequence 2; expected mine, 1"):
        check_submission(copy)


def test_episodes_left_out(copy):
    path = copy / "episodes.parquet"
    pl.read_parquet(path).filter(pl.col("scheduler") == "mine").write_parquet(path)
    with pytest.raises(InputError, match=r"rows\.csv, line 5: episodes\.parquet has no episode"):
        check_submission(copy)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("machine", at(3, "machine", None), r"line 5: machine is None: must be a whole number$"),
        ("machine", pl.col("machine") + 0.5, r"line 2: machine is .*\.\d: must be a whole number .*Float64"),
        ("start", pl.lit("soon"), r"line 2: start is 'soon': must be a whole number .*String"),
        ("workload_id", pl.lit(7), r"line 2: workload_id is .*: must be text"),
        ("load", at(3, "load", 0.3), r"line 5 \(mine, sequence 0\): load is 0\.3, not 0\.5"),
        ("machine", at(3, "machine", 10), r"line 5: workload .*: machine is 10: must be 0\.\.3"),
        ("start", at(25, "start", 0), r"line 27: workload .*: start is 0: must not be before arrival"),
        (
            "start",
            at(3, "start", 10**12),
            r"line 5 \(mine, sequence 0\): start is 10{12}, long after the episode's end",
        ),
    ],
)
def test_values_that_no_episode_has(copy, column, value, message):
    """At the fourth workload, the first row being line 2; text and fractions change the whole column."""
    episodes(copy, **{column: value})
    with pytest.raises(InputError, match=rf"episodes\.parquet, {message}"):
        check_submission(copy)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("fast", r"line 4: decision_ms is 'fast': must be a number of milliseconds >= 0"),
        (-1.0, r"line 4: decision_ms is -1\.0: must be"),
        (float("nan"), r"line 4: decision_ms is nan: must be"),
        (4000.0, r"from line 2: decision_ms of mine is 1\.\d+e\+03 on average, task small-v1 allows 1000"),
    ],
)
def test_times_that_cannot_be(copy, value, message):
    """4 s in one of three sequences are 1.33 s on average."""
    kind = pl.String if isinstance(value, str) else pl.Float64
    kept = pl.col("decision_ms").cast(kind)
    rows(copy, decision_ms=pl.when(pl.int_range(pl.len()) == 2).then(pl.lit(value)).otherwise(kept))
    with pytest.raises(InputError, match=rf"rows\.csv, {message}"):
        check_submission(copy)


def test_an_episode_without_a_row(copy):
    more = pl.read_parquet(copy / "episodes.parquet")
    again = more.head(20).with_columns(scheduler=pl.lit("more"))
    pl.concat([more, again]).write_parquet(copy / "episodes.parquet")
    with pytest.raises(InputError, match=r"episodes\.parquet, line 122: rows\.csv has no row for this episode"):
        check_submission(copy)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"mine"', '"spread"', "entry 'spread' has the name of one of our schedulers"),
        ('"mine"', '"../mine"', r"entry '\.\./mine': a name has letters"),
        ('"group": "', '"group": "no ', "entries.mine.knowledge.group is 'no .*': must be one of 'current load"),
        ('"name": "somebody"', '"name": ""', "name is '': must be text, not empty"),
    ],
)
def test_entries_that_no_table_could_show(copy, old, new, message):
    path = copy / "submission.json"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(InputError, match=message):
        read_submission(copy)


def test_what_a_submission_says_of_itself(folder, small):
    about = read_submission(folder)
    assert (about.name, about.task) == ("somebody", small)
    assert {entry: known.group for entry, known in about.knowledge.items()} == {
        "mine": REQUESTS.group,
        "rule": CURRENT_LOAD.group,
    }


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
    with pytest.raises(InputError, match=r"task small-v1 has trace_hash .*, the submission was made with 0000"):
        check_submission(copy)
    about["task"] = about["task"] | {"name": "smal-v1"}
    path.write_text(json.dumps(about))
    with pytest.raises(InputError, match="unknown task 'smal-v1': did you mean small-v1"):
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
    known = tvwrl.compare({"spread": "spread"}, small, against=(), bounds=False)
    with pytest.raises(InputError, match="entry 'spread' has the name of one of our schedulers"):
        tvwrl.submit(known, tmp_path / "part", "somebody")
    with pytest.raises(InputError, match="not empty: give another folder"):
        tvwrl.submit(comparison, folder, "somebody")


def test_a_folder_without_a_submission(tmp_path):
    with pytest.raises(InputError, match=r"holds no submission: tvwrl\.submit writes one"):
        check_submission(tmp_path)
