"""Training runs in their folders: what is left of one that could not begin."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tvwrl.agents.config import PRESETS
from tvwrl.agents.training import Trainer
from tvwrl.envs.problem import Problem
from tvwrl.experiments.training_runs import new_trainer


def test_a_full_disk_leaves_nothing_in_the_way_of_the_next_attempt(
    problem: Problem, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(trainer: Trainer) -> None:
        (trainer.folder / "checkpoints").mkdir(parents=True)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Trainer, "save", full)
    config = replace(PRESETS["smoke"], scenario=problem.scenario, train_sequences=2, eval_sequences=2)
    with pytest.raises(OSError, match="No space left"):
        new_trainer(problem, config, tmp_path / "run", {"name": "google"}, "temporal", print)
    assert list(tmp_path.iterdir()) == []
