"""The usage of the last days up to the last whole hour: read once an hour, and kept for little longer."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import replace
from urllib.parse import urlsplit

from tvwrl.progress import Report
from tvwrl.traces import Prometheus, RetryPolicy, Server, address, data_folder
from tvwrl.what_if import Asked, Recorded, read_prometheus_record

HOUR = 3600  # seconds
KEPT = 2 * HOUR  # who began to read an older hour is done with it by then


def read_latest(asked: Asked, report: Report) -> Recorded:
    """Read a cluster's past up to the last whole hour on the clock of its server.

    What was read is kept, so that the same call within that hour reads nothing again. What earlier calls with the same
    options kept of older hours is deleted: a controller reads every hour for months.

    Parameters
    ----------
    asked : Asked
        The server and what to read of it; its end and its folder are not looked at.
    report : callable
        Gets a line as each step begins.

    Returns
    -------
    Recorded
        The past.

    Raises
    ------
    InputError
        As `read_prometheus_record`.

    Examples
    --------
    >>> read_latest(Asked("http://prometheus:9090", days=1.0), print).slots  # doctest: +SKIP
    288
    """
    server = Server(address(asked.url), RetryPolicy(asked.retries + 1, asked.timeout))
    end = server.clock() // HOUR * HOUR
    folder = data_folder() / "rebalance" / _name(asked)
    recorded = read_prometheus_record(replace(asked, end=str(end), folder=folder / str(end)), report)
    for older in folder.iterdir():
        if older.name.isdecimal() and int(older.name) < end - KEPT:
            shutil.rmtree(older, ignore_errors=True)
    return recorded


def _name(asked: Asked) -> str:
    """A folder's name for what is read: the same for the same request at another time."""
    what = (address(asked.url), Prometheus.version, asked.days, asked.interval, asked.selector, asked.chunk)
    return f"{urlsplit(asked.url).hostname}-{hashlib.sha256(repr(what).encode()).hexdigest()[:12]}"
