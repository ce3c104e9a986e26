"""Evaluation kept in cells: the same files as in memory, interruptions and failing schedulers cost nothing finished."""

from functools import partial

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from tvwrl.experiments.evaluation import evaluate
from tvwrl.schedulers import make_scheduler
from tvwrl.types import InputError

NAMES = ("best-fit", "tetris", "random")
LOADS = (0.3, 0.5)


def asked(problem, out, makes=None, **options):
    return evaluate(problem, makes or [partial(make_scheduler, name) for name in NAMES], LOADS, 2, 0, out, **options)


@pytest.fixture
def broken():
    """Makes a scheduler that fails, or is interrupted, when it is asked for the first placement."""

    def make(error):
        scheduler = make_scheduler("spread")
        scheduler.reset = lambda cluster, rng: (_ for _ in ()).throw(error)
        return scheduler

    return lambda error: partial(make, error)


def same_files(one, two):
    """All tables but for the time of decisions, and the same set of files."""
    files = sorted(path.relative_to(one).as_posix() for path in one.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(two).as_posix() for path in two.rglob("*") if path.is_file())
    for name in ("episodes", "demand"):
        assert (one / f"{name}.parquet").read_bytes() == (two / f"{name}.parquet").read_bytes()
    assert (one / "bounds.csv").read_bytes() == (two / "bounds.csv").read_bytes()
    rows = [pl.read_csv(folder / "rows.csv").drop("decision_ms") for folder in (one, two)]
    assert_frame_equal(*rows, check_exact=True)


def test_cells_leave_what_memory_does_and_nothing_else(problem, tmp_path):
    inside = asked(problem, tmp_path / "memory")
    kept = asked(problem, tmp_path / "kept", origins={})
    same_files(tmp_path / "memory", tmp_path / "kept")
    assert_frame_equal(inside.drop("decision_ms"), kept.drop("decision_ms"), check_exact=True)


def test_an_interrupted_evaluation_continues_where_it_stopped(problem, broken, tmp_path):
    makes = [partial(make_scheduler, name) for name in NAMES]
    with pytest.raises(KeyboardInterrupt):
        asked(problem, tmp_path / "out", [*makes[:2], broken(KeyboardInterrupt())], origins={})
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["cells"]
    done = (tmp_path / "out" / "cells" / "evaluation" / "tetris" / "load-0.3" / "rows.json").stat().st_mtime_ns
    with pytest.raises(InputError, match=r"tetris/load-0\.3.*origin is None there, retrained here"):
        asked(problem, tmp_path / "out", origins={"tetris": "retrained"})
    with pytest.raises(KeyboardInterrupt):
        asked(problem, tmp_path / "out", [*makes[:2], broken(KeyboardInterrupt())], origins={})
    assert (tmp_path / "out" / "cells" / "evaluation" / "tetris" / "load-0.3" / "rows.json").stat().st_mtime_ns == done
    asked(problem, tmp_path / "out", origins={})
    asked(problem, tmp_path / "whole")
    same_files(tmp_path / "whole", tmp_path / "out")


def test_a_failing_scheduler_is_named_and_the_others_have_their_table(problem, broken, tmp_path):
    makes = [broken(ValueError("no luck")), *(partial(make_scheduler, name) for name in NAMES)]
    with pytest.raises(InputError, match=r"spread/load-0\.3: ValueError: no luck; .*spread/load-0\.5: ValueError"):
        asked(problem, tmp_path / "out", makes, origins={})
    assert set(pl.read_csv(tmp_path / "out" / "rows.csv")["scheduler"]) == set(NAMES)
    asked(problem, tmp_path / "out", origins={})  # without it: nothing is played again
    with pytest.raises(InputError, match="already exists and is not empty"):
        asked(problem, tmp_path / "out", origins={})


def test_bad_loads_and_no_schedulers(problem, tmp_path):
    with pytest.raises(InputError, match="list of schedulers is empty"):
        evaluate(problem, [], LOADS, 2, 0, tmp_path / "out")
    with pytest.raises(InputError, match=r"loads is 0\.3, 0\.3: must be different"):
        evaluate(problem, [partial(make_scheduler, "random")], [0.3, 0.3], 2, 0, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_cells_of_another_experiment_are_neither_used_nor_removed(problem, tmp_path):
    other = tmp_path / "out" / "cells" / "google-tvw-rl-seed0" / "training" / "cell.json"
    other.parent.mkdir(parents=True)
    other.write_text("{}")
    with pytest.raises(InputError, match="not empty"):
        asked(problem, tmp_path / "out", origins={})
    assert other.exists()
