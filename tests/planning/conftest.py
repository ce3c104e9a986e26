"""Where the published instances and contest data are, and how tests read a plan."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import pytest

from tvwrl.planning.instance import Instance
from tvwrl.planning.plan import Plan
from tvwrl.planning.sources.published_format import read_published

REAL_DATA = Path(os.environ.get("TVWRL_REAL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


@pytest.fixture(scope="session")
def reference() -> Path:
    """Folder of the published instances."""
    folder = REAL_DATA.parent / "reference" / "provisioning"
    if not folder.is_dir():
        pytest.skip(f"no reference instances at {folder}")
    return folder


@pytest.fixture(scope="session")
def published(reference: Path) -> Callable[[str], Instance]:
    """The function that reads a published instance by name; each file is read once."""
    return lru_cache(lambda name: read_published(reference / f"{name}.csv.gz"))


@pytest.fixture(scope="session")
def contest() -> Path:
    """The zip of the Tianchi contest."""
    path = REAL_DATA / "tianchi" / "preliminary_dataB_20180726.zip"
    if not path.exists():
        pytest.skip(f"no contest data at {path}")
    return path


def _rows(instance: Instance, made: Plan) -> dict[tuple[str, int], int]:
    """Replicas by application and machine."""
    where = zip(made.application, made.machine, made.replicas, strict=True)
    return {(instance.application[i], int(m)): int(count) for i, m, count in where}


@pytest.fixture(scope="session")
def rows() -> Callable[[Instance, Plan], dict[tuple[str, int], int]]:
    """The function that lists a plan; see `_rows`."""
    return _rows
