"""What entries of --schedulers mean, and what those that are wrong get to hear."""

from __future__ import annotations

import pytest

from tvwrl.experiments.scheduler_names import parts_of, scheduler_of
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
