"""Measured runs of nginx under iBench and stress-ng, as observations."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from tvwrl.input_tables import read_table
from tvwrl.interference import CATEGORIES, LEAST_SENSITIVE, Curve, Observations, numbers
from tvwrl.types import Float, InputError, Int, Strings

COLUMNS = ("campaign", "Replicas", "Interference_Name", "Given_RPS", "Avg_Latency")
LEAST_MS = 1e-9  # a response time is above 0
KINDS = {"cpu": 0, "l3": 1, "membw": 2}  # what a pod presses on -> the category that its number is kept as
_PODS = re.compile(r"(\d+)_(?:ibench_|stress-ng_)?(cpu|l3|membw)(?=_|$)", re.IGNORECASE)


def pods_of(name: str) -> Int:
    """(60,) pods of each kind in a scenario's name, as `2_iBench_CPU_pods` or `1_CPU_2_L3`; none in a `Baseline...`.

    Raises InputError for any other name.
    """
    counts = np.zeros(CATEGORIES, np.int64)
    found = _PODS.findall(name)
    if not found and not name.startswith("Baseline"):
        raise InputError(f"scenario {name!r}: neither a Baseline nor numbers of {', '.join(KINDS)} pods")
    for number, kind in found:
        counts[KINDS[kind.lower()]] += int(number)
    return counts


def read_nginx(path: Path) -> tuple[Observations, Strings]:
    """Observations of N runs in ntua_nginx_ibench.csv.gz, and the campaign (N,) of each.

    A service is a number (or arrangement) of replicas at one offered load, a machine is a campaign, and the response
    time is the run's mean. The composition counts pods by kind in categories 0, 1, 2. Usage was not recorded:
    `batch_cpu` is the number of pods, each of which keeps about one core busy.
    Raises InputError with file, row and column.
    """
    table = read_table(path, COLUMNS)
    campaign, replicas, scenario, load = (table[name].to_list() for name in COLUMNS[:-1])
    names = [f"{count} replicas, {rate} requests/s" for count, rate in zip(replicas, load, strict=True)]
    services, service = np.unique(names, return_inverse=True)
    machine = np.unique(campaign, return_inverse=True)[1]
    composition = np.zeros((len(names), CATEGORIES), np.int64)
    for row, name in enumerate(scenario):
        try:
            composition[row] = pods_of(str(name))
        except InputError as error:
            raise InputError(f"{path}: row {row + 1}: {error}") from None
    observations = Observations(
        seconds=np.arange(len(names), dtype=np.float64),
        machine=machine.astype(np.int64),
        service=service.astype(np.int64),
        response_ms=numbers(path, table[COLUMNS[-1]], LEAST_MS),
        composition=composition,
        batch_cpu=composition.sum(axis=1).astype(np.float64),
        services=tuple(services.tolist()),
        quota=np.ones(len(services)),
    )
    return observations, np.array(campaign, dtype=object)


TAOBENCH_FILE, NGINX_FILE, ERMS_FILE = "taobench_colocation.csv", "ntua_nginx_ibench.csv.gz", "erms_inflection.csv.gz"
KNEES = 181  # tried, evenly from half the least pressure to 95 % of the greatest
TAOBENCH = ("offline_type", "offline_label", "p99_slowdown")
NGINX = ("campaign", "Replicas", "Interference_Name", "Interference_ID", "Given_RPS", "Avg_Latency")
ERMS = ("success", "inflection", "a1", "b1", "a2", "b2", "tag", "cpuInter", "memInter")
PURE = 34  # scenarios of nginx up to this number disturb with one kind of load


def fit_curve(pressure: Float, slowdown: Float) -> Curve:
    """The curve through (0, 0) with the least squares to `slowdown` - 1 (n,) at `pressure` (n,) > 0; slopes >= 0."""
    from scipy.optimize import nnls

    best: tuple[float, Curve] | None = None
    for knee in np.linspace(0.5 * pressure.min(), 0.95 * pressure.max(), KNEES):
        parts = np.stack([np.minimum(pressure, knee), np.maximum(pressure - knee, 0.0)], axis=1)
        (below, above), residual = nnls(parts, slowdown)
        if best is None or residual < best[0] - 1e-12:
            best = residual, Curve(float(knee), float(below), float(above))
    assert best is not None
    return best[1]


def held_out(pressure: Float, slowdown: Float) -> Float:
    """(n,) error at each of n >= 3 points of the slowdown predicted by the curve through all others."""
    rest = [np.arange(len(pressure)) != i for i in range(len(pressure))]
    return np.array(
        [fit_curve(pressure[r], slowdown[r]).at(pressure[~r])[0] - slowdown[~r][0] for r in rest], np.float64
    )


def taobench_points(path: Path) -> dict[str, tuple[Float, Float]]:
    """Pressure, slowdown - 1 of bandwidth and cache: 99th percentile beside 2, 4, 8 workers of iBench over none."""
    import polars as pl

    table = read_table(path, TAOBENCH)
    found = {}
    for name, kind in (("bandwidth", "ibench_membw"), ("cache", "ibench_l3")):
        rows = table.filter(pl.col("offline_type") == kind)
        if len(rows) < 3:
            raise InputError(f"{path}: {len(rows)} rows of offline_type {kind!r}: must be at least 3")
        workers = rows["offline_label"].str.extract(r"(\d+)$").cast(pl.Float64).to_numpy()
        found[name] = workers, rows["p99_slowdown"].to_numpy() - 1.0
    return found


def nginx_points(path: Path) -> dict[str, tuple[Float, Float]]:
    """Pressure, slowdown - 1 of CPU, bandwidth and cache: mean response time beside 1 to 4 pods over the baseline.

    At the same load; of each number of pods the median over campaigns, replicas and offered loads.
    """
    import polars as pl

    same = ["campaign", "Replicas", "Given_RPS"]
    table = read_table(path, NGINX).filter(pl.col("Interference_ID") <= PURE)
    name = pl.col("Interference_Name")
    baseline = table.filter(name.str.starts_with("Baseline")).group_by(same).agg(base=pl.col("Avg_Latency").median())
    slowed = table.join(baseline, on=same).with_columns(
        pods=name.str.extract(r"^(\d)_").cast(pl.Float64), ratio=pl.col("Avg_Latency") / pl.col("base") - 1.0
    )
    found = {}
    for kind, part in (("cpu", "CPU"), ("bandwidth", "memBW"), ("cache", "l3")):
        mine = slowed.filter(name.str.contains(part) & pl.col("pods").is_not_null())
        medians = mine.group_by("pods").agg(pl.col("ratio").median()).sort("pods")
        if len(medians) < 3:
            raise InputError(f"{path}: {len(medians)} numbers of {part} pods: must be at least 3")
        found[kind] = medians["pods"].to_numpy(), medians["ratio"].to_numpy()
    return found


def fit_erms(path: Path) -> Float:
    """(microservices,) slowdown - 1: median latency under interference over the latency when least disturbed.

    A row of the file fits latency to load r: a1 r + b1 up to its inflection, a2 r + b2 above. Rows are compared at the
    inflection of the microservice's least disturbed row. The result is at least `LEAST_SENSITIVE`.
    """
    import polars as pl

    table = read_table(path, ERMS).filter(pl.col("success") & pl.col("inflection").is_not_null())
    found = []
    for _, rows in table.sort("tag", "cpuInter", "memInter").group_by("tag", maintain_order=True):
        a1, b1, a2, b2, inflection = (rows[name].to_numpy() for name in ("a1", "b1", "a2", "b2", "inflection"))
        load = inflection[0]
        latency = np.where(load <= inflection, a1 * load + b1, a2 * load + b2)
        if latency[0] > 0 and (latency > 0).sum() >= 6:
            found.append(max(float(np.median(latency[latency > 0] / latency[0])) - 1.0, LEAST_SENSITIVE))
    if len(found) < 2:
        raise InputError(f"{path}: {len(found)} microservices with six rows that fit: must be at least 2")
    return np.array(found)
