"""The environment's parameters in one place: the defaults are the paper's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from tvwrl.checks import at_least, one_of, positive, with_known_fields, within
from tvwrl.penalties import PenaltyWeights
from tvwrl.types import InputError, Machines

# fmt: off
WHOLE = (
    "machines", "workloads", "step_seconds", "peak_units", "history", "queue", "placements_per_slot", "max_slots",
    "classes", "relabel_every", "usage_delay", "background", "perturb",
)
SWITCHES = (
    "quantise", "observe_request", "observe_demand", "observe_forecast", "observe_peak", "hold_action",
    "choose_from_queue",
)
# fmt: on


@with_known_fields
@dataclass(frozen=True)
class Scenario:
    """What happens in an episode and what is seen of it. Everything here travels with a checkpoint."""

    machines: int = 10
    """Machines in the cluster."""
    capacity: tuple[float, ...] = (8.0,)
    """Capacity of a machine in units: one number, or one per resource (C_d)."""
    machine_types: tuple[str, ...] = ()
    """Machines of several kinds, as COUNTxUNITS,UNITS..., e.g. 6x8,8,4x16,8; 2x0,0 are switched off. Replaces
    --machines and --capacity."""
    load: float = 0.5
    """Offered load on the busier resource, as a share of the cluster's capacity."""
    workloads: int | None = None
    """Workloads per sequence; default: 3 times the workloads that run at a time, between 40 and 200."""
    step_seconds: int = 1800
    """Length of one slot of the environment, seconds; a multiple of the trace's interval."""
    sample: Literal["mean", "max"] = "mean"
    """How to combine the trace's samples within a slot."""
    quantise: bool = True
    """Round demand to whole units, 1 to --peak-units (paper); otherwise only the grid is rounded."""
    peak_units: int = 6
    """Units that the 99.5th percentile of demand maps to."""
    history: int = 20
    """Slots of usage shown per machine (h)."""
    queue: int = 5
    """Waiting workloads shown (Q)."""
    observe_request: bool = True
    """Show the declared request of waiting workloads; the paper's agent does not see it."""
    observe_demand: bool = False
    """Show the demand of waiting workloads in their first slot, which best-fit knows too."""
    observe_forecast: bool = False
    """Show forecasts of demand, per waiting workload and summed per machine."""
    observe_peak: bool = False
    """Show true lifetime peaks, in place of forecast peaks or alone. Tetris, DeepRM and best-fit-peak know them too; no
    real cluster does, and the paper's agent does not see them."""
    hold_action: bool = False
    """Add the action "place nothing in this slot"."""
    choose_from_queue: bool = False
    """Let the policy choose which of the visible waiting workloads to place, not only where."""
    mask: Literal["any", "room"] = "any"
    """Machines that the action mask allows. any: all that are not switched off; room: those whose measured load leaves
    room for the workload's demand in its first slot, or all if none does. Machines that it forbids can be chosen all
    the same."""
    placements_per_slot: int | None = 1
    """Placements per slot; None: no limit."""
    split: Literal["workloads", "applications", "time"] = "workloads"
    """Validate and test on workloads that training never sees, on applications that it never sees, or on the last part
    of every series (time)."""
    max_slots: int = 200
    """Cut training episodes after this many slots; 0: never. Evaluation episodes are never cut."""
    classes: int = 6
    """Number of equivalence classes (G), unless a classes file sets it."""
    relabel_every: int = 1
    """Slots between predictions of a running workload's class."""
    usage_delay: int = 0
    """Number of slots by which measured usage is late: schedulers and agents see the usage of that many slots ago,
    without workloads placed since. Placements, requests and peaks are known at once."""
    burst: float = 1.0
    """Mean number of workloads that arrive together, at the same offered load: 1 is a Poisson process; above 1, batches
    of geometric size arrive."""
    background: int = 0
    """Largest background load in units; 0 to this many are drawn for every machine, resource and slot, hidden from the
    scheduler (the paper's noise: 1 to 3)."""
    perturb: int = 0
    """Largest random change of a workload's demand, in whole units, drawn for every slot and resource (paper: 1)."""
    K_c: float | tuple[float, ...] = 0.1
    """Weight of contention: one number, or one per resource."""
    K_u: float | tuple[float, ...] = 3.0
    """Exponent of under-utilisation: one number, or one per resource; 0 switches the term off."""
    K_o: float | tuple[float, ...] = 30000.0
    """Penalty of a first overshoot: one number, or one per resource."""
    K_w: float = 50.0
    """Penalty per slot and waiting workload."""
    overshoot_per: Literal["workload", "machine"] = "workload"
    """Charge a first overshoot for every workload on the machine, or once per machine and episode."""

    def __post_init__(self) -> None:
        for name in ("capacity", "machine_types", "K_c", "K_u", "K_o"):
            value = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, (value,))
            if isinstance(value, list | np.ndarray):  # so that a scenario can be hashed
                object.__setattr__(self, name, tuple(value))
        for name in WHOLE:
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int | np.integer)):
                raise InputError(f"{name} is {value!r}: must be a whole number")
        for name in SWITCHES:
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise InputError(f"{name} is {getattr(self, name)!r}: must be True or False")
        at_least(1, machines=self.machines, step_seconds=self.step_seconds, history=self.history, queue=self.queue)
        at_least(1, placements_per_slot=self.placements_per_slot, relabel_every=self.relabel_every, burst=self.burst)
        at_least(0, max_slots=self.max_slots, perturb=self.perturb)
        positive(load=self.load)
        within(1, 100_000, workloads=self.workloads)
        within(1, 1000, peak_units=self.peak_units)
        within(1, 253, classes=self.classes)
        within(0, 255, background=self.background)
        within(0, 1000, usage_delay=self.usage_delay)
        one_of(("mean", "max"), sample=self.sample)
        one_of(("workloads", "applications", "time"), split=self.split)
        one_of(("workload", "machine"), overshoot_per=self.overshoot_per)
        one_of(("any", "room"), mask=self.mask)
        if self.choose_from_queue and self.queue < 2:
            raise InputError(
                f"choose_from_queue is set, but queue is {self.queue}: there is nothing to choose from; show at least "
                "2 waiting workloads, as with queue=2"
            )
        if self.perturb and not self.quantise:
            raise InputError(f"perturb is {self.perturb}: must be 0 without quantise: it changes whole units")
        self.penalty_weights()

    @property
    def looks_ahead(self) -> bool:
        """Whether agents see forecasts, or lifetime peaks in their place."""
        return self.observe_forecast or self.observe_peak

    @property
    def places(self) -> int:
        """Places of the queue that a policy may place from: the head alone, or all visible ones."""
        return self.queue if self.choose_from_queue else 1

    def penalty_weights(self) -> PenaltyWeights:
        """The weights of the four penalties."""
        return PenaltyWeights(self.K_c, self.K_u, self.K_o, self.K_w)

    def cluster(self, resources: tuple[str, ...]) -> Machines:
        """The machines, with one capacity per resource of the trace."""
        if not self.machine_types:
            return Machines(np.tile(_capacity_row(self.capacity, resources, "capacity"), (self.machines, 1)), resources)
        rows = []
        for text in self.machine_types:
            count, _, units = text.partition("x")
            try:
                row = _capacity_row(tuple(float(u) for u in units.split(",")), resources, f"machine type '{text}'")
                rows += [row] * int(count)
            except ValueError as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(f"machine type '{text}' is not COUNTxUNITS,UNITS..., e.g. 6x8,8") from None
        return Machines(np.array(rows).reshape(-1, len(resources)), resources)


def _capacity_row(capacity: float | tuple[float, ...], resources: tuple[str, ...], field: str) -> np.ndarray:
    row = np.atleast_1d(np.asarray(capacity, dtype=np.float64))
    if len(row) not in (1, len(resources)):
        raise InputError(f"{field} has {len(row)} values for {len(resources)} resources ({', '.join(resources)})")
    if (row < 1).any() and (row != 0).any():
        raise InputError(f"{field} is {row.tolist()}: must be at least 1 unit per resource")
    return np.broadcast_to(row, (len(resources),))
