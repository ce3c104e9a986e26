"""Two sets of real measurements as profiles: microservices and a web server under interference.

Latencies differ by orders of magnitude, so performance is 1 - log(latency / least) / log(greatest / least), least and
greatest over the whole set: 1 = the fastest that was measured, 0 = the slowest. No application is scaled by itself, as
that would give away cells that a predictor is not to know.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tvwrl.lrasched.profiles import Profiles
from tvwrl.provisioning.sources.tables import read_table
from tvwrl.types import Float

if TYPE_CHECKING:
    pass

ERMS_COLUMNS = ("app", "success", "inflection", "a1", "b1", "a2", "b2", "tag", "cpuInter", "memInter")
NGINX_COLUMNS = ("campaign", "Replicas", "Interference_Name", "Interference_ID", "Given_RPS", "P99_Latency")
PURE = 34  # scenarios up to this number disturb with one kind of load; mixed ones are not named alike everywhere


def read_erms(path: Path) -> Profiles:
    """Microservices of the Erms benchmarks (erms_inflection.csv.gz) at levels of CPU and memory interference.

    Each cell of the file is a fit of latency (us) to load r: a1 r + b1 up to its inflection, a2 r + b2 above it. An
    application is a microservice, a configuration a pair of levels, its latency that at one load: the inflection of
    the microservice's least disturbed cell. Cells whose fit failed or is not positive there are left out.
    """
    import polars as pl

    table = read_table(path, ERMS_COLUMNS).filter(pl.col("success") & pl.col("inflection").is_not_null())
    latency: dict[tuple[str, str], float] = {}
    for (tag,), cells in table.sort("tag", "cpuInter", "memInter").group_by(["tag"], maintain_order=True):
        load = cells["inflection"][0]
        for cell in cells.iter_rows(named=True):
            segment = "1" if load <= cell["inflection"] else "2"
            us = cell["a" + segment] * load + cell["b" + segment]
            if us > 0:
                latency[str(tag), f"cpu {cell['cpuInter']:.2f} mem {cell['memInter']:.0f}"] = us
    return _profiles(latency)


def read_nginx(path: Path) -> Profiles:
    """nginx under iBench and stress-ng (ntua_nginx_ibench.csv.gz), by 99th percentile of response time.

    An application is a campaign's number of replicas at one offered load, a configuration a scenario of interference
    of one kind (numbers up to 34); applications that lack one of the 15 are left out.
    """
    import polars as pl

    table = read_table(path, NGINX_COLUMNS).filter(pl.col("Interference_ID") <= PURE)
    names = [
        pl.concat_str([pl.col("campaign"), pl.col("Replicas"), pl.col("Given_RPS")], separator=" ").alias("application")
    ]
    table = table.with_columns(names).sort("application", "Interference_ID")
    whole = table["Interference_ID"].n_unique()
    table = table.filter(pl.col("Interference_ID").n_unique().over("application") == whole)
    rows = table.select("application", "Interference_Name", "P99_Latency").iter_rows()
    return _profiles({(application, scenario): ms for application, scenario, ms in rows})


def _profiles(latency: dict[tuple[str, str], float]) -> Profiles:
    applications, configurations = (list(dict.fromkeys(pair[side] for pair in latency)) for side in (0, 1))
    grid: Float = np.full((len(applications), len(configurations)), np.nan)
    for (application, configuration), value in latency.items():
        grid[applications.index(application), configurations.index(configuration)] = np.log(value)
    span = np.nanmax(grid) - np.nanmin(grid)
    return Profiles.of_grid(applications, configurations, 1.0 - (grid - np.nanmin(grid)) / span)
