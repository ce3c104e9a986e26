"""Real measurements as profiles: microservices (Erms) and a web server (nginx) under interference.

Latencies differ by orders of magnitude, so performance is 1 - log(latency / least) / log(greatest / least), with the
least and greatest latency of the whole set: 1 is the fastest measurement, 0 the slowest. Scaling each application on
its own would reveal measurements that a predictor must not know.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tvwrl.input_tables import read_table
from tvwrl.lrasched import Profiles
from tvwrl.types import Float

ERMS_COLUMNS = ("app", "success", "inflection", "a1", "b1", "a2", "b2", "tag", "cpuInter", "memInter")
NGINX_COLUMNS = ("campaign", "Replicas", "Interference_Name", "Interference_ID", "Given_RPS", "P99_Latency")
LAST_PURE = 34  # scenarios up to this number have one kind of interference; the names of mixed ones are ambiguous


def read_erms(path: Path) -> Profiles:
    """Read microservices of the Erms benchmarks (erms_inflection.csv.gz) at levels of CPU and memory interference.

    A row of the file fits latency (us) to load r: a1 r + b1 up to an inflection, a2 r + b2 beyond. An application is a
    microservice, a configuration a pair of levels, and its latency that at one load: the inflection of the
    microservice's least disturbed row. Rows whose fit failed, or is not positive at this load, are left out.
    """
    import polars as pl

    table = read_table(path, ERMS_COLUMNS).filter(pl.col("success") & pl.col("inflection").is_not_null())
    latency: dict[tuple[str, str], float] = {}
    for (tag,), fits in table.sort("tag", "cpuInter", "memInter").group_by(["tag"], maintain_order=True):
        load = fits["inflection"][0]
        for fit in fits.iter_rows(named=True):
            segment = "1" if load <= fit["inflection"] else "2"
            us = fit["a" + segment] * load + fit["b" + segment]
            if us > 0:
                latency[str(tag), f"cpu {fit['cpuInter']:.2f} mem {fit['memInter']:.0f}"] = us
    return _profiles(latency)


def read_nginx(path: Path) -> Profiles:
    """Read 99th percentiles of nginx's response time under iBench and stress-ng (ntua_nginx_ibench.csv.gz).

    An application is a campaign's number of replicas at one offered load, a configuration a scenario with one kind of
    interference (numbers up to 34). Applications that lack one of the 15 scenarios are left out.
    """
    import polars as pl

    table = read_table(path, NGINX_COLUMNS).filter(pl.col("Interference_ID") <= LAST_PURE)
    parts = [pl.col("campaign"), pl.col("Replicas"), pl.col("Given_RPS")]
    table = table.with_columns(pl.concat_str(parts, separator=" ").alias("application"))
    table = table.sort("application", "Interference_ID")
    scenarios = table["Interference_ID"].n_unique()
    table = table.filter(pl.col("Interference_ID").n_unique().over("application") == scenarios)
    rows = table.select("application", "Interference_Name", "P99_Latency").iter_rows()
    return _profiles({(application, scenario): ms for application, scenario, ms in rows})


def _profiles(latency: dict[tuple[str, str], float]) -> Profiles:
    applications, configurations = (list(dict.fromkeys(pair[side] for pair in latency)) for side in (0, 1))
    grid: Float = np.full((len(applications), len(configurations)), np.nan)
    for (application, configuration), value in latency.items():
        grid[applications.index(application), configurations.index(configuration)] = np.log(value)
    span = np.nanmax(grid) - np.nanmin(grid)
    return Profiles.of_grid(applications, configurations, 1.0 - (grid - np.nanmin(grid)) / span)
