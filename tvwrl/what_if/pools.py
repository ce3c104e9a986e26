"""Nodes by what they are: which are left out of a replay, and what an hour of each costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from tvwrl.input_tables import InputTable
from tvwrl.types import InputError
from tvwrl.what_if.recorded import Recorded, without_nodes

CONTROL_PLANE, GPU = "control-plane", "gpu"
USUAL = (CONTROL_PLANE, GPU)  # what is left out unless somebody says otherwise
NOTHING = "none"
DEAREST = 1e6  # of an hour of a machine; what is above it is another unit


def without_pools(recorded: Recorded, names: Sequence[str]) -> Recorded:
    """The record without the nodes of some pools and the pods on them.

    `names`: names of pools, kinds or nodes, in which * stands for any letters; the usual ones need not be there, and
        `none` leaves nothing out

    Raises InputError for a name that no node has, and if nothing is left to replay.
    """
    if NOTHING in names:
        if len(names) > 1:
            raise InputError(f"excluded_nodes is {', '.join(names)}: 'none' stands alone")
        return recorded
    called = [
        (name, kind, *pools)
        for name, kind, pools in zip(recorded.node_name, recorded.kind, recorded.pools, strict=True)
    ]
    gone, found = np.zeros(len(called), np.bool_), []
    for name in names:
        meant = np.array([any(fnmatchcase(own, name) for own in of_node if own) for of_node in called])
        if not meant.any() and name not in USUAL:
            known = sorted({own for of_node in called for own in of_node[1:] if own})
            raise InputError(
                f"excluded_nodes is '{name}': no node has such a name, kind or pool; kinds and pools of this record: "
                f"{', '.join(known) or 'none are known'}"
            )
        new = meant & ~gone
        if new.any():
            found.append((name, int(new.sum()), int(new[recorded.node].sum())))
        gone |= meant
    return without_nodes(recorded, gone, found) if found else recorded


def with_prices(recorded: Recorded, prices: Mapping[str, float], otherwise: float | None = None) -> Recorded:
    """The record with the price of an hour of each node: that of its kind, or else its own, or else `otherwise`.

    Raises InputError for a kind that no node has, and if some nodes have a price and others none.
    """
    if unknown := sorted(set(prices) - set(recorded.kind)):
        kinds = ", ".join(sorted(set(recorded.kind) - {""})) or "none are known"
        raise InputError(f"prices has '{unknown[0]}': no node is of this kind; kinds of this record: {kinds}")
    price = np.array([prices.get(kind, own) for kind, own in zip(recorded.kind, recorded.price, strict=True)])
    price = np.where(np.isnan(price), np.nan if otherwise is None else otherwise, price).astype(np.float64)
    missing = np.isnan(price)
    if missing.any() and not missing.all():
        row = int(np.argmax(missing))
        of_kind = f" of kind '{recorded.kind[row]}'" if recorded.kind[row] else ", whose kind is unknown"
        raise InputError(
            f"node '{recorded.node_name[row]}'{of_kind} has no price, but others have: give one with --prices, or one "
            "for all others with --price-per-machine-hour"
        )
    return replace(recorded, price=price)


def prices_of(given: Sequence[str]) -> dict[str, float]:
    """Price of an hour by kind, from entries KIND=PRICE or from one CSV file with the columns kind and price.

    Raises InputError for anything else, and for a kind that is there twice.

    >>> prices_of(["m5.xlarge=0.192", "m5.2xlarge=0.384"])
    {'m5.xlarge': 0.192, 'm5.2xlarge': 0.384}
    """
    if len(given) == 1 and "=" not in given[0]:
        table = InputTable.read(Path(given[0]))
        table.need("kind", "price")
        table.need_rows()
        values = table.numbers("price", 0, DEAREST).tolist()
        rows = [
            (kind, value, f"{given[0]}: row {row}")
            for row, (kind, value) in enumerate(zip(table.names("kind"), values, strict=True), 1)
        ]
    else:
        rows = [_entry(entry) for entry in given]
    found: dict[str, float] = {}
    for kind, value, where in rows:
        if kind in found:
            raise InputError(f"{where}: kind is '{kind}', as before: each kind must be there once")
        found[kind] = value
    return found


def _entry(entry: str) -> tuple[str, float, str]:
    kind, _, text = entry.rpartition("=")
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not kind or not 0 <= value <= DEAREST:
        raise InputError(
            f"prices has '{entry}': needed: KIND=PRICE, such as m5.xlarge=0.192, with a price from 0 to {DEAREST:.0f}; "
            "or a CSV file with columns kind and price"
        )
    return kind, value, "prices"
