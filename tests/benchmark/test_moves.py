"""Tasks in which what runs may move: the tasks, entries that move it, cheats with moves, submissions, the page."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import gymnasium as gym
import numpy as np
import polars as pl
import pytest

import tvwrl
from tests.benchmark.moving_entry import Packs, Roomiest
from tvwrl.benchmark import study
from tvwrl.benchmark.comparison import AGAINST, AGAINST_MOVES, usual_against
from tvwrl.benchmark.entries import Setting, entry_of
from tvwrl.benchmark.study import BenchmarkStudy, check
from tvwrl.benchmark.submission import check_submission
from tvwrl.benchmark.tasks import TASKS, problem_of
from tvwrl.envs import PlacementEnv
from tvwrl.experiments import complete
from tvwrl.forecasting import training_windows
from tvwrl.forecasting.baselines import LastValue
from tvwrl.schedulers import (
    FORECASTS,
    MoveRule,
    Moving,
    Runner,
    is_ours,
    make_scheduler,
    shipped_value,
)
from tvwrl.schedulers.titles import title_of
from tvwrl.types import InputError, Move

NAMES = [name for name in tvwrl.TASK_NAMES if "-move" in name]
REAL_TRACES = Path(os.environ.get("TVWRL_DATA") or "none")  # before the tests' own folder hides it


class ByAll(MoveRule):
    """Looks at everything that a rule which moves may see, and moves where another one would place."""

    name, knowledge, needs_forecasts = "by-all", FORECASTS, True

    def reset(self, cluster, rng):
        self._rng = rng

    def moves(self, cluster):
        running = cluster.running
        told = np.hstack([cluster.forecasts_of(running)[:, :4], cluster.requests_of(running)]).sum(axis=1)
        told += running.fresh + running.seen + cluster.load_after_moves.sum() + cluster.reserved_requests.sum()
        for i in np.argsort(told, kind="stable"):
            if cluster.moves_left and running.movable[i] and self._rng.random() < 0.3:
                machine = self.target(cluster, running, int(i), [0])
                seen, rest = cluster.as_waiting(running, int(i), [0])
                assert seen.load[0].sum() == seen.capacity[0].sum() == seen.reserved_requests[0].sum() == 0
                assert np.array_equal(seen.request_of(rest), cluster.requests_of(running)[i])
                assert np.array_equal(seen.forecast_of(rest)[:4], cluster.forecasts_of(running)[i, :4])
                if machine is not None:
                    yield Move(int(running.workload[i]), machine)


def almost_ours():
    """One of our rules with a setting that its name does not say, so that it counts as somebody else's."""
    scheduler = make_scheduler("spread + greedy-evacuate")
    scheduler.rule.threshold = 300.0
    return scheduler


def by_number(observation, mask):
    """An action that depends on all that is observed, and moves now and then."""
    number = int(sum(array.sum() for array in observation.values()))
    allowed = np.flatnonzero(mask)
    return len(mask) - 1 if observation["phase"][0] and number % 3 == 0 else int(allowed[number % len(allowed)])


def everything(episode):
    """What was placed and moved, in plain lists."""
    moves = episode.moves
    return [
        field.tolist()
        for field in (episode.start, episode.machine, moves.workload, moves.slot, moves.source, moves.target)
    ]


# The tasks


@pytest.mark.parametrize("name", NAMES)
def test_a_task_with_moves_is_the_one_without_and_moves(name):
    trace, load, variant, version = name.split("-")
    task, plain = TASKS[name], TASKS[f"{trace}-{load}-{version}"]
    price = float(variant.removeprefix("move") or 1000)
    assert task.scenario == replace(plain.scenario, moves_per_slot=2, K_m=price)
    assert (task.trace_hash, task.sequences, task.penalty_unit) == (
        plain.trace_hash,
        plain.sequences,
        plain.penalty_unit,
    )
    assert task.sequences_hash != plain.sequences_hash


def test_there_is_a_task_with_moves_for_each_trace_and_load_and_two_more_prices():
    plain = {name for name in tvwrl.TASK_NAMES if name.count("-") == 2}
    usual = {name.replace("-move-", "-") for name in NAMES if "-move-" in name}
    assert usual == plain
    assert set(NAMES) - {name for name in NAMES if "-move-" in name} == {
        "google2011-0.5-move300-v1",
        "google2011-0.5-move3000-v1",
    }
    assert len({TASKS[name].sequences_hash for name in tvwrl.TASK_NAMES}) == len(tvwrl.TASK_NAMES)


def play_at_random(name):
    """One episode of a task's environment, in which some of the actions move."""
    env = gym.make(f"tvwrl/{name}", sequences=1)
    env.reset(seed=0)
    rng, moved, over = np.random.default_rng(0), 0.0, False
    while not over:
        mask = env.get_wrapper_attr("action_masks")()
        _, _, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(mask))))
        moved += info["moves"]
        over = terminated or truncated
    return moved / TASKS[name].scenario.K_m


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("google-")])
def test_a_task_can_be_trained_on(name):
    assert play_at_random(name) > 100


@pytest.mark.real_data
@pytest.mark.slow
@pytest.mark.outside
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("google-")])
def test_a_task_of_a_recorded_trace_too(name, monkeypatch):
    if not (REAL_TRACES / TASKS[name].trace / "trace.json").is_file():
        pytest.skip(f"no trace {TASKS[name].trace} in TVWRL_DATA")
    monkeypatch.setenv("TVWRL_DATA", str(REAL_TRACES))
    assert play_at_random(name) > 100


# Entries


@pytest.fixture(scope="module")
def forecast(moving):
    """The small task with forecasts that are made at once."""
    plain = problem_of(moving)
    return replace(plain, forecaster=LastValue().fit(training_windows(plain.sampler, 20)))


@pytest.mark.parametrize(
    "entry",
    [
        Packs(),
        by_number,
        Moving(Roomiest(), ByAll()),
        Moving(make_scheduler("expected-cost"), ByAll()),
        almost_ours(),
    ],
    ids=["scheduler", "function", "rule", "rule and ours", "ours"],
)
@pytest.mark.parametrize("changes", [{}, {"usage_delay": 1, "move_slots": 2, "move_overlap": 1}], ids=["task", "late"])
def test_an_entry_moves_as_it_does_in_this_process(moving, forecast, entry, changes):
    task = replace(moving, scenario=replace(moving.scenario, **changes))
    runner = Runner(forecast.sequences("test", 2, 0), forecast.machines, task.scenario, 0)
    here = entry_of("mine", entry, replace(Setting.of_task(task), apart=False))
    there = entry_of("mine", entry, Setting.of_task(task))
    assert there.process is not None
    moved = 0
    for sequence in range(2):
        own, apart = (runner.play(one.scheduler, sequence) for one in (here, there))
        assert everything(own) == everything(apart)
        moved += len(own.moves)
    assert moved > 0
    there.close()


def test_a_function_moves_as_it_does_in_the_environment(moving):
    problem = problem_of(moving)
    drawn = problem.sequences("test", 2, 0)
    runner = Runner(drawn, problem.machines, moving.scenario, 0)
    entry = entry_of("mine", by_number, replace(Setting.of_task(moving), apart=False))
    env = PlacementEnv(drawn, problem.machines, replace(moving.scenario, max_slots=0))
    for sequence in range(2):
        observation, _ = env.reset(options={"sequence": sequence})
        over = False
        while not over:
            observation, _, over, _, _ = env.step(by_number(observation, env.action_masks()))
        played = runner.play(entry.scheduler, sequence)
        assert len(played.moves) > 20
        assert everything(played) == everything(env.simulation.record())


def test_a_move_rule_that_its_name_makes_plays_in_this_process(moving):
    for name in AGAINST_MOVES:
        assert entry_of("mine", make_scheduler(name), Setting.of_task(moving)).process is None
    entry = entry_of("mine", almost_ours(), Setting.of_task(moving))
    assert entry.process is not None
    entry.close()


def test_a_trained_policy_places_as_in_the_task_without_moves(small, moving, tmp_path):
    """A policy that `tvwrl train` learns moves nothing."""
    run = tvwrl.train("google", "smoke", out=tmp_path / "run", iterations=1)
    rewards = [
        tvwrl.compare({"mine": run}, task, 2, against=(), bounds=False).rows["reward"].to_list()
        for task in (small, moving)
    ]
    assert rewards[0] == rewards[1]


# Cheats


class WritesAll(Packs):
    """Packs, and overwrites what it is shown first."""

    def moves(self, cluster):
        for array in (*cluster.running, cluster.load_after_moves, cluster.load):
            try:
                array[...] = 0
            except ValueError:
                array.flags.writeable = True
                array[...] = 0
            else:
                raise AssertionError("it was written")
        for name in ("moves_left", "running", "load_after_moves"):
            setattr(type(cluster), name, 0)
            delattr(type(cluster), name)
        cluster._told.clear()  # what it overwrote is asked for again
        yield from super().moves(cluster)


class Promotes(Packs):
    """Tells its side of the door that it may know everything."""

    def moves(self, cluster):
        cluster._group = self.knowledge = "the whole future"
        for ask in (
            lambda: cluster.forecasts_of(cluster.running),
            lambda: cluster.requests_of(cluster.running),
            lambda: cluster.simulation,
        ):
            try:
                ask()
            except AttributeError:
                continue
            raise AssertionError("it was told")
        yield from super().moves(cluster)


def rewards(task, entries):
    rows = tvwrl.compare(entries, task, 2, against=("spread",), bounds=False).rows
    return {
        name: part.select("reward", "moves", "overshoot_pct").rows() for (name,), part in rows.group_by("scheduler")
    }


def test_a_cheat_earns_what_its_moves_earn(moving):
    found = rewards(moving, {"honest": Packs(), "writes": WritesAll(), "promotes": Promotes()})
    assert found["honest"] == found["writes"] == found["promotes"]
    assert found["honest"][0][1] > 0
    assert found["spread"] == rewards(moving, {"idle": Roomiest()})["spread"]


class Decides(Roomiest):
    """Moves what `choose_moves(cluster)` says, in the slots in which that is something."""

    name = "decides"

    def __init__(self, choose_moves):
        self.choose_moves = choose_moves

    def moves(self, cluster):
        yield from self.choose_moves(cluster)


def others(cluster, i=0):
    """A machine that the i-th workload is not on."""
    return (int(cluster.running.machine[i]) + 1) % len(cluster.machines)


def too_early(cluster):
    yield Move(19, 0)


def too_late(cluster):
    if not (cluster.running.workload == 0).any() and cluster.slot > 5:
        yield Move(0, 0)


def twice(cluster):
    if len(cluster.running.workload):
        first = int(cluster.running.workload[0])
        yield Move(first, others(cluster))
        yield Move(first, others(cluster))


def beyond_the_limit(cluster):
    if len(cluster.running.workload) > 3:
        for i in range(3):
            yield Move(int(cluster.running.workload[i]), others(cluster, i))


def all_on_one(cluster):
    running = cluster.running
    for i in np.flatnonzero(running.machine != 0):
        if cluster.moves_left:
            yield Move(int(running.workload[i]), 0)


def nowhere(cluster):
    if len(cluster.running.workload):
        yield Move(int(cluster.running.workload[0]), 4)


def itself(cluster):
    if len(cluster.running.workload):
        yield Move(int(cluster.running.workload[0]), int(cluster.running.machine[0]))


def a_text(cluster):
    yield Move("w0", 0)


def a_share(cluster):
    yield Move(0, 0.5)


@pytest.mark.parametrize(
    ("cheat", "message"),
    [
        (too_early, r"workload .* cannot move to machine 0: it has not begun"),
        (too_late, r"workload .* cannot move to machine 0: it has finished"),
        (twice, r"cannot move to machine \d: it is on its way to machine \d"),
        (beyond_the_limit, r"there were 2 moves in this slot already, as many as moves_per_slot allows"),
        (all_on_one, r"cannot move to machine 0: there is no room for it"),
        (nowhere, r"cannot move to machine 4: machines are 0 to 3"),
        (itself, r"cannot move to machine \d: it is there"),
        (a_text, r"moves workload 'w0': must be its number in the arrival sequence"),
        (a_share, r"chose machine 0\.5: must be a whole number from 0 to 3"),
    ],
)
@pytest.mark.parametrize("apart", [False, True], ids=["here", "apart"])
def test_a_move_that_is_not_possible_is_refused_with_sequence_and_slot(moving, cheat, message, apart):
    entry = entry_of("mine", Decides(cheat), replace(Setting.of_task(moving), apart=apart))
    problem = problem_of(moving)
    runner = Runner(problem.sequences("test", 1, 0), problem.machines, problem.scenario, 0)
    with pytest.raises(InputError, match=rf"^'mine', sequence 0, slot \d+: .*{message}"):
        runner.play(entry.scheduler, 0)
    entry.close()


def test_a_function_that_names_no_possible_move_moves_nothing(moving):
    """The first workload to the machine that it is on; on tasks the mask would forbid it."""

    def stays(observation, mask):
        machines, running = 4, observation["running"]
        return 4 + int(running[0, 1]) if observation["phase"][0] else int(np.flatnonzero(mask[:machines])[0])

    problem = problem_of(moving)
    entry = entry_of("mine", stays, Setting.of_task(moving))
    runner = Runner(problem.sequences("test", 1, 0), problem.machines, problem.scenario, 0)
    assert len(runner.play(entry.scheduler, 0).moves) == 0
    entry.close()


def test_who_takes_too_long_to_move_is_stopped(moving):
    def slow(cluster):
        import time

        time.sleep(0.02)
        return ()

    entry = entry_of("mine", Decides(slow), Setting.of_task(replace(moving, milliseconds=5.0)))
    problem = problem_of(moving)
    runner = Runner(problem.sequences("test", 1, 0), problem.machines, problem.scenario, 0)
    with pytest.raises(InputError, match=r"ms on average of .*the task allows 5 ms: the scheduler was stopped"):
        runner.play(entry.scheduler, 0)
    entry.close()


# Submissions


ENTRY = Path(__file__).with_name("moving_entry.py")


@pytest.fixture(scope="module")
def folder(moving, tmp_path_factory):
    """A good submission."""
    found = tvwrl.compare({"mine": ENTRY}, moving, against=("spread + greedy-evacuate",), bounds=False)
    return tvwrl.submit(found, tmp_path_factory.mktemp("good") / "submission", "somebody")


@pytest.fixture
def copy(folder, tmp_path):
    """One to change."""
    return shutil.copytree(folder, tmp_path / "copy")


def test_a_submission_holds_its_moves_and_passes_the_check(folder, capsys):
    moves, rows = pl.read_parquet(folder / "moves.parquet"), check_submission(folder)
    assert set(moves["scheduler"]) == {"mine"}
    assert rows["moves"].sum() == len(moves) > 20
    assert rows["move_price"].to_list() == [1000.0 * count for count in rows["moves"]]
    check(folder, seed=1)
    said = capsys.readouterr().out
    assert "all 3 episodes replay to the submitted rows" in said
    assert "its entries do as well as submitted" in said


def change_moves(copy, change):
    """Change moves.parquet, and the counts in episodes.parquet so that they agree."""
    moves = change(pl.read_parquet(copy / "moves.parquet"))
    moves.write_parquet(copy / "moves.parquet")
    keys = ["scheduler", "sequence", "workload_id"]
    counts = moves.group_by(keys).agg(moves=pl.len().cast(pl.Int64))
    episodes = pl.read_parquet(copy / "episodes.parquet").drop("moves")
    episodes.join(counts, on=keys, how="left", maintain_order="left").with_columns(
        pl.col("moves").fill_null(0)
    ).write_parquet(copy / "episodes.parquet")


def at(row, **columns):
    """A change of columns in one row."""
    here = pl.int_range(pl.len()) == row
    return lambda moves: moves.with_columns(
        **{name: pl.when(here).then(value).otherwise(pl.col(name)) for name, value in columns.items()}
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda moves: moves.head(0), r"rows\.csv, line 2 \(mine, sequence 0\): .* the replay of .* gives"),
        (lambda moves: moves.slice(0, len(moves) - 1), r"rows\.csv, line 4 \(mine, sequence 2\): .* the replay of"),
        (lambda moves: moves.slice(1), r"moves\.parquet, line 3 \(mine, sequence 0\): there is no room on machine 1"),
        (at(3, **{"from": (pl.col("from") + 1) % 4}), r"moves\.parquet, line 5: move 3 of workload .*from is \d"),
        (at(3, to=4), r"moves\.parquet, line 5: move 3 of workload .*to is 4: must be 0\.\.3"),
        (at(3, slot=pl.col("slot") + 500), r"moves\.parquet, line 5: move 3 of workload .*slot is \d+"),
        (at(3, workload_id=pl.lit("x")), r"moves\.parquet, line 5 \(mine, sequence 0\): there is no workload 'x'"),
        (at(3, load=0.8), r"moves\.parquet, line 5: load is 0\.8: must be 0\.5"),
        (
            lambda moves: pl.concat([moves, moves[:1].with_columns(scheduler=pl.lit("else"))]),
            r"moves\.parquet, line \d+: episodes\.parquet has no episode of else, sequence 0",
        ),
        (at(0, slot=None), r"moves\.parquet, line 2: slot is None: must be a whole number"),
        (lambda moves: moves.drop("to"), r"moves\.parquet: column to is missing"),
        (
            lambda moves: pl.concat([moves[:1], moves[:1], moves[1:]]),
            r"moves\.parquet, line 3: move 1 of workload .*from is \d: but it is on machine",
        ),
    ],
)
def test_forged_moves_are_refused(copy, change, message):
    change_moves(copy, change)
    with pytest.raises(InputError, match=message):
        check_submission(copy)


def test_moves_that_were_left_out_or_counted_otherwise(copy):
    path = copy / "episodes.parquet"
    episodes = pl.read_parquet(path)
    line = int(episodes["moves"].arg_max())
    at(line, moves=pl.col("moves") + 1)(episodes).write_parquet(path)
    with pytest.raises(
        InputError, match=rf"episodes\.parquet, line {line + 2} .*: moves is \d+, but moves\.parquet has"
    ):
        check_submission(copy)
    episodes.drop("moves").write_parquet(path)
    with pytest.raises(InputError, match=r"episodes\.parquet: column moves is missing"):
        check_submission(copy)
    episodes.write_parquet(path)
    (copy / "moves.parquet").unlink()
    with pytest.raises(InputError, match=r"moves\.parquet cannot be read"):
        check_submission(copy)


def test_moves_to_a_machine_without_room_are_refused(moving, copy):
    """All rows agree with the moves, which the referee alone would accept; but nobody was allowed to decide them."""
    problem = problem_of(moving)
    runner = Runner(problem.sequences("test", 3, 0), problem.machines, problem.scenario, 0)

    class Crowds(Roomiest):
        def moves(self, cluster):
            running = cluster.running
            for i in np.flatnonzero(running.movable & (running.machine != 0))[: cluster.moves_left]:
                yield Move(int(running.workload[i]), 0)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tvwrl.simulation.simulation.Simulation.crowded", lambda self: "")
        crowds = Crowds()
        crowds.name = "mine"
        played = [runner.play(crowds, sequence) for sequence in range(3)]
    from tvwrl.experiments.episode_rows import episode_table, moves_table

    rows = pl.DataFrame([problem.score(episode) for episode in played])
    rows.write_csv(copy / "rows.csv")
    pl.concat([episode_table(episode) for episode in played]).write_parquet(copy / "episodes.parquet")
    pl.concat([moves_table(episode) for episode in played]).write_parquet(copy / "moves.parquet")
    with pytest.raises(
        InputError, match=r"moves\.parquet, line \d+ \(mine, sequence 0\): there is no room on machine 0"
    ):
        check_submission(copy)


def test_the_name_of_one_of_our_combinations_is_taken(moving, tmp_path):
    ours = {"expected-cost + evacuate": ENTRY}
    found = tvwrl.compare(ours, moving, against=(), bounds=False)
    with pytest.raises(InputError, match="has the name of one of our schedulers"):
        tvwrl.submit(found, tmp_path / "one", "somebody")


# Tables


def test_who_is_compared_with_by_default(moving, small):
    assert (usual_against(small), usual_against(moving)) == (AGAINST, AGAINST_MOVES)
    assert all(make_scheduler(name).name == name for name in AGAINST_MOVES)


def test_tasks_without_moves_skip_who_moves(moving, small):
    names = ("spread", "spread + evacuate", "spread + evacuate(threshold=2000)")
    cells = BenchmarkStudy((small.name, moving.name), names).cells("benchmark")
    assert [cell.name for cell in cells] == [
        "small-v1/spread",
        "small-move-v1/spread",
        "small-move-v1/spread + evacuate",
        "small-move-v1/spread + evacuate-tuned",
        "small-move-v1/spread + evacuate(threshold=2000)",
    ]
    usual = BenchmarkStudy((small.name, moving.name)).cells("benchmark")
    played = {task: {cell.scheduler for cell in usual if cell.task is task} for task in (small, moving)}
    assert played[moving] == set(AGAINST_MOVES)
    assert "kube-default" in played[small]
    assert not [name for name in played[small] if " + " in name]


def test_a_learnt_value_is_played_where_things_move_and_counts_by_its_file(moving, small, tmp_path):
    shipped_value().save(tmp_path / "v.npz")
    name = f"expected-cost + machine-value={tmp_path}/../{tmp_path.name}/v.npz"
    (cell,) = BenchmarkStudy((small.name, moving.name), (name,)).cells("benchmark")
    assert (cell.task, cell.tuned, cell.name.count("/")) == (moving, False, 1)
    assert cell.request()["file"].samefile(tmp_path / "v.npz")


def test_the_page_shows_who_moved(moving, folder, forecast, monkeypatch, tmp_path):
    monkeypatch.setattr(study, "forecaster_of", lambda task: forecast.forecaster)
    monkeypatch.setattr(study, "VALIDATION", 2)
    own = BenchmarkStudy((moving.name,), ("spread", "spread + karpenter", "spread + evacuate"), (), (str(folder),))
    cells = own.cells("benchmark")
    assert not complete(tmp_path, cells, report=print)
    report = own.report("benchmark", tmp_path, cells)
    by_name = {(row["scheduler"], row["tuned"]): row for row in report.rows}
    assert by_name["mine", False]["moves"] > 0
    assert by_name["spread + evacuate", True]["played"].startswith("spread + evacuate")
    assert (by_name["spread + evacuate", False]["ours"], by_name["spread + karpenter", False]["ours"]) == (True, False)
    assert "| moves per workload |" in report.text
    report.files["benchmark.csv"](tmp_path / "a.csv")
    written = {row["scheduler"]: row for row in pl.read_csv(tmp_path / "a.csv").to_dicts()}
    assert written["spread"]["moves_per_workload"] == 0
    assert written["mine"]["moves_per_workload"] > 0.3


def test_what_people_call_rules_that_move():
    assert title_of("spread + evacuate(threshold=2000)") == "Spread + Evacuation of machines, threshold=2000"
    assert is_ours("expected-cost + swap")
    assert not is_ours("expected-cost + karpenter(batch=2)")
    assert is_ours("mine + else")
