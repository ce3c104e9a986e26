"""What the single and the vector environment share: simulation, spaces, seeds, pictures."""

from __future__ import annotations

from dataclasses import replace
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from tvwrl.checks import hint
from tvwrl.compiling import announce
from tvwrl.envs.problem import default_problem, default_sequences
from tvwrl.envs.rendering import LARGEST_PIXEL, ClusterPicture
from tvwrl.schedulers import leaving_gains
from tvwrl.simulation import OF_RUNNING, RUN_MACHINE, SLOT, Scenario, Simulation
from tvwrl.types import InputError, Machines, SequenceSet

SEQUENCES = 100  # number of training sequences, as in the paper


def build_simulation(
    batch: int,
    sequences: SequenceSet | int | None,
    machines: Machines | None,
    scenario: Scenario | None,
    changes: dict[str, Any],
) -> Simulation:
    """The simulation behind an environment, by default on the embedded synthetic workloads."""
    announce()
    scenario = replace(scenario or Scenario(), **changes)
    if sequences is None or isinstance(sequences, int):
        if machines is not None:  # the load is a share of this very cluster
            rows = (",".join(map(repr, row)) for row in machines.capacity.tolist())
            scenario = replace(scenario, machine_types=tuple(f"1x{row}" for row in rows))
        machines = machines or default_problem(scenario).machines
        sequences = default_sequences(scenario, SEQUENCES if sequences is None else sequences)
    return Simulation(sequences, machines or scenario.cluster(sequences.resources), scenario, batch)


def observation_space(simulation: Simulation) -> spaces.Dict:
    """Space of one environment's observation; see `PlacementEnv`."""
    _, machines, resources, history, columns = simulation.seen_grid.shape
    places, features = simulation.state.seen_queue.shape[1:]
    classes = simulation.sequences.classes
    high = np.full((places, features), np.inf, np.float32)
    high[:, 0] = classes
    if simulation.scenario.observe_request:
        high[:, 1 + resources : 1 + 2 * resources] = 1.0
    shape = (machines, resources, history, columns)
    seen = observation(simulation)
    expected = seen.get("forecast")
    forecast = {} if expected is None else {"forecast": spaces.Box(0.0, np.inf, expected.shape[1:], np.float32)}
    labels = classes + 1 + (simulation.sequences.background is not None)
    moving = {}
    if (running := seen.get("running")) is not None:
        most = np.full(running.shape[1:], np.inf, np.float32)
        most[:, :OF_RUNNING] = [classes, machines - 1, np.inf, 1, resources]
        moving = {
            "running": spaces.Box(np.zeros_like(most), most, dtype=np.float32),
            "phase": spaces.Box(0.0, 1.0, (1,), np.float32),
        }
    if (gains := seen.get("gains")) is not None:
        moving["gains"] = spaces.Box(-np.inf, np.inf, gains.shape[1:], np.float32)
    return spaces.Dict(
        {
            "grid": spaces.Box(0, labels, shape, np.uint8),
            "queue": spaces.Box(np.zeros_like(high), high, dtype=np.float32),
            "backlog": spaces.Box(0.0, np.inf, (1,), np.float32),
            **forecast,
            **moving,
        }
    )


def observation(simulation: Simulation) -> dict[str, npt.NDArray[Any]]:
    """The observations (B, ...) of all environments; see `PlacementEnv`. Valid until the next command."""
    seen, scenario = simulation.observation(), simulation.scenario
    if "running" not in seen or not scenario.observe_forecast:
        return seen
    sizes, units = simulation.machines.capacity / scenario.peak_units, float(scenario.peak_units)
    own = seen["running"][:, :, OF_RUNNING + sizes.shape[1] :]
    machine = seen["running"][:, :, RUN_MACHINE].astype(np.int64)
    weights = scenario.penalty_weights().per_resource(sizes.shape[1])
    gains = leaving_gains(machine, own, seen["forecast"], sizes, units, weights, scenario.quantise)
    return seen | {"gains": gains}


def streams_of(seed: int, count: int) -> npt.NDArray[np.int64]:
    """(count,) starts of the random streams of environments seeded seed, seed + 1, ...: distinct and well apart."""
    return mix_seeds(np.uint64(seed % 2**64) + np.arange(count, dtype=np.uint64))


def mix_seeds(seeds: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """(B,) starts of random streams for seeds (B,), one each."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # splitmix64
        seeds = (seeds ^ (seeds >> np.uint64(shift))) * np.uint64(factor)
    return (seeds ^ (seeds >> np.uint64(31))).view(np.int64)


def check_options(options: dict[str, Any] | None, *known: str) -> dict[str, Any]:
    """The options of `reset`. Raises InputError for one that is none of `known`."""
    given = {} if options is None else options
    if not isinstance(given, dict):
        raise InputError(f"options is {options!r}: must be a dictionary, as in {{'{known[0]}': 0}}")
    for name in given:
        if name not in known:
            raise InputError(f"options has no '{name}': {hint(str(name), known)}")
    return given


def check_action(action: Any, count: int) -> int:
    """An action from 0 to `count` - 1. Raises InputError for another, and for what only looks like one: True, 1.0."""
    try:
        chosen = index(action)
    except TypeError:
        chosen = None
    if chosen is None or isinstance(action, bool | np.bool_):
        raise InputError(f"action is {action!r}: must be a whole number")
    if not 0 <= chosen < count:
        raise InputError(f"action is {chosen}: must be 0 to {count - 1}")
    return chosen


def check_actions(actions: Any, batch: int, count: int) -> npt.NDArray[np.int64]:
    """(batch,) actions from 0 to `count` - 1; see `check_action`."""
    given = np.asarray(actions)
    if given.dtype.kind not in "iu" or _has_bool(actions):
        kind = "bool" if _has_bool(actions) else given.dtype
        raise InputError(f"actions have type {kind}: must be whole numbers")
    chosen = np.ascontiguousarray(given, np.int64)
    if chosen.shape != (batch,) or chosen.min() < 0 or chosen.max() >= count:
        raise InputError(f"actions must be ({batch},) integers from 0 to {count - 1}")
    return chosen


def _has_bool(values: Any) -> bool:
    """Whether a list or tuple holds a True or False, which an array of whole numbers would take for 1 or 0."""
    return isinstance(values, list | tuple) and any(isinstance(one, bool | np.bool_) for one in values)


def check_sequence(simulation: Simulation, sequence: Any) -> npt.NDArray[np.int64]:
    """(B,) sequences asked for in `reset(options={"sequence": ...})`; -1 = a random one."""
    try:
        chosen = np.broadcast_to(np.asarray(sequence), (simulation.batch,))
    except ValueError:
        chosen = np.empty(simulation.batch, object)
    if chosen.dtype.kind not in "iu" or _has_bool(sequence):
        raise InputError(f"options['sequence'] is {sequence!r}: must be a whole number, or {simulation.batch} of them")
    chosen = chosen.astype(np.int64)
    if (chosen < -1).any() or (chosen >= len(simulation.sequences)).any():
        raise InputError(f"options['sequence'] is {sequence}: must be 0 to {len(simulation.sequences) - 1}")
    return chosen


def picture(simulation: Simulation, b: int = 0, title: str = "", pixel: int = LARGEST_PIXEL) -> ClusterPicture:
    """The state of environment b for drawing; usage is drawn as schedulers see it, `usage_delay` slots late."""
    state, machines = simulation.state, simulation.machines
    counters, queue = state.counters[b], state.seen_queue[b]
    slot, resources = int(counters[SLOT]), machines.capacity.shape[1]
    history, newest = simulation.seen_grid.shape[3], slot - simulation.scenario.usage_delay
    load = np.zeros((len(machines), resources, history))
    episode = simulation.record(b)
    for i, machine, begin, end in zip(*(part.tolist() for part in episode.stays()), strict=True):
        first, since = begin - (newest - history + 1), episode.start[i]
        rows = np.arange(max(first, 0), min(first + end - begin, history))
        load[machine][:, rows] += episode.demand[i][rows - first + begin - since].T
    if episode.background is not None:
        past = np.arange(max(0, newest - history + 1), newest + 1)
        load[:, :, history - len(past) :] += episode.background[past % len(episode.background)].transpose(1, 2, 0)
    request = np.full((len(queue), resources), np.nan)
    if simulation.scenario.observe_request:
        _, units, declared = np.split(queue[:, : 1 + 2 * resources], [1, 1 + resources], axis=1)
        request = np.where(declared > 0, units, np.nan)
    return ClusterPicture(
        grid=simulation.seen_grid[b],
        overshoot=np.maximum(load - machines.capacity[:, :, None], 0.0),
        capacity=machines.capacity,
        load=load[:, :, -1],
        resources=machines.resources,
        classes=simulation.sequences.classes,
        slot=slot,
        queue_labels=queue[:, 0].astype(int),
        queue_requests=request,
        backlog=int(state.seen_backlog[b, 0]),
        title=title,
        background=episode.background is not None,
        slot_seconds=simulation.scenario.step_seconds,
        pixel=pixel,
    )
