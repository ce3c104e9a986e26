"""Checkpoints on a disk that is full."""

from __future__ import annotations

import resource
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tvwrl.agents.checkpoint import Checkpoint
from tvwrl.agents.config import TrainConfig


def test_a_full_disk_is_named_and_the_old_checkpoint_stays(tmp_path: Path) -> None:
    path, classes = tmp_path / "last.pt", SimpleNamespace(to_dict=dict)
    saved: Any = SimpleNamespace(config=TrainConfig(), classes=classes, forecaster=None, policy=torch.zeros(9))
    Checkpoint.save(saved, path)
    before, limits = path.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    saved.policy = torch.zeros(100_000)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before), limits[1]))
    try:
        with pytest.raises(OSError, match=r"too large: '.*last\.pt'"):
            Checkpoint.save(saved, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
