"""Additional tables of a trace: read before the usage, and kept until it is prepared."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tvwrl.runs import whole_file, write_json
from tvwrl.traces.preparation.files import files_of
from tvwrl.traces.preparation.loader import Loader
from tvwrl.traces.preparation.shares import counts_of, finished

DONE = "extras.json"


def read_extras(loader: Loader, source: str, folder: Path) -> list[dict[str, Any]]:
    """Write the tables stored beside the trace into `folder`; returns the row counts of each table that was read."""
    stamp = [[str(path), path.stat().st_size, path.stat().st_mtime_ns] for path in files_of(source, ["*"])]
    if (before := finished(folder / DONE, stamp)) is not None:
        return list(before["found"])
    extras = loader.extras(source)
    found = [counts_of(table, rows) for table, rows in extras.read.items()]
    if extras.tables:
        for name, table in extras.tables.items():
            with whole_file(folder / f"{name}.extra.parquet") as partial:
                table.write_parquet(partial)
        write_json(folder / DONE, {"stamp": stamp, "names": list(extras.tables), "found": found})
    return found


def copy_extras(folder: Path, out: Path) -> dict[str, int]:
    """Copy them beside the trace; returns the number of rows of each by name."""
    import polars as pl

    names = json.loads((folder / DONE).read_text())["names"] if (folder / DONE).exists() else []
    for name in names:
        shutil.copyfile(folder / f"{name}.extra.parquet", out / f"{name}.parquet")
    files = {name: pl.scan_parquet(out / f"{name}.parquet", glob=False) for name in sorted(names)}
    return {name: int(file.select(pl.len()).collect().item()) for name, file in files.items()}
