"""Measured runs of nginx under iBench and stress-ng, as observations."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from tvwrl.input_tables import read_table
from tvwrl.interference import CATEGORIES, Observations, numbers
from tvwrl.types import InputError, Int, Strings

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
