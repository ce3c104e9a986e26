"""Loaders of published traces and of the user's own, by name; one file each."""

from __future__ import annotations

from tvwrl.traces.loaders.base import Loader, Part, Rows
from tvwrl.traces.loaders.google2011 import Google2011
from tvwrl.traces.loaders.table import Csv, Parquet

LOADERS: dict[str, type[Loader]] = {
    "google2011": Google2011,
    "csv": Csv,
    "parquet": Parquet,
}

__all__ = ["LOADERS", "Loader", "Part", "Rows"]
