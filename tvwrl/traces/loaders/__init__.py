"""Loaders by name: of published traces, of the user's own tables, of a Prometheus server."""

from __future__ import annotations

from tvwrl.traces.loaders.alibaba2018 import Alibaba2018
from tvwrl.traces.loaders.azure2019 import Azure2019
from tvwrl.traces.loaders.bitbrains import Bitbrains
from tvwrl.traces.loaders.google2011 import Google2011
from tvwrl.traces.loaders.google2019 import Google2019
from tvwrl.traces.loaders.prometheus import Prometheus
from tvwrl.traces.loaders.table import Csv, Parquet
from tvwrl.traces.loaders.tianchi import Tianchi
from tvwrl.traces.preparation.loader import Loader

LOADERS: dict[str, type[Loader]] = {
    "google2011": Google2011,
    "google2019": Google2019,
    "alibaba2018": Alibaba2018,
    "tianchi": Tianchi,
    "bitbrains": Bitbrains,
    "azure2019": Azure2019,
    "csv": Csv,
    "parquet": Parquet,
    "prometheus": Prometheus,
}

__all__ = ["LOADERS", "Loader"]
