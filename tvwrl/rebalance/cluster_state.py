"""What a cluster looks like at one moment, and what its owners and Kubernetes forbid: all that a plan of moves may use.

Letters: N pods, M nodes, G groups of pods with the same rules about nodes, D = 2 resources (CPU in cores, memory in
GiB).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tvwrl.types import Bool, Float, Int, Strings

AFFINITY, ANTI_AFFINITY, SPREAD = "affinity", "anti-affinity", "spread"


class Budget(NamedTuple):
    """A PodDisruptionBudget as it stands.

    Parameters
    ----------
    name : str
        As "namespace/name".
    pods : Int
        Rows of the pods that it covers.
    allowed : int
        How many of these may be down beyond those that are down already, >= 0.

    Examples
    --------
    >>> Budget("shop/cart", np.array([3, 4]), 1).allowed
    1
    """

    name: str
    pods: Int
    allowed: int


class Term(NamedTuple):
    """A rule about pods that share a domain, which is a node, a zone, or whatever a label of nodes says.

    - affinity: a carrier runs only in a domain where another matched pod runs;
    - anti-affinity: a carrier and a matched pod never run in one domain;
    - spread: in no domain run more than `skew` matched pods more than in the domain with the fewest.

    Parameters
    ----------
    kind : str
        `AFFINITY`, `ANTI_AFFINITY` or `SPREAD`.
    carriers : Int
        Rows of the pods that declare it.
    matched : Int
        Rows of the pods that its selector matches.
    domain : Int
        (M,) of each node, from 0; -1: the node lacks the label, so that no carrier may run there.
    skew : int
        Of a spread, >= 1.

    Examples
    --------
    >>> Term(SPREAD, np.array([0, 1]), np.array([0, 1]), np.array([0, 0, 1]), 1).kind
    'spread'
    """

    kind: str
    carriers: Int
    matched: Int
    domain: Int
    skew: int = 0


class Waiting(NamedTuple):
    """A pod that waits for a node: no room is kept for it, but it takes the room that moves make.

    Parameters
    ----------
    pod : str
        As "namespace/name".
    owner : str
        As "namespace/kind/name", "" for none.
    request : Float
        (D,) cores and GiB.
    allowed : Bool
        (M,) nodes to which selectors, node affinity and taints let it go, and which have the devices that it asks for.
    tried : bool
        Whether a scheduler found no node for it: then those with room refuse it, for what runs there, say.

    Examples
    --------
    >>> Waiting("shop/cart-1", "", np.array([1.0, 2.0]), np.array([True, False])).pod
    'shop/cart-1'
    """

    pod: str
    owner: str
    request: Float
    allowed: Bool
    tried: bool = False


@dataclass(frozen=True, eq=False)
class ClusterState:
    """Nodes and pods of a cluster at one moment, and what Kubernetes would refuse.

    Parameters
    ----------
    source : str
        Where it was read, for messages.
    time : float
        Seconds since 1970.
    node : Strings
        (M,) different names.
    size : Float
        (M, D) cores and GiB that pods may use (`status.allocatable`), >= 0.
    most_pods : Int
        (M,) pods that a node may run.
    open : Bool
        (M,) True where new pods may go: ready and not cordoned.
    kind : Strings
        (M,) such as m5.xlarge, "" where unknown.
    price : Float
        (M,) of an hour, NaN where unknown.
    pod : Strings
        (N,) "namespace/name" of all pods that hold room on a node, movable or not.
    uid : Strings
        (N,) as Kubernetes has it, "" where unknown.
    owner : Strings
        (N,) "namespace/kind/name" of the controller, as `tvwrl.traces.owner_of` spells it, "" for none.
    at : Int
        (N,) the node of each pod, 0..M-1.
    request : Float
        (N, D) cores and GiB, 0 where none is declared.
    priority : Int
        (N,) as of its PriorityClass, 0 where unknown.
    bound : Bool
        (N,) True for pods that belong to their node (of a DaemonSet, or static): they do not keep a node in use.
    stays : Strings
        (N,) why a pod must not be moved, a few words; "": it may be.
    group : Int
        (N,) 0..G-1.
    allowed : Bool
        (G, M) nodes to which selectors, node affinity and taints let the pods of a group go; whether a node is open
        is not part of it.
    terms : tuple of Term
        What pods ask of their neighbours.
    budgets : tuple of Budget
        Of disruptions.
    unknown : tuple of str
        Sentences about what could not be known, and what was assumed instead.
    unsaved : dict of str to str
        Node -> why it is nothing that a plan saves when it is empty: something removes it anyway, or nothing may.
    waiting : tuple of Waiting
        Pods without a node.

    Examples
    --------
    >>> state = read_state(Path("objects.json"))  # doctest: +SKIP
    >>> state.pod[state.stays == ""]  # may be moved  # doctest: +SKIP
    """

    source: str
    time: float
    node: Strings
    size: Float
    most_pods: Int
    open: Bool
    kind: Strings
    price: Float
    pod: Strings
    uid: Strings
    owner: Strings
    at: Int
    request: Float
    priority: Int
    bound: Bool
    stays: Strings
    group: Int
    allowed: Bool
    terms: tuple[Term, ...] = ()
    budgets: tuple[Budget, ...] = ()
    unknown: tuple[str, ...] = ()
    unsaved: Mapping[str, str] = field(default_factory=dict)
    waiting: tuple[Waiting, ...] = ()

    def __len__(self) -> int:
        return len(self.pod)

    @property
    def in_use(self) -> Bool:
        """(M,) whether a node runs a pod that does not belong to it."""
        used = np.zeros(len(self.node), np.bool_)
        used[self.at[~self.bound]] = True
        return used

    @property
    def savable(self) -> Bool:
        """(M,) whether a plan saves a node when it empties it."""
        return np.array([name not in self.unsaved for name in self.node], np.bool_)
