"""Loaders of published traces and of the user's own, by name; one file each."""

from __future__ import annotations

from tvwrl.traces.loaders.azure2019 import Azure2019
from tvwrl.traces.loaders.base import Loader, Part, Rows
from tvwrl.traces.loaders.google2011 import Google2011
from tvwrl.traces.loaders.google2019 import Google2019
from tvwrl.traces.loaders.table import Csv, Parquet

LOADERS: dict[str, type[Loader]] = {
    "google2011": Google2011,
    "google2019": Google2019,
    "azure2019": Azure2019,
    "csv": Csv,
    "parquet": Parquet,
}

__all__ = ["LOADERS", "Loader", "Part", "Rows"]
