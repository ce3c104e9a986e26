"""Runs the two steps of a preparation over many files: here on all cores, or on many machines through Ray.

First every part of the input is read, checked and cut into shares of workloads (`read_part`); then every share is
made into series (`make_share`). Each step writes one file per piece, whole or not at all, so that a run that was
stopped goes on where it was. A share holds all records of its workloads and fits into memory, however large the input.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.runs import whole_file, write_json
from tvwrl.traces.preparation.loader import Loader, Part
from tvwrl.traces.preparation.series import MICRO, TOO_SHORT, SeriesRules, make_series
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl

Call = tuple[Callable[..., dict[str, Any]], tuple[Any, ...]]


def read_part(loader: Loader, part: Part, folder: Path, shares: int) -> dict[str, Any]:
    """Read one part, write its rows sorted by share, and say what was found; skips what is done already."""
    import polars as pl

    folder.mkdir(parents=True, exist_ok=True)
    done = folder / f"{part.name}.json"
    if (before := _finished(done, part.stamp)) is not None:
        return before
    rows = loader.read(part)
    span: list[int] = []
    if part.usage and len(rows.frame):
        span = [int(rows.frame["begin"].min()), int(rows.frame["end"].max())]  # type: ignore[arg-type]
    frame = rows.frame.with_columns(pl.lit(None, pl.UInt16).alias("share"))
    if set(loader.keys) <= set(frame.columns):  # facts about something else than one workload are for all shares
        frame = frame.with_columns((_hash(loader.keys) % shares).cast(pl.UInt16).alias("share"))
    if part.usage:
        frame = frame.with_columns(_hash((*loader.keys, *loader.members)).alias("owner"))
    frame = frame.sort("share", maintain_order=True)
    with full_disk_explained(folder), whole_file(folder / f"{part.name}.parquet") as partial:
        # A row group is about one share, so that a reader of a share skips the others.
        frame.write_parquet(partial, compression="lz4", row_group_size=max(len(frame) // shares, 1024))
    found = {"stamp": part.stamp, "table": part.table, "rows": rows.read, "bad": rows.bad, "dropped": rows.dropped}
    found |= {"examples": rows.examples, "span": span}
    with full_disk_explained(folder):
        write_json(done, found)
    return found


def _hash(columns: Sequence[str]) -> pl.Expr:
    """UInt64 from the values of the columns; of 64 bits, so that two workloads never share one in practice."""
    import polars as pl

    return pl.struct(columns).hash(seed=0)


def make_share(
    loader: Loader, rules: SeriesRules, parts: Sequence[Part], folder: Path, share: int, origin: int
) -> dict[str, Any]:
    """Make the series of one share of the workloads; writes usage, workloads and what was dropped."""
    import polars as pl

    done, stamp = folder / f"share-{share:04d}.json", [asdict(rules), origin, [part.stamp for part in parts]]
    if (before := _finished(done, stamp)) is not None:
        return before
    usage = _rows_of(folder, [part for part in parts if part.usage], share)
    tables = sorted({part.table for part in parts if not part.usage})
    facts = {t: _rows_of(folder, [p for p in parts if p.table == t and not p.usage], share) for t in tables}
    counts: Counter[str] = Counter()
    known = loader.workloads(facts)
    keys, members, resources = list(loader.keys), list(loader.members), list(loader.resources)
    if known is not None:
        unwanted = (
            usage.select(keys)
            .unique()
            .join(known, on=keys, how="left")
            .select(*keys, _reason(known))
            .drop_nulls("dropped")
        )
        counts.update(f"workloads {reason}" for reason in unwanted["dropped"].to_list())
        if len(unwanted):
            usage = usage.join(unwanted, on=keys, how="anti", maintain_order="left")
    unlike = sum(counts.values())
    table, slots, dropped = make_series(usage, keys, members, resources, rules, origin)
    facts_of = table if known is None else table.join(known, on=keys, how="left", maintain_order="left")
    values = slots.usage
    for d, name in enumerate(resources):
        if f"scale_{name}" in facts_of.columns:
            values[:, d] *= facts_of[f"scale_{name}"].cast(pl.Float64).to_numpy()[slots.owner]
    ids = table.select(pl.concat_str([pl.col(k).cast(pl.String) for k in keys], separator="-")).to_series()
    series = pl.DataFrame({"workload_id": ids.gather(slots.owner), "slot": slots.slot})
    series = series.with_columns(pl.Series(name, values[:, d]) for d, name in enumerate(resources))
    with full_disk_explained(folder):
        with whole_file(folder / f"usage-{share:04d}.arrow") as partial:
            series.write_ipc(partial)
        with whole_file(folder / f"workloads-{share:04d}.arrow") as partial:
            _described(ids, facts_of, resources, slots.owner, slots.slot).write_ipc(partial)
        recorded, first = int((slots.records > 0).sum()), np.unique(slots.owner, return_index=True)[1]
        last = np.append(first[1:], len(slots.owner)) - 1 if len(first) else first
        span = int((slots.slot[last] - slots.slot[first] + 1).sum()) if len(first) else 0
        found = {
            "stamp": stamp,
            "dropped": counts + dropped,
            "seen": unlike + len(table) + dropped[TOO_SHORT],
            "kept": len(table),
        }
        found |= {"slots": len(slots.slot), "recorded": recorded, "span": span}
        write_json(done, found)
    return found


def _reason(known: pl.DataFrame) -> pl.Expr:
    """Why a workload is not wanted, or null: what the loader says, or that its usage cannot be scaled."""
    import polars as pl

    reason = pl.col("dropped") if "dropped" in known.columns else pl.lit(None, pl.String)
    scales = [pl.col(name).is_null() for name in known.columns if name.startswith("scale_")]
    unknown = pl.any_horizontal(scales) if scales else pl.lit(False)
    return pl.coalesce(reason, pl.when(unknown).then(pl.lit("of unknown size"))).alias("dropped")


def _described(
    ids: pl.Series, facts: pl.DataFrame, resources: list[str], owner: np.ndarray[Any, Any], slot: np.ndarray[Any, Any]
) -> pl.DataFrame:
    """The rows of workloads.parquet."""
    import polars as pl

    kinds = {"application": pl.String, "priority": pl.Float64, "class": pl.Float64}
    kinds |= {f"request_{name}": pl.Float64 for name in resources}
    first = slot[np.unique(owner, return_index=True)[1]]
    columns = [pl.col(n).cast(k) if n in facts.columns else pl.lit(None, k).alias(n) for n, k in kinds.items()]
    known = facts.with_columns(columns).select(list(kinds))
    return pl.DataFrame([ids.alias("workload_id"), pl.Series("arrival", first, dtype=pl.Int64), *known])


def _rows_of(folder: Path, parts: Sequence[Part], share: int) -> pl.DataFrame:
    import polars as pl

    files = [folder / f"{part.name}.parquet" for part in parts]
    return (
        pl.scan_parquet(files, glob=False)
        .filter((pl.col("share") == share) | pl.col("share").is_null())
        .drop("share")
        .collect()
    )


def _finished(done: Path, stamp: list[Any]) -> dict[str, Any] | None:
    """What a finished piece has found, if it was made of the same input."""
    try:
        found: dict[str, Any] = json.loads(done.read_text())
    except (OSError, ValueError):
        return None
    return found if found.get("stamp") == json.loads(json.dumps(stamp)) else None


@contextlib.contextmanager
def full_disk_explained(folder: Path) -> Iterator[None]:
    """Say what to do where the disk is full."""
    try:
        yield
    except Exception as error:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        if not full and "No space left" not in str(error):
            raise
        raise InputError(
            f"{folder}: no space left on the disk; make room, or put the output elsewhere with --out, and run the same "
            "command again: finished parts are kept"
        ) from None


def run_calls(calls: Sequence[Call], workers: int, ray: str | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Position and result of every call, as they finish: in `workers` threads, or on the Ray cluster at `ray`."""
    yield from (_on_ray(calls, ray) if ray else _here(calls, workers))


def _here(calls: Sequence[Call], workers: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """In threads: what takes long is compiled code that runs side by side."""
    with ThreadPoolExecutor(workers) as pool:
        waiting: dict[Future[dict[str, Any]], int] = {}
        todo = iter(enumerate(calls))
        try:
            for position, (function, arguments) in todo:
                waiting[pool.submit(function, *arguments)] = position
                if len(waiting) >= 2 * workers:  # the rest is handed out as these finish
                    yield from _ended(waiting)
            while waiting:
                yield from _ended(waiting)
        finally:
            pool.shutdown(cancel_futures=True)


def _ended(waiting: dict[Future[dict[str, Any]], int]) -> Iterator[tuple[int, dict[str, Any]]]:
    for future in wait(waiting, return_when=FIRST_COMPLETED).done:
        yield waiting.pop(future), future.result()


def _on_ray(calls: Sequence[Call], address: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """On a cluster; input and work folder have to be the same for all its machines."""
    try:
        import ray
    except ImportError:
        raise InputError("--ray needs Ray: pip install 'tvwrl[ray]'") from None

    if not ray.is_initialized():
        _check_cluster(address)
        options = {"include_dashboard": False} if address == "local" else {"address": address}
        try:
            ray.init(log_to_driver=False, configure_logging=False, **options)
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InputError(f"--ray {address}: no Ray cluster there: {error}") from None
    remote = ray.remote(num_cpus=1, max_retries=3)(_apply)
    waiting = {remote.remote(function, arguments): i for i, (function, arguments) in enumerate(calls)}
    try:
        while waiting:
            ready, _ = ray.wait(list(waiting), num_returns=1)
            for reference in ready:
                yield waiting.pop(reference), ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InputError):
            raise InputError(str(error.cause)) from None
        raise
    finally:
        for reference in waiting:
            ray.cancel(reference)


def _check_cluster(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address in ("local", "auto"):
        return
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, ValueError) as error:
        needed = 'needed: HOST:PORT of a running cluster, "auto" or "local"'
        raise InputError(f"--ray {address}: no Ray cluster there ({error}); {needed}") from None


def _apply(function: Callable[..., dict[str, Any]], arguments: tuple[Any, ...]) -> dict[str, Any]:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # one call is one core of the cluster
    return function(*arguments)


def first_slot(spans: Sequence[list[int]], slot_seconds: int) -> int:
    """The slot, counted from time 0, in which the earliest record begins."""
    return min(begin for begin, _ in spans) // (slot_seconds * MICRO)
