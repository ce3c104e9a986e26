"""A plan of moves: which pods go where, in which order, and what that is expected to be worth."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from tvwrl.types import InputError

VERSION = 1  # of the file


class PodMove(NamedTuple):
    """One pod that is evicted, and where its replacement should run.

    Parameters
    ----------
    batch : int
        From 0; those of a batch may be on their way together, the next begins when all of them run.
    pod : str
        As "namespace/name".
    uid : str
        "" where unknown.
    owner : str
        As "namespace/kind/name".
    source : str
        Node that it leaves.
    target : str
        Node that it goes to.
    reason : str
        A few words.
    saving : float
        Hours of the next day: of a node that is emptied, shared by the pods that leave it, or of overload that ends.
    risk : str
        A few words; "" where none is known.

    Examples
    --------
    >>> PodMove(0, "shop/cart-1", "", "shop/deployment/cart", "node-1", "node-2", "empties node-1", 24.0, "").target
    'node-2'
    """

    batch: int
    pod: str
    uid: str
    owner: str
    source: str
    target: str
    reason: str
    saving: float
    risk: str


class Point(NamedTuple):
    """A mean and its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class MovePlan:
    """Moves in order, and what is expected of them.

    Parameters
    ----------
    made : float
        Seconds since 1970 at which the cluster was seen.
    source : str
        Where it was seen.
    goal : str
        `machines`, `cost` or `overload`.
    moves : tuple of PodMove
        In the order of their batches.
    drained : tuple of str
        Nodes that run no pod afterwards but those that belong to them.
    expected : dict of str to Point
        Quantity -> what it changes over the next day, with an interval: see `docs/how-to/rebalance.md`.
    stays : dict of str to int
        Reason -> how many pods must not be moved for it.
    unknown : tuple of str
        What could not be known, and what was assumed.

    Examples
    --------
    >>> read_plan(Path("plan.json")).drained  # doctest: +SKIP
    ('node-17', 'node-42')
    """

    made: float
    source: str
    goal: str
    moves: tuple[PodMove, ...]
    drained: tuple[str, ...]
    expected: dict[str, Point]
    stays: dict[str, int]
    unknown: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """As plain values for JSON."""
        plain = asdict(self)
        plain["moves"] = [move._asdict() for move in self.moves]
        plain["expected"] = {
            name: {part: value if math.isfinite(value) else None for part, value in point._asdict().items()}
            for name, point in self.expected.items()
        }  # JSON has no infinity, and what is not known is no number
        return {"version": VERSION, **plain}


TEXT = ("pod", "uid", "owner", "source", "target", "reason", "risk")


def read_plan(file: Path) -> MovePlan:
    """Read a plan that `tvwrl rebalance` wrote.

    Parameters
    ----------
    file : Path
        The file plan.json.

    Returns
    -------
    MovePlan
        The plan.

    Raises
    ------
    InputError
        With the file and the field, for a file that cannot be read, is of another version, or was changed in a way
        that makes no sense.

    Examples
    --------
    >>> read_plan(Path("plan.json")).moves[0].target  # doctest: +SKIP
    'node-17'
    """
    try:
        content = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{file}: cannot be read as JSON: {error}") from None
    if not isinstance(content, dict) or content.get("version") != VERSION:
        raise InputError(f"{file}: version: must be {VERSION}, as tvwrl rebalance of this version writes plan.json")
    try:
        made = float(content["made"])
        moves = tuple(_move(one) for one in content["moves"])
        expected = {str(name): _point(point) for name, point in content["expected"].items()}
        lists = {name: tuple(map(str, content[name])) for name in ("drained", "unknown")}
        stays = {str(name): int(count) for name, count in content["stays"].items()}
        plan = MovePlan(
            made, str(content["source"]), str(content["goal"]), moves, expected=expected, stays=stays, **lists
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{file}: is no plan: {type(error).__name__}: {error}") from None
    if not math.isfinite(made):
        raise InputError(f"{file}: made is {made}: must be seconds since 1970")
    batches = [move.batch for move in moves]
    if batches != sorted(batches) or min(batches, default=0) < 0:
        raise InputError(f"{file}: moves: batch must be 0 or more, and never fall")
    return plan


def _point(given: dict[str, Any]) -> Point:
    if any(not isinstance(value, float | int | None) for value in given.values()):
        raise TypeError(f"{given}: must be numbers")
    return Point(**{name: math.nan if value is None else value for name, value in given.items()})


def _move(row: dict[str, Any]) -> PodMove:
    for name in TEXT:
        if not isinstance(row[name], str):
            raise TypeError(f"{name} is {row[name]!r}: must be text")
    if not isinstance(row["batch"], int) or not math.isfinite(row["saving"]):
        raise TypeError(f"the move of {row['pod']}: batch must be a whole number, and saving a number")
    return PodMove(**row)
