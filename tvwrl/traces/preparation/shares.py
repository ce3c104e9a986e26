"""The two steps of a preparation: parts of the input become shares of workloads, shares become series.

Every part is read, checked and sorted by share (`read_part`); then every share is made into series (`make_share`). Each
call writes its own files, whole or not at all, and marks itself finished last, so that an interrupted run resumes
there. A share holds all records of its workloads and fits into memory, however large the input.
"""

from __future__ import annotations

import contextlib
import errno
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.deferring import deferred
from tvwrl.input_tables import refuse_spelt_twice
from tvwrl.runs import whole_file, write_json
from tvwrl.traces.canonical import LARGEST_USAGE
from tvwrl.traces.preparation.loader import CONTRADICTS, Loader, Part, Rows
from tvwrl.traces.preparation.series import (
    MICRO,
    TOO_SHORT,
    Records,
    SeriesRules,
    Slots,
    make_series,
    number_distinct,
    record_type,
    sorted_records,
)
from tvwrl.types import InputError

if TYPE_CHECKING:
    import polars as pl
else:
    pl = deferred("polars")

FOUND = 2  # rises when what is kept of a finished share changes
FULL = 1 + 1e-9  # what a machine has, and what rounding may add to it


def names_file(folder: Path, part: Part) -> Path:
    """Where the names of a part are kept."""
    return folder / f"{part.name}.names.parquet"


def refuse_spelt_apart(files: Mapping[Path, str]) -> None:
    """Raise InputError for names that are spelt alike in each of several inputs, but not in all of them.

    `files`: Parquet files of distinct names as they were written, a column each, and the source that each was read from
    """
    columns = pl.scan_parquet(list(files)[:1], glob=False).collect_schema().names() if files else []
    for column in columns:
        raw, name = pl.col(column), pl.col(column).str.strip_chars()
        blank = pl.scan_parquet(list(files), glob=False).filter((raw != name) & (name != ""))
        among = blank.select(name).unique().collect()[column]
        if among.is_empty():  # as nearly always
            continue
        pieces = [
            pl.scan_parquet(file, glob=False).select(column).filter(name.is_in(among.implode())).unique().sort(column)
            for file in files
        ]
        found = pl.collect_all(pieces)
        sources = [source for source, piece in zip(files.values(), found, strict=True) for _ in range(len(piece))]
        refuse_spelt_twice(pl.concat(found), sources.__getitem__)


def read_part(loader: Loader, part: Part, folder: Path, shares: int) -> dict[str, Any]:
    """Read one part, write its rows sorted by share and return their counts; a finished part is not read again."""
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / f"{part.name}.json"
    if (before := finished(done, part.stamp)) is not None:
        return before
    rows = loader.read(part)
    found = counts_of(part.table, rows) | {"stamp": part.stamp}
    with full_disk_explained(folder):
        if rows.names.columns:
            with whole_file(names_file(folder, part)) as partial:
                rows.names.write_parquet(partial)
        if part.usage:
            found |= _write_usage(loader, rows.frame, folder / part.name, shares)
        else:  # facts about something else than one workload are for all shares: null
            of_one = set(loader.keys) <= set(rows.frame.columns)
            share = _share(loader, shares) if of_one else pl.lit(None, pl.UInt16).alias("share")
            with whole_file(folder / f"{part.name}.parquet") as partial:
                rows.frame.with_columns(share).sort("share", maintain_order=True).write_parquet(partial)
        write_json(done, found)
    return found


def counts_of(table: str, rows: Rows) -> dict[str, Any]:
    """What was found in rows of a table, to be kept as JSON."""
    counts = {name: value for name, value in vars(rows).items() if name not in ("frame", "names")}
    return {"table": table, "rows": counts, "span": []}


def _write_usage(loader: Loader, frame: pl.DataFrame, stem: Path, shares: int) -> dict[str, Any]:
    """Two files: owners (hash, keys, members, share), each once; and records with the owner's hash, share by share.

    Returns the time span of the rows and where each share begins in them.
    """
    names = [*loader.keys, *loader.members]
    hashes = frame.select(_hash(names)).to_series().rename("owner")
    number, first = number_distinct(hashes.to_numpy())
    owners = frame.select(names)[first].with_columns(hashes[first], _share(loader, shares))
    with whole_file(stem.with_suffix(".owners.parquet")) as partial:
        owners.write_parquet(partial)
    share = owners["share"].cast(pl.Int64).to_numpy()[number]
    records = np.empty(len(frame), record_type(loader.resources))
    records["owner"] = hashes.to_numpy()
    for name in records.dtype.names[1:]:
        records[name] = frame[name].to_numpy()
    with whole_file(stem.with_suffix(".records")) as partial:
        _write(sorted_records(records, share, shares), partial)
    offsets = [0, *np.cumsum(np.bincount(share, minlength=shares)).tolist()]
    span = [int(records["begin"].min()), int(records["end"].max())] if len(records) else []
    return {"span": span, "offsets": offsets}


def _write(records: Records, path: Path) -> None:
    """Write the records as they lie in memory; unlike ndarray.tofile this raises OSError where the disk is full."""
    with path.open("wb") as file:
        file.write(records.view(np.uint8).data)


def _hash(columns: Sequence[str]) -> pl.Expr:
    """UInt64 from the values of the columns; of 64 bits, so that two owners never share one in practice."""
    return pl.struct(columns).hash(seed=0)


def _share(loader: Loader, shares: int) -> pl.Expr:
    return (_hash(loader.keys) % shares).cast(pl.UInt16).alias("share")


def make_share(
    loader: Loader, rules: SeriesRules, parts: Sequence[Part], folder: Path, share: int, origin: int
) -> dict[str, Any]:
    """Make the series of one share of the workloads; writes usage, workloads and what was dropped."""
    done = folder / f"share-{share:04d}.json"
    stamp = [FOUND, asdict(rules), origin, [part.stamp for part in parts]]
    if (before := finished(done, stamp)) is not None:
        return before
    keys, members, resources = list(loader.keys), list(loader.members), list(loader.resources)
    usage_parts = [part for part in parts if part.usage]
    owners = _of_share([folder / f"{part.name}.owners.parquet" for part in usage_parts], share).unique("owner")
    usage = _usage_of(usage_parts, folder, share, record_type(resources))
    if loader.sample_seconds > rules.slot_seconds:
        usage["end"][usage["end"] == usage["begin"]] += loader.sample_seconds * MICRO
    files: dict[str, list[Path]] = {}
    for part in parts:
        if not part.usage:
            files.setdefault(part.table, []).append(folder / f"{part.name}.parquet")
    known = loader.workloads({table: _of_share(found, share) for table, found in files.items()})
    shared = [key for key in keys if known is not None and key in known.columns]
    counts: Counter[str] = Counter()
    described = owners if known is None else owners.select("owner", *keys).join(known, on=shared, how="left")
    if known is not None:
        unwanted = described.select("owner", *keys, _reason(known)).drop_nulls("dropped")
        counts.update(f"workloads {reason}" for reason in unwanted.unique(keys)["dropped"].to_list())
        if len(unwanted):
            usage = usage[~np.isin(usage["owner"], unwanted["owner"].to_numpy())]
    unlike = counts.total()
    above = _above_one(usage, described, keys)
    table, slots, longest, dropped = make_series(usage, owners, keys, members, rules, origin)
    facts = table if known is None else table.join(known, on=shared, how="left", maintain_order="left")
    for d, name in enumerate(resources):
        if f"scale_{name}" in facts.columns:
            slots.usage[:, d] *= facts[f"scale_{name}"].cast(pl.Float64).to_numpy()[slots.owner]
    ids = table.select(_workload_id(keys)).to_series()
    for row, d in np.argwhere(slots.usage > LARGEST_USAGE)[:1].tolist():
        name, uses = ids[int(slots.owner[row])], f"{slots.usage[row, d]:.3g} reference machines of {resources[d]}"
        raise InputError(f"workload {name!r} uses {uses}, more than {LARGEST_USAGE:g}: is it scaled right?")
    first = slots.first_rows()
    last = np.append(first[1:], len(slots.owner)) - 1
    span = int((slots.slot[last] - slots.slot[first] + 1).sum()) if len(first) else 0  # both ends counted
    with full_disk_explained(folder):
        with whole_file(folder / f"usage-{share:04d}.arrow") as partial:
            columns = {name: slots.usage[:, d] for d, name in enumerate(resources)}
            series = {"workload_id": ids.gather(slots.owner), "slot": slots.slot, **columns}
            pl.DataFrame(series).write_ipc(partial)
        with whole_file(folder / f"workloads-{share:04d}.arrow") as partial:
            _described(ids, facts, resources, slots).write_ipc(partial)
        found = {"stamp": stamp, "dropped": counts + dropped, "kept": len(table)}
        found |= {"contradicted": int(facts[CONTRADICTS].sum() or 0) if CONTRADICTS in facts.columns else 0}
        found |= {"seen": unlike + len(table) + dropped[TOO_SHORT], "slots": len(slots.slot)}
        found |= {"above": above, "longest": longest, "recorded": int(slots.recorded.sum()), "span": span}
        write_json(done, found)
    return found


def _usage_of(parts: Sequence[Part], folder: Path, share: int, kind: np.dtype[Any]) -> Records:
    """(R,) records of one share, in the order of the parts."""
    spans = [json.loads((folder / f"{part.name}.json").read_text())["offsets"][share : share + 2] for part in parts]
    records, row = np.empty(sum(end - begin for begin, end in spans), kind), 0
    for part, (begin, end) in zip(parts, spans, strict=True):
        with (folder / f"{part.name}.records").open("rb") as file:
            file.seek(begin * kind.itemsize)
            records[row : row + end - begin] = np.fromfile(file, kind, end - begin)
        row += end - begin
    return records


def _workload_id(keys: Sequence[str]) -> pl.Expr:
    return pl.concat_str([pl.col(key).cast(pl.String) for key in keys], separator="-")


def _above_one(records: Records, described: pl.DataFrame, keys: list[str]) -> dict[str, dict[str, Any]]:
    """Of each resource of which (R,) records use more than the reference machine has: how many, and the largest.

    `described` has every `owner` with its `keys`, and `scale_<resource>` where usage is still to be scaled. The largest
    is its `usage`, `workload` and `time` (microseconds).
    """
    found: dict[str, dict[str, Any]] = {}
    described = described.sort("owner")
    owners = described["owner"].to_numpy()
    for name in (records.dtype.names or ())[3:]:
        scale = np.ones(len(owners))
        if f"scale_{name}" in described.columns:
            scale = described[f"scale_{name}"].cast(pl.Float64).fill_null(0.0).to_numpy()
        most = scale.max(initial=0.0)
        rows = np.flatnonzero(records[name] * most > FULL)  # at most these: as a rule none, and owners are not needed
        owner = np.searchsorted(owners, records["owner"][rows])
        uses = records[name][rows] * scale[owner]
        count = int((uses > FULL).sum())
        if count:
            largest = int(uses.argmax())
            workload = described[[int(owner[largest])]].select(_workload_id(keys)).item()
            moment = int(records["begin"][rows[largest]])
            found[name] = {"records": count, "usage": float(uses[largest]), "workload": workload, "time": moment}
    return found


def _of_share(files: Sequence[Path], share: int) -> pl.DataFrame:
    mine = (pl.col("share") == share) | pl.col("share").is_null()
    return pl.scan_parquet(list(files), glob=False).filter(mine).drop("share").collect()


def _reason(known: pl.DataFrame) -> pl.Expr:
    """Why a workload is left out, or null: the loader's reason, or that its usage cannot be scaled."""
    reason = pl.col("dropped") if "dropped" in known.columns else pl.lit(None, pl.String)
    scales = [pl.col(name).is_null() for name in known.columns if name.startswith("scale_")]
    unknown = pl.any_horizontal(scales) if scales else pl.lit(False)
    return pl.coalesce(reason, pl.when(unknown).then(pl.lit("of unknown size"))).alias("dropped")


def _described(ids: pl.Series, facts: pl.DataFrame, resources: list[str], slots: Slots) -> pl.DataFrame:
    """The rows of workloads.parquet."""
    kinds = {"application": pl.String, "priority": pl.Float64, "class": pl.Float64}
    kinds |= {f"request_{name}": pl.Float64 for name in resources}
    first = slots.slot[slots.first_rows()]
    columns = [pl.col(n).cast(k) if n in facts.columns else pl.lit(None, k).alias(n) for n, k in kinds.items()]
    known = facts.with_columns(columns).select(list(kinds))
    return pl.DataFrame([ids.alias("workload_id"), pl.Series("arrival", first, dtype=pl.Int64), *known])


def finished(done: Path, stamp: list[Any]) -> dict[str, Any] | None:
    """The counts of a finished piece if it was made of the same input, else None."""
    try:
        found: dict[str, Any] = json.loads(done.read_text())
    except (OSError, ValueError):
        return None
    return found if found.get("stamp") == json.loads(json.dumps(stamp)) else None


@contextlib.contextmanager
def full_disk_explained(folder: Path) -> Iterator[None]:
    """Turn the error of a full disk into one that explains what to do."""
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
