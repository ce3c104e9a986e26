"""Where the published instances and contest data are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REAL_DATA = Path(os.environ.get("TVWRL_REAL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


@pytest.fixture(scope="session")
def reference() -> Path:
    """Folder of the published instances."""
    folder = REAL_DATA.parent / "reference" / "provisioning"
    if not folder.is_dir():
        pytest.skip(f"no reference instances at {folder}")
    return folder


@pytest.fixture(scope="session")
def contest() -> Path:
    """The zip of the Tianchi contest."""
    path = REAL_DATA / "tianchi" / "preliminary_dataB_20180726.zip"
    if not path.exists():
        pytest.skip(f"no contest data at {path}")
    return path
