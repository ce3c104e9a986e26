"""A plan of moves: which pods go where, in which order, and what that is expected to be worth."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

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
        Machine-hours of the next day; a drained node's are shared by the pods that leave it.
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
        plain["expected"] = {name: point._asdict() for name, point in self.expected.items()}
        return {"version": VERSION, **plain}
