"""Files that appear whole or not at all: on a full disk the error names them."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tvwrl.runs import whole_file, whole_folder

FULL = Path("/dev/full")  # every write to it finds the disk full


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("whole", [whole_file, whole_folder])
@pytest.mark.parametrize("write", [lambda: FULL.write_text("x"), lambda: pl.DataFrame({"a": [1]}).write_parquet(FULL)])
def test_a_full_disk_is_reported_with_what_could_not_be_written(
    whole: Callable[[Path], object], write: Callable[[], None], tmp_path: Path
) -> None:
    with pytest.raises(OSError, match=r"No space left on device: '.*table'") as caught, whole(tmp_path / "table"):
        write()
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


def test_other_errors_stay_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError, match=r"^reset$"), whole_file(tmp_path / "table"):
        raise ConnectionError("reset")
