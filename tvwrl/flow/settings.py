"""The parameters of Aladdin+H."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tvwrl.checks import at_least, one_of, within

MOST_GROUPS = 8  # with more, costs of 100^8 and above are no longer exact


@dataclass(frozen=True)
class FlowSettings:
    """Parameters of Aladdin+H. Raises InputError for values out of range."""

    groups: int = 4
    """Groups of similar machines, K in Section 3.2; the paper uses 2, 4 and 8."""
    order: Literal["LRF", "SRF"] = "LRF"
    """Order of arrival: large demands first (LRF) or small ones (SRF), Section 4.3."""
    repack: Literal["none", "blocked", "cheapest"] = "blocked"
    """When placed replicas may move: never; to let in a replica without a direct path; or also where that is cheaper,
    which is the min-cost flow if capacities can be divided."""
    consolidate: bool = True
    """At the end, empty machines whose replicas find room on others in use."""
    regroup_every: int = 10_000
    """Replicas placed between two regroupings of machines by their residuals (Section 3.3); 0: never."""
    chain_length: int = 50
    """Replicas that may eject others in one chain of moves, before the chain is rolled back."""
    examined: int = 20_000
    """Machines that are examined for each ejection."""

    def __post_init__(self) -> None:
        within(1, MOST_GROUPS, groups=self.groups)
        at_least(0, regroup_every=self.regroup_every)
        at_least(1, chain_length=self.chain_length, examined=self.examined)
        one_of(("LRF", "SRF"), order=self.order)
        one_of(("none", "blocked", "cheapest"), repack=self.repack)
