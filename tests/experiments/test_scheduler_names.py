"""What entries of --schedulers mean, and what those that are wrong get to hear."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest

from tvwrl.experiments import scheduler_names
from tvwrl.experiments.scheduler_names import parts_of, scheduler_of
from tvwrl.schedulers import make_scheduler
from tvwrl.types import InputError


@pytest.mark.parametrize(
    ("entry", "parts"),
    [
        ("spread", ("spread", "", "")),
        ("spread+pism=score.npz", ("spread+pism", "", "score.npz")),
        ("deeprm=runs/my+pism=x/y+pism=score.npz", ("deeprm+pism", "runs/my+pism=x/y", "score.npz")),
        ("spread+pism", ("spread+pism", "", "")),
        ("spread+pismfile", ("spread+pismfile", "", "")),
        ("rollout(spread+policy,horizon=8)=runs/mine", ("rollout(spread+policy,horizon=8)", "runs/mine", "")),
    ],
)
def test_parts(entry: str, parts: tuple[str, str, str]) -> None:
    assert parts_of(entry) == parts


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("policy", "give --checkpoint RUN"),
        ("n-sigma(n=3)=runs/x", "is a rule, which is not read from a file"),
        ("rollout(spread+policy)+pism=f", r"^rollout\(spread\+policy\)=RUN: the training run"),
        ("rollout(spread + policy)", r"=RUN: the training run"),
        ("spread+pism", "the file of tvwrl interference is missing"),
        ("spread+pismfile", "there is no scheduler 'spread\\+pismfile'"),
    ],
)
def test_what_is_refused(entry: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        scheduler_of(entry, "cpu")


def test_only_one_of_two_rules_cannot_know_the_future():
    with pytest.raises(InputError, match="give both rules perfect forecasts"):
        scheduler_of("perfect-forecast(expected-cost) + greedy", "cpu")


def test_scores_of_another_trace_are_named_and_changed_files_are_told_apart(tmp_path, monkeypatch):
    """A score says which trace it was learnt on; results of an entry depend on what its file holds."""
    file, abouts = tmp_path / "score.npz", {"about": "24 training sequences of trace a on 10 machines at load 0.5"}
    monkeypatch.setattr(scheduler_names, "scores_behind", lambda entries: {str(file): abouts["about"]})
    trace = SimpleNamespace(name="a", source="real")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scheduler_names.warn_of_foreign_scores([f"spread+pism={file}"], trace)
    for other in (SimpleNamespace(name="b", source="real"), SimpleNamespace(name="a", source="synthetic")):
        with pytest.warns(UserWarning, match="was learnt on trace a, and is played on"):
            scheduler_names.warn_of_foreign_scores([f"spread+pism={file}"], other)
    entry, scheduler = f"spread+pism={file}", make_scheduler("spread")
    file.write_bytes(b"one")
    first = scheduler_names.origin_of(entry, scheduler)
    file.write_bytes(b"two")
    assert scheduler_names.origin_of(entry, scheduler) != first
    assert scheduler_names.made_of(first) == entry
