"""The benchmark's page: ranks and differences worked out by hand, margins chosen on validation sequences, the files."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import tvwrl
from tvwrl.benchmark import page, ranking, study
from tvwrl.benchmark.study import BenchmarkStudy, Played
from tvwrl.benchmark.tasks import find_task
from tvwrl.experiments.engine import complete
from tvwrl.schedulers import PRODUCTION, make_scheduler
from tvwrl.schedulers.head_of_queue import Backfill
from tvwrl.schedulers.knowledge import CURRENT_LOAD, FORECASTS, FUTURE, PEAKS, REQUESTS
from tvwrl.types import InputError

TASK = "google-0.5-v1"


def rows(scheduler, knowledge, rewards, tuned=False, played="", unplaced=0):
    facts = {
        "task": TASK,
        "scheduler": scheduler,
        "tuned": tuned,
        "played": played or scheduler,
        "ours": scheduler == "mine",
        "note": "",
    }
    scores = {"overshoot_pct": 0.5, "machines_used": 8.0, "wait_mean": 1.0, "unplaced": unplaced, "decision_ms": 2.0}
    found = enumerate(rewards)
    return [facts | scores | {"knowledge": knowledge.group, "sequence": i, "reward": 1e3 * r} for i, r in found]


EVERY = [
    *rows("best-fit-peak", PEAKS, (-100.0, -200.0)),
    *rows("clairvoyant", FUTURE, (-60.0, -140.0)),
    *rows("spread", CURRENT_LOAD, (-300.0, -500.0)),
    *rows("best-fit", CURRENT_LOAD, (-10.0, -10.0), unplaced=3),
    *rows("mine", CURRENT_LOAD, (-290.0, -460.0)),
    *rows("n-sigma", REQUESTS, (-150.0, -250.0)),
    *rows("n-sigma", REQUESTS, (-120.0, -220.0), tuned=True, played="n-sigma(n=2)"),
]


def test_ranks_differences_and_gaps_by_hand():
    lines = {line.label: line for line in ranking.summaries(EVERY, [TASK])[TASK]}
    assert [name for name in lines if lines[name].knowledge == CURRENT_LOAD.group] == ["mine", "spread", "best-fit"]
    assert [lines[name].rank for name in ("mine", "spread", "best-fit")] == [1, 2, 3]  # unplaced workloads come last
    assert lines["spread"].behind == (-25e3, (-40e3, -10e3))  # against "mine": -10 and -40 thousand
    assert lines["best-fit-peak"].closed == 0
    assert lines["clairvoyant"].closed == 100
    # of 50 thousand between -150 and -100: -170 is 20 below
    assert lines["n-sigma(n=2), tuned"].closed == pytest.approx(-40)
    assert lines["n-sigma"].rank == 2
    left = lines["best-fit"]  # 6 workloads unplaced: no mean reward, however high
    assert left.incomplete == "2 of 2 sequences incomplete, 6 workloads not placed"
    assert np.isnan([left.reward[0], *left.reward[1], left.behind[0], left.closed, left.overshoot, left.wait]).all()


def test_a_scheduler_that_places_nothing_is_last_on_every_page_and_never_best(tmp_path):
    """One unplaced workload in one sequence is enough, also where nobody else knows as much."""
    idle = rows("idle", CURRENT_LOAD, (0.0, 0.0), unplaced=20)
    once = [row | {"unplaced": row["sequence"]} for row in rows("once", CURRENT_LOAD, (-1.0, 0.0))]
    alone = rows("alone", FORECASTS, (0.0, 0.0), unplaced=1)
    found = ranking.summaries([*EVERY, *idle, *once, *alone], [TASK])
    ranks = {line.scheduler: line.rank for line in found[TASK] if line.knowledge == CURRENT_LOAD.group}
    assert ranks == {"mine": 1, "spread": 2, "once": 3, "best-fit": 4, "idle": 5}  # the fewest unplaced first
    table = page.task_table(TASK, found[TASK])
    assert "- (1 of 2 sequences incomplete, 1 workload not placed)" in table
    assert "nan" not in table + page.text(found, 0)
    against = next(line for line in page.text(found, 0).splitlines() if line.startswith(f"| {TASK}"))
    assert "| **mine**" not in against
    assert not any(name in against for name in ("idle", "once", "alone"))
    overall = {
        line.split("|")[1].strip(): line.split("|")[2:]
        for line in page.text(found, 0).partition(f"\n## {TASK}\n")[0].splitlines()
        if "|" in line
    }
    assert [cell.strip() for cell in overall["alone"][:4]] == [
        "1.0", "0 of 1", "- (workloads not placed in 1 of 1 tasks)", "-",
    ]  # fmt: skip
    page.picture(TASK, found[TASK])(tmp_path / "a.png")
    page.browser_table(found)(tmp_path / "a.html")
    assert "nan" not in (tmp_path / "a.html").read_text(encoding="utf-8").split("<tbody>")[1].split("</tbody>")[0]


def test_equals_share_a_rank_whatever_their_order():
    same = [rows(name, CURRENT_LOAD, (-1.0, -2.0)) for name in ("a", "b")]
    worse = rows("c", CURRENT_LOAD, (-3.0, -4.0))
    for first, second in (same, same[::-1]):
        found = ranking.summaries([*first, *second, *worse], [TASK])[TASK]
        assert [(line.scheduler, line.rank, line.is_best) for line in found] == [
            ("a", 1, True), ("b", 1, True), ("c", 3, False),
        ]  # fmt: skip


def test_the_text_names_what_is_missing_and_tells_ours_apart():
    found = ranking.summaries(EVERY, [TASK])
    assert "**2 cells are missing**" in page.text(found, missing=2)
    text = page.task_table(TASK, found[TASK])
    assert re.search(r"\| \*\*mine\*\* +\| +1 \|", text)
    assert re.search(r"\| n-sigma\(n=2\), tuned +\| +1 \|", text)
    assert text.index("*declared requests*") < text.index("*true lifetime peaks (a privilege)*")


def test_reconstructed_rules_have_a_column_of_their_own():
    """They are the best here, but ours is compared with the best of the others."""
    cells = page.text(ranking.summaries([*EVERY, *rows("nilas-like", REQUESTS, (-50.0, -50.0))], [TASK]), 0)
    (row,) = re.findall(rf"^\| {TASK} .*$", cells, re.M)
    assert [cell.strip() for cell in row.split("|")[2:6]] == [
        "n-sigma -200",
        "n-sigma(n=2) -170",
        "nilas-like -50",
        "mine -375",
    ]
    (row,) = re.findall(rf"^\| {TASK} .*$", page.text(ranking.summaries(EVERY, [TASK]), 0), re.M)
    assert row.split("|")[4].strip() == "-"


def test_tables_of_few_tasks_are_on_the_page_and_those_of_all_in_one_file(tmp_path, monkeypatch):
    other = "google-0.3-v1"  # no rule of production clusters was played there
    found = ranking.summaries(
        [*EVERY, *(row | {"task": other} for row in rows("mine", CURRENT_LOAD, (-1.0, -2.0)))], [TASK, other]
    )
    assert all(f"\n## {task}\n" in page.text(found, 0) for task in (TASK, other))
    monkeypatch.setattr(page, "FEW", 1)
    assert f"\n## {TASK}\n" not in page.text(found, 0)
    page.csv_table(found)(tmp_path / "a.csv")
    written = pl.read_csv(tmp_path / "a.csv")
    assert len(written) == sum(map(len, found.values()))
    mine = written.row(by_predicate=(pl.col("task") == other) & (pl.col("scheduler") == "mine"), named=True)
    assert (mine["reward"], mine["rank"], mine["ours"]) == (-1500.0, 1, True)
    left = written.row(by_predicate=(pl.col("task") == TASK) & (pl.col("scheduler") == "best-fit"), named=True)
    assert (left["reward"], left["gap_closed_pct"]) == (None, None)


def test_names_are_not_executed_by_the_browser(tmp_path):
    bad = [row | {"scheduler": "<script>alert(1)</script>"} for row in rows("mine", CURRENT_LOAD, (-1.0, -2.0))]
    page.browser_table(ranking.summaries(bad, [TASK]))(tmp_path / "a.html")
    written = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<script>alert" not in written
    assert "&lt;script&gt;alert" in written


def test_a_form_is_chosen_on_validation_sequences_only(monkeypatch):
    seen = []

    def pretend(entry, task, split, count):
        seen.append((split, count))
        inner, backfills = entry.scheduler._inner, isinstance(entry.scheduler._inner, Backfill)
        rule = inner.served if backfills else inner
        return [{"sequence": 0, "reward": backfills - abs(rule.n - 3.0), "unplaced": 0}]

    monkeypatch.setattr(study, "played", pretend)
    (row,) = Played(find_task(TASK), "n-sigma", "n-sigma", True, 7).measure()
    assert row["played"] == "n-sigma(n=3)-backfill"
    assert set(seen[:-1]) == {("validation", study.VALIDATION)}
    assert seen[-1] == ("test", 7)


@pytest.mark.parametrize("name", PRODUCTION)
def test_every_rule_of_production_can_be_tuned(name):
    names = study.margins(name)
    assert len(set(names)) == len(names)
    assert all(make_scheduler(margin).name == margin for margin in names)


def test_a_study_is_played_written_and_resumed(tmp_path):
    own = BenchmarkStudy(named_tasks=(TASK,), schedulers=("best-fit-peak", "clairvoyant"), sequences=2)
    cells = own.cells("benchmark")
    assert [cell.name for cell in cells] == [f"{TASK}/best-fit-peak", f"{TASK}/clairvoyant"]
    assert not complete(tmp_path, cells, report=print)
    report = own.report("benchmark", tmp_path, cells)
    assert len(report.rows) == 4
    report.plots[TASK](tmp_path / "picture.png")
    report.files["benchmark.html"](tmp_path / "benchmark.html")
    assert (tmp_path / "picture.png").stat().st_size > 1000
    with pytest.raises(InputError, match="sequences is 2 there, 3 here"):
        complete(tmp_path, replace(own, sequences=3).cells("benchmark"), report=print)


@pytest.fixture(scope="module")
def submission(small, tmp_path_factory):
    """Entry "mine" on the small task: the machine with most room left."""
    file = tmp_path_factory.mktemp("entry") / "mine.py"
    file.write_text(
        "def entry(observation, mask):\n"
        "    used = (observation['grid'][:, :, -1] > 0).sum(axis=(1, 2))\n"
        "    return int((used + 99 * ~mask).argmin())\n"
    )
    found = tvwrl.compare({"mine": file}, small, against=(), bounds=False)
    return tvwrl.submit(found, tmp_path_factory.mktemp("submitted") / "one", "somebody")


def test_a_submission_enters_the_table(small, submission, tmp_path):
    """With the numbers that are measured here, which are those that were submitted."""
    copy = shutil.copytree(submission, tmp_path / "copy")
    own = BenchmarkStudy((small.name,), ("n-sigma(n=5)", "expected-cost"), (), (str(copy),), sequences=2)
    cells = own.cells("benchmark")
    assert [cell.name for cell in cells] == [f"small-v1/{name}" for name in ("n-sigma(n=5)", "expected-cost", "mine")]
    assert not complete(tmp_path / "out", cells, report=print)
    rows = own.report("benchmark", tmp_path / "out", cells).rows
    by_name = {name: [row for row in rows if row["scheduler"] == name] for name in {row["scheduler"] for row in rows}}
    assert {name: own[0]["ours"] for name, own in by_name.items()} == {
        "n-sigma(n=5)": False,
        "expected-cost": True,
        "mine": False,
    }
    submitted = pl.read_csv(submission / "rows.csv")
    factor = by_name["mine"][0]["reward"] / submitted["reward"][0]  # by how much it is dearer on fresh sequences
    assert factor >= 1.0
    assert "dearer on fresh sequences" in by_name["mine"][0]["note"]
    for sequence, (theirs, ours) in enumerate(zip(by_name["mine"], by_name["n-sigma(n=5)"], strict=True)):
        assert set(theirs) == set(ours)
        assert theirs["reward"] == pytest.approx(factor * submitted["reward"][sequence])
        assert theirs["decision_ms"] != submitted["decision_ms"][sequence]
        same = ("task", "sequence", "knowledge", "tuned")
        assert [theirs[column] for column in same] == [ours[column] for column in same]
        assert theirs["played"] == "mine"
    (copy / "rows.csv").write_text((copy / "rows.csv").read_text() + "\n")
    with pytest.raises(InputError, match=r"submission is folder .* there, folder .* here"):
        complete(tmp_path / "out", cells, report=print)


def test_submissions_that_cannot_enter(small, submission):
    there = str(submission)
    with pytest.raises(InputError, match=r"one: its task small-v1 is not played"):
        BenchmarkStudy((TASK,), submissions=(there,)).cells("benchmark")
    with pytest.raises(InputError, match="its entry 'mine' has the name of one of --runs"):
        BenchmarkStudy((small.name,), runs=(f"mine={submission}",), submissions=(there,)).cells("benchmark")
    with pytest.raises(InputError, match="its entry 'mine' has the name of one of somebody"):
        BenchmarkStudy((small.name,), submissions=(there, f"{there}/")).cells("benchmark")
    with pytest.raises(InputError, match=r"nowhere holds no submission"):
        BenchmarkStudy((small.name,), submissions=("nowhere",)).cells("benchmark")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"named_tasks": ("google-0.5",)}, "unknown task 'google-0.5': did you mean google-0.5-v1"),
        ({"named_tasks": (TASK, TASK)}, "named_tasks"),
        ({"runs": ("mine",)}, "--runs mine: write NAME=FOLDER"),
        ({"sequences": 0}, "sequences is 0: must be at least 1"),
    ],
)
def test_bad_options_are_named(changes, message):
    with pytest.raises(InputError, match=message):
        replace(BenchmarkStudy(named_tasks=(TASK,)), **changes).cells("benchmark")


def test_rules_of_production_and_ours_are_set_side_by_side():
    found = ranking.summaries(EVERY, [TASK])
    table = page._against_production(found)
    # n-sigma by default -200, tuned -170; ours, with load alone, -375: 205 thousand, or 121 %, more
    assert re.search(
        rf"{TASK} +\| +n-sigma -200 \| +n-sigma\(n=2\) -170 \| +- \| +mine -375 \| +-121 \[-141, -100\]", table
    )
