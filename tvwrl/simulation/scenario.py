"""The environment's parameters in one place: the defaults are the paper's configuration."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from tvwrl.checks import at_least, one_of, positive, with_known_fields, within
from tvwrl.penalties import PenaltyWeights
from tvwrl.types import InputError, Machines, MoveRules

OF_MOVES = ("shown_running", "K_m", "move_slots", "move_overlap", "move_rest", "immovable")


@with_known_fields
@dataclass(frozen=True)
class Scenario:
    """The parameters of an episode, and of what agents see of it. All of them travel with a checkpoint.

    Parameters
    ----------
    machines : int, default 10
        Machines in the cluster.
    capacity : tuple[float, ...], optional
        Capacity of a machine in units: one number, or one per resource (C_d).
    machine_types : tuple[str, ...], optional
        Machines of several kinds, as COUNTxUNITS,UNITS..., e.g. 6x8,8,4x16,8; 2x0,0 are switched off. Replaces
        --machines and --capacity.
    load : float, default 0.5
        Offered load on the busier resource, as a share of the cluster's capacity.
    workloads : int, optional
        Workloads per sequence; default: 3 times the workloads that run at a time, between 40 and 200.
    step_seconds : int, default 1800
        Length of one slot of the environment, seconds; a multiple of the trace's interval.
    sample : Literal['mean', 'max'], default 'mean'
        How to combine the trace's samples within a slot.
    quantise : bool, default True
        Round demand to whole units, 1 to --peak-units (paper); otherwise only the grid is rounded.
    peak_units : int, default 6
        Units that the 99.5th percentile of demand maps to.
    history : int, default 20
        Slots of usage shown per machine (h).
    queue : int, default 5
        Waiting workloads shown (Q).
    observe_request : bool, default True
        Show the declared request of waiting workloads; the paper's agent does not see it.
    observe_demand : bool, default False
        Show the demand of waiting workloads in their first slot, which best-fit knows too.
    observe_forecast : bool, default False
        Show forecasts of demand, per waiting workload and summed per machine.
    observe_peak : bool, default False
        Show true lifetime peaks, in place of forecast peaks or alone. Tetris, DeepRM and best-fit-peak know them too;
        no real cluster does, and the paper's agent does not see them.
    hold_action : bool, default False
        Add the action "place nothing in this slot".
    choose_from_queue : bool, default False
        Let the policy choose which of the visible waiting workloads to place, not only where.
    mask : Literal['any', 'room'], default 'any'
        Machines that the action mask allows. any: all that are not switched off; room: those whose measured load leaves
        room for the workload's demand in its first slot, or all if none does. Machines that it forbids can be chosen
        all the same.
    placements_per_slot : int, default 1
        Placements per slot; None: no limit.
    split : Literal['workloads', 'applications', 'time', 'placements'], default 'workloads'
        Validate and test on workloads that training never sees, on applications that it never sees, on the last part
        of every series (time), or on new placements of known applications (placements): replicas that training never
        sees, and of what has no replicas, the last part of its series.
    own_past : bool, default False
        Forecasts may use what a workload's application used before the workload was placed: the workload itself and its
        replicas, in the same hours of earlier days.
    max_slots : int, default 200
        Cut training episodes after this many slots; 0: never. Evaluation episodes are never cut, but for those of
        agents in a comparison on a task that are not placed by then.
    classes : int, optional
        Number of equivalence classes (G), unless a classes file sets it; default: the one of 3 to 15 with the highest
        mean silhouette, and 40 labels where there are no classes.
    relabel_every : int, default 1
        Slots between predictions of a running workload's class.
    usage_delay : int, default 0
        Number of slots by which measured usage is late: schedulers and agents see the usage of that many slots ago,
        without workloads placed since. Placements, requests and peaks are known at once.
    burst : float, default 1.0
        Mean number of workloads that arrive together, at the same offered load: 1 is a Poisson process; above 1,
        batches of geometric size arrive.
    background : int, default 0
        Largest background load in units; 0 to this many are drawn for every machine, resource and slot, hidden from the
        scheduler (the paper's noise: 1 to 3).
    perturb : int, default 0
        Largest random change of a workload's demand, in whole units, drawn for every slot and resource (paper: 1).
    K_c : float or tuple[float, ...], default 0.1
        Weight of contention: one number, or one per resource.
    K_u : float or tuple[float, ...], default 3.0
        Exponent of under-utilisation: one number, or one per resource; 0 switches the term off.
    K_o : float or tuple[float, ...], default 30000.0
        Penalty of a first overshoot: one number, or one per resource.
    K_w : float, default 50.0
        Penalty per slot and waiting workload.
    overshoot_per : Literal['workload', 'machine'], default 'workload'
        Charge a first overshoot for every workload on the machine, or once per machine and episode.
    moves_per_slot : int, default 0
        Most running workloads that may be moved to another machine in a slot; 0: what runs stays (paper).
    shown_running : int, default 40
        Running workloads shown to a policy that may move them, the oldest first (R); those beyond it cannot be moved.
    K_m : float, default 1000.0
        Price of a move. A slot of waiting costs 50, a machine that runs hardly anything 500 to 1,000 per slot, an
        overshoot 30,000.
    move_slots : int, default 1
        Slots from the decision to the first slot on the new machine.
    move_overlap : int, default 0
        Slots, from the first one on the new machine, in which the old one is booked too, as in live migration; 0: stop
        there and start here.
    move_rest : int, default 0
        Slots, from the first one on the new machine, in which a workload that was moved is not moved again.
    immovable : float, default 0.0
        Share of the trace's workloads that may never be moved; by their names, so they are the same in every sequence.

    Examples
    --------
    >>> Scenario(machine_types=("6x8,8", "4x16,8")).cluster(("cpu", "mem"))
    <Machines machines=10, kinds=2, resources=('cpu', 'mem')>
    """

    machines: int = 10
    capacity: tuple[float, ...] = (8.0,)
    machine_types: tuple[str, ...] = ()
    load: float = 0.5
    workloads: int | None = None
    step_seconds: int = 1800
    sample: Literal["mean", "max"] = "mean"
    quantise: bool = True
    peak_units: int = 6
    history: int = 20
    queue: int = 5
    observe_request: bool = True
    observe_demand: bool = False
    observe_forecast: bool = False
    observe_peak: bool = False
    hold_action: bool = False
    choose_from_queue: bool = False
    mask: Literal["any", "room"] = "any"
    placements_per_slot: int | None = 1
    split: Literal["workloads", "applications", "time", "placements"] = "workloads"
    own_past: bool = False
    max_slots: int = 200
    classes: int | None = None
    relabel_every: int = 1
    usage_delay: int = 0
    burst: float = 1.0
    background: int = 0
    perturb: int = 0
    K_c: float | tuple[float, ...] = 0.1
    K_u: float | tuple[float, ...] = 3.0
    K_o: float | tuple[float, ...] = 30000.0
    K_w: float = 50.0
    overshoot_per: Literal["workload", "machine"] = "workload"
    moves_per_slot: int = 0
    shown_running: int = 40
    K_m: float = 1000.0
    move_slots: int = 1
    move_overlap: int = 0
    move_rest: int = 0
    immovable: float = 0.0

    def __post_init__(self) -> None:
        for name in ("capacity", "machine_types", "K_c", "K_u", "K_o"):
            value = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, (value,))
            if isinstance(value, list | np.ndarray):  # so that a scenario can be hashed
                object.__setattr__(self, name, tuple(value))
        for field in fields(self):
            name, value = field.name, getattr(self, field.name)
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            is_left_out = value is None and "None" in str(field.type)
            if field.type in ("int", "int | None") and not (whole or is_left_out):
                raise InputError(f"{name} is {value!r}: must be a whole number")
            if field.type == "float" and (value is None or isinstance(value, bool)):
                raise InputError(f"{name} is {value!r}: must be a number")
            if field.type == "bool" and not isinstance(value, bool | np.bool_):
                raise InputError(f"{name} is {value!r}: must be True or False")
        at_least(1, machines=self.machines, step_seconds=self.step_seconds, history=self.history, queue=self.queue)
        at_least(1, placements_per_slot=self.placements_per_slot, relabel_every=self.relabel_every, burst=self.burst)
        within(1, 100_000, shown_running=self.shown_running)
        at_least(0, max_slots=self.max_slots, perturb=self.perturb)
        positive(load=self.load)
        within(1, 100_000, workloads=self.workloads)
        within(1, 1000, peak_units=self.peak_units)
        within(1, 253, classes=self.classes)
        within(0, 255, background=self.background)
        within(0, 1000, usage_delay=self.usage_delay, move_overlap=self.move_overlap, move_rest=self.move_rest)
        within(0, 100_000, moves_per_slot=self.moves_per_slot)
        within(1, 1000, move_slots=self.move_slots)
        within(0, 1, immovable=self.immovable)
        one_of(("mean", "max"), sample=self.sample)
        one_of(("workloads", "applications", "time", "placements"), split=self.split)
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
        """True if agents see forecasts, or lifetime peaks in their place."""
        return self.observe_forecast or self.observe_peak

    @property
    def places(self) -> int:
        """Places of the queue that a policy may place from: the head alone, or all visible ones."""
        return self.queue if self.choose_from_queue else 1

    def penalty_weights(self) -> PenaltyWeights:
        """The weights of the penalties, and the price of a move."""
        return PenaltyWeights(self.K_c, self.K_u, self.K_o, self.K_w, self.K_m)

    def move_rules(self) -> MoveRules | None:
        """When workloads may move and how long that takes; None if they may not."""
        if not self.moves_per_slot:
            return None
        return MoveRules(self.moves_per_slot, self.move_slots, self.move_overlap, self.move_rest, self.immovable)

    def cluster(self, resources: tuple[str, ...]) -> Machines:
        """The machines, with one capacity per resource of the trace.

        Parameters
        ----------
        resources : tuple[str, ...]
            (D,) of the trace.

        Raises
        ------
        InputError
            If the number of capacities is neither 1 nor D, or a machine type is not COUNTxUNITS,UNITS...
        """
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


def check_moves(scenario: Scenario, instead: str) -> None:
    """Refuse options of moves where nothing moves, as they would have no effect.

    Parameters
    ----------
    scenario : Scenario
        What was asked for.
    instead : str
        What to do, the end of the message.

    Raises
    ------
    InputError
        If `moves_per_slot` is 0 and one of the others is not its default.

    Examples
    --------
    >>> check_moves(Scenario(moves_per_slot=2, K_m=300), "add --moves-per-slot")
    """
    for name in OF_MOVES:
        if not scenario.moves_per_slot and (value := getattr(scenario, name)) != getattr(Scenario, name):
            raise InputError(f"{name} is {value}, but nothing moves: {instead}, or leave it out")
