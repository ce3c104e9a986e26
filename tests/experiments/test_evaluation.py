"""Evaluation in cells: interruptions and failing schedulers cost nothing finished, processes change nothing."""

from functools import partial

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tvwrl.experiments.engine import complete
from tvwrl.experiments.evaluation import EvaluationSetup, Player, evaluate
from tvwrl.schedulers import make_scheduler
from tvwrl.types import InputError

NAMES = ("best-fit", "tetris", "random")
LOADS = (0.3, 0.5)


def asked(problem, out, *others, origins=None, **options):
    """An evaluation of `others`, then of NAMES."""
    ours = [Player(make_scheduler(name), (origins or {}).get(name)) for name in NAMES]
    return evaluate(EvaluationSetup(problem, LOADS, 2), [*others, *ours], out, **options)


def broken(error):
    """A scheduler that fails, or is interrupted, when it is asked for the first placement."""
    scheduler = make_scheduler("spread")
    scheduler.reset = lambda cluster, rng: (_ for _ in ()).throw(error)
    return scheduler


def same_files(one, two):
    """All tables but for the time of decisions, and the same set of files."""
    files = sorted(path.relative_to(one).as_posix() for path in one.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(two).as_posix() for path in two.rglob("*") if path.is_file())
    for name in ("episodes", "demand"):
        assert (one / f"{name}.parquet").read_bytes() == (two / f"{name}.parquet").read_bytes()
    if (one / "bounds.csv").exists():
        assert (one / "bounds.csv").read_bytes() == (two / "bounds.csv").read_bytes()
    rows = [pl.read_csv(folder / "rows.csv").drop("decision_ms") for folder in (one, two)]
    assert_frame_equal(*rows, check_exact=True)


def test_an_interrupted_evaluation_continues_where_it_stopped(problem, tmp_path):
    out, first = tmp_path / "out", [make_scheduler(name) for name in NAMES[:2]]
    with pytest.raises(KeyboardInterrupt):
        evaluate(EvaluationSetup(problem, LOADS, 2), [*first, broken(KeyboardInterrupt())], out)
    assert [path.name for path in out.iterdir()] == ["cells"]
    kept = out / "cells" / "evaluation" / "tetris" / "load-0.3" / "rows.json"
    done = kept.stat().st_mtime_ns
    with pytest.raises(InputError, match=r"tetris/load-0\.3.*origin is None there, retrained here"):
        asked(problem, out, origins={"tetris": "retrained"})
    with pytest.raises(KeyboardInterrupt):
        evaluate(EvaluationSetup(problem, LOADS, 2), [*first, broken(KeyboardInterrupt())], out)
    assert kept.stat().st_mtime_ns == done
    asked(problem, out)
    asked(problem, tmp_path / "whole")
    same_files(tmp_path / "whole", out)


def test_a_process_leaves_the_same_files(problem, tmp_path):
    for name, completed in (("here", complete), ("there", partial(complete, workers=2))):
        scheduler = make_scheduler("random")
        evaluate(
            EvaluationSetup(problem, [0.5], 2, bound_seconds=None), [scheduler], tmp_path / name, completed=completed
        )
    same_files(tmp_path / "here", tmp_path / "there")


def test_a_failing_scheduler_is_named_and_the_others_have_their_table(problem, tmp_path):
    out = tmp_path / "out"
    with pytest.raises(InputError, match=r"spread/load-0\.3: ValueError: no luck; .*spread/load-0\.5: ValueError"):
        asked(problem, out, broken(ValueError("no luck")))
    assert set(pl.read_csv(out / "rows.csv")["scheduler"]) == set(NAMES)
    asked(problem, out)  # without it: nothing is played again
    with pytest.raises(InputError, match="already exists and is not empty"):
        asked(problem, out)


def test_bad_loads_and_no_schedulers(problem, tmp_path):
    with pytest.raises(InputError, match="list of schedulers is empty"):
        evaluate(EvaluationSetup(problem, LOADS, 2), [], tmp_path / "out")
    with pytest.raises(InputError, match=r"loads is 0\.3, 0\.3: must be different"):
        evaluate(EvaluationSetup(problem, [0.3, 0.3], 2), [make_scheduler("random")], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_cells_of_another_experiment_are_neither_used_nor_removed(problem, tmp_path):
    other = tmp_path / "out" / "cells" / "google-tvw-rl-seed0" / "training" / "cell.json"
    other.parent.mkdir(parents=True)
    other.write_text("{}")
    with pytest.raises(InputError, match="not empty"):
        asked(problem, tmp_path / "out")
    assert other.exists()


def test_nobody_exceeds_the_bound_on_the_reward(problem, tmp_path):
    names = ("spread", "hindsight")
    setup = EvaluationSetup(problem, [0.5], 2, reward_bound=True)
    table = evaluate(setup, [make_scheduler(name) for name in names], tmp_path / "out")
    assert (table["reward_bound"] > table["reward"]).all()
    assert (table["reward_bound"] < 0).all()
    assert (pl.read_csv(tmp_path / "out" / "bounds.csv")["reward_bound"] < 0).all()
    assert "no schedule earns more than -" in (tmp_path / "out" / "table.md").read_text()
