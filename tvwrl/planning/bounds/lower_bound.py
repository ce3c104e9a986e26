"""Lower bounds on the number of machines that an instance needs.

Each bound holds by itself; the largest counts. A fleet of different machines is replaced by one with the largest
capacity of every resource, except for the volume, which takes the machines in the order of the fleet.

- `volume`: total demand in each resource at each time, Eq. 4 of the provisioning paper;
- `sizes`: dual feasible functions of the sizes, in each resource at each time: large replicas leave room that nothing
  fills (Martello and Toth 1990; Fekete and Schepers 2001);
- `self_limits`: an application alone, with no more replicas on a machine than fit and its self limit allows;
- `exclusion`: applications of which no two share a machine (an affinity limit of 0, or one replica of each is too much)
  need machines of their own, each as many as it needs alone;
- `patterns`: given time, the linear programme over all fillings of a machine (Gilmore and Gomory 1961) in which at most
  one of these applications occurs.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvwrl.checks import at_least
from tvwrl.planning.bounds.counting import by_self_limits, by_sizes, by_volume
from tvwrl.planning.bounds.exclusion import by_exclusion
from tvwrl.planning.bounds.patterns import by_patterns
from tvwrl.planning.instance import Fleet, Instance, check_fits


@dataclass(frozen=True)
class PlanBound:
    """The largest of several bounds, and each of them."""

    machines: int  # no plan of all replicas uses fewer
    each: dict[str, int]  # by name, see the module; `patterns` is missing where it does not apply


def lower_bound(instance: Instance, fleet: Fleet, seconds: float = 0.0) -> PlanBound:
    """Machines of `fleet` that any plan of all replicas of `instance` needs; `seconds` >= 0 for the linear programme, 0
    leaves it out.

    Raises InputError if an application is larger than every machine.
    """
    at_least(0, seconds=seconds)
    check_fits(instance, fleet)
    each = {"volume": by_volume(instance, fleet)}
    each["sizes"] = by_sizes(instance, fleet, max(each.values()))
    each["self_limits"] = by_self_limits(instance, fleet)
    each["exclusion"], apart = by_exclusion(instance, fleet)
    patterns = by_patterns(instance, fleet, apart, seconds) if seconds else None
    if patterns is not None:
        each["patterns"] = patterns
    return PlanBound(max(each.values()), each)
