"""The referee: replays an episode's record from scratch and computes every metric and the reward.

It shares no code with the simulation, so a fault in either shows as a difference. Symbols: N workloads, M machines,
D resources, T slots until the last placed workload has finished (0 if nothing was placed). A(t) are the machines that
run a workload (start <= t < finish, or while one that is moved stays there: `Episode.stays`); with the load L of one of
them, resource d in slot t (demand of its workloads, and background load where there is any): R = min(L, C), U = C - R,
S = max(L - C, 0); all 0 for machines that run none
(paper: "Metrics for Operational Excellence"). Background is one more load u_i in the pairs of contention.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tvwrl.penalties import PenaltyWeights
from tvwrl.types import Episode, Float, InputError, Int, Machines, MoveRules, Moves

if TYPE_CHECKING:
    import polars as pl

OVERSHOOT_PER = ("workload", "machine")
TOLERANCE = 1e-9  # share of the capacity; rounding of sums is neither overshoot nor free room
MEASURES = (
    *("overshoot_pct", "machines_used", "peak_machines", "machine_slots", "wait_mean", "wait_p95", "contention"),
    "reward",
)  # columns of a row that only a complete episode has, with those of each resource:
MEASURES_PER_RESOURCE = ("utilisation_", "fragmentation_")
# Columns of episodes in which workloads may be moved
MOVE_MEASURES = ("moves", "moves_per_day", "moves_per_workload", "moves_back", "moved_often", "move_price")
MOVE_FIELDS = {  # of `MoveRules` -> of the scenario in run.json
    "per_slot": "moves_per_slot", "slots": "move_slots", "overlap": "move_overlap", "rest": "move_rest",
    "immovable": "immovable",
}  # fmt: skip
MOVES = "moves.parquet"
OFTEN = 2  # moves of a workload above which it was moved often


@dataclass(frozen=True)
class _Replay:
    """Sums over an episode, in units (`contention`: units^2, `under`: units^{K_u}), none of them weighted."""

    used: Float  # (D,) sum over slots and used machines of R
    short: Float  # (D,) sum over slots and used machines of S
    under: Float  # (T, D) sum over used machines of |U|^{K_u}
    contention: Float  # (T, D) sum over machines and pairs i < j of u_i u_j
    first_overshoots: Float  # (T, D) how often K_o is due
    active: Int  # (T,) |A(t)|
    active_capacity: Float  # (T, D) sum over A(t) of C
    unused: Float  # (T, D) sum over A(t) of U
    most_unused: Float  # (T, D) max over A(t) of U
    machines_used: int
    queue: Int  # (T,) workloads that have arrived and are not running yet
    moved: Int  # (T,) moves that were decided


def score_episode(
    episode: Episode,
    machines: Machines,
    weights: PenaltyWeights,
    overshoot_per: str = "workload",
    slot_seconds: float = float("nan"),
) -> dict[str, Any]:
    """One flat row of metrics; `<r>` stands for each resource of `machines`, in order.

    An episode in which a workload was never placed is incomplete, and has no reward: what never runs takes no room,
    overshoots nothing and stops waiting when the record ends, so it would be cheaper than any placement. The reward is
    NaN then, and so is every other measure of the schedule (`is_measure`), each of which is of placed workloads alone:
    no machine in use, no overshoot and no wait would be the best of all values. `unplaced` says how many are missing.
    (A charge for them instead would have to be above what placing them can cost, which depends on what else runs.)

    - `scheduler`, `load`, `sequence`, `decision_ms`: copied from the episode (`decision_ms` in milliseconds)
    - `utilisation_<r>`, `fragmentation_<r>`, 0..1, `overshoot_pct`, >= 0, `machines_used`: see `_paper_metrics`
    - `peak_machines`: max_t |A(t)|; `machine_slots`: sum_t |A(t)|
    - `wait_mean`, `wait_p95`, slots: start - arrival of placed workloads (95th percentile, linear); NaN if none is
    - `unplaced`: workloads never placed; above 0, all measures are NaN
    - `contention`, units^2: sum over slots, machines, resources and pairs i < j of u_i u_j, unweighted
    - `reward`, <= 0: minus the sum of `penalties`, undiscounted, slots 0..T-1
    - `slots`: T
    - `offered_load`, >= 0: the load really offered, see `_offered_load`
    - where workloads may be moved: `moves`; `moves_per_day`, by `slot_seconds` (NaN if that is not given);
      `moves_per_workload`; `moves_back`: those to a machine on which the workload ran before; `moved_often`, 0..1:
      share of workloads moved more than twice; `move_price`: K_m x moves

    `overshoot_per`: see `penalties`. Raises InputError, naming workload and field, if the record contradicts itself.

    >>> row = score_episode(episode, machines, PenaltyWeights())  # doctest: +SKIP
    >>> "incomplete" if row["unplaced"] else row["reward"]  # doctest: +SKIP
    """
    _check(episode, machines, overshoot_per)
    replay = _replay(episode, machines, weights, overshoot_per)
    placed = episode.start >= 0
    wait = (episode.start - episode.arrival)[placed].astype(np.float64)
    row: dict[str, Any] = {
        "scheduler": episode.scheduler,
        "load": float(episode.load),
        "sequence": int(episode.sequence),
        **_paper_metrics(replay, machines),
        "wait_mean": float(wait.mean()) if len(wait) else float("nan"),
        "wait_p95": float(np.percentile(wait, 95)) if len(wait) else float("nan"),
        "unplaced": int((~placed).sum()),
        "contention": float(replay.contention.sum()),
        "reward": 0.0 - sum(_weigh(replay, weights).sum(axis=0).tolist()),
        "slots": len(replay.active),
        "offered_load": _offered_load(episode, machines),
        "decision_ms": float(episode.decision_ms),
        **({} if episode.moves is None else _move_metrics(episode, episode.moves, len(replay.active) * slot_seconds)),
    }
    row |= {"move_price": weights.K_m * row["moves"]} if "moves" in row else {}
    return row if placed.all() else {name: float("nan") if is_measure(name) else row[name] for name in row}


def is_measure(column: str) -> bool:
    """Whether a column of a row says how good the schedule is, which only a complete episode has.

    >>> [name for name in ("reward", "utilisation_cpu", "unplaced", "slots") if is_measure(name)]
    ['reward', 'utilisation_cpu']
    """
    return column in (*MEASURES, *MOVE_MEASURES) or column.startswith(MEASURES_PER_RESOURCE)


def penalties(
    episode: Episode, machines: Machines, weights: PenaltyWeights, overshoot_per: str = "workload"
) -> dict[str, float]:
    """Weighted total (>= 0) of each penalty over slots 0..T-1 (paper: "Rewards Design for RL").

    The reward of a complete episode is minus their sum; of an incomplete one, they are what its record has cost so far.

    - `contention`: K_c * sum of u_i u_j over pairs on one machine
    - `under_utilisation`: sum of |U|^{K_u} over used machines; K_u = 0 switches it off (paper: Table 3)
    - `overshoot`: K_o for each workload and resource the first time that the load of its machine exceeds C while it
      runs there; with `overshoot_per="machine"` once per machine and resource in the episode
    - `wait`: K_w * workloads with arrival <= t that are unplaced or start after t
    - `moves`: K_m * moves that were decided in t (not in the paper)

    Raises InputError, naming workload and field, if the record contradicts itself.
    """
    totals = penalties_by_slot(episode, machines, weights, overshoot_per).sum(axis=0)
    return dict(zip(("contention", "under_utilisation", "overshoot", "wait", "moves"), totals.tolist(), strict=True))


def penalties_by_slot(
    episode: Episode, machines: Machines, weights: PenaltyWeights, overshoot_per: str = "workload"
) -> Float:
    """(T, 5) the weighted `penalties` of every slot, in that order; raises as that does."""
    _check(episode, machines, overshoot_per)
    return _weigh(_replay(episode, machines, weights, overshoot_per), weights)


def replay_run(folder: str | Path) -> pl.DataFrame:
    """All rows of an evaluation as a polars DataFrame (`.to_pandas()` makes a pandas one), from its files alone.

    These are run.json, episodes.parquet, demand.parquet and, where there was background load, background.parquet, and
    where workloads might be moved, moves.parquet.

    Columns as in `score_episode`, rows in the order of episodes.parquet; `decision_ms` is NaN, as a wall-clock time
    cannot be recomputed, and so are the measures of incomplete episodes. Raises InputError, naming file and field, for
    a missing file or field, or demand that is absent or has a gap, and whatever `score_episode` refuses.

    >>> rows = replay_run("runs/evaluation")  # doctest: +SKIP
    >>> rows.group_by("scheduler").mean()  # doctest: +SKIP
    """
    import polars as pl

    folder = Path(folder)
    if not (folder / "episodes.parquet").exists():
        inside = f"; it is a training run: its evaluation is {folder / 'evaluation'}"
        hint = inside if (folder / "checkpoints").is_dir() else ""
        raise InputError(f"{folder}: {f'no evaluation here{hint}' if folder.is_dir() else 'no such folder'}")
    run = _read_run(folder / "run.json")
    scores = [
        score_episode(episode, run.machines, run.weights, run.overshoot_per, run.slot_seconds)
        for episode in _read_episodes(folder, run)
    ]
    return pl.DataFrame(scores, infer_schema_length=None)  # a NaN may come late in a column of whole numbers


def _paper_metrics(replay: _Replay, machines: Machines) -> dict[str, float]:
    """The metrics of the paper ("Metrics for Operational Excellence") and peak and sum of |A(t)|; all 0 if T = 0.

    - Avg Util(d) = sum R / (T * max_t sum_{m in A(t)} C_md). Paper: max_t |A(t)| * C_d, the same for equal machines.
    - Avg Frag(d) = 1 - (1/T) sum_t max_{m in A} U / sum_{m in A} U; the paper does not define slots in which
      nothing is unused or no machine is used. They count as 0 here.
    - Avg Overshoot % = 100 * sum_d [sum S / (T * sum_m C_md)]
    """
    resources, slots = machines.resources, len(replay.active)
    utilisation = _ratio(replay.used, slots * replay.active_capacity.max(axis=0, initial=0.0))
    overshoot = _ratio(replay.short, slots * machines.capacity.sum(axis=0))
    share = np.ones_like(replay.unused)
    some = replay.unused > TOLERANCE * machines.capacity.sum(axis=0)
    np.divide(replay.most_unused, replay.unused, out=share, where=some)
    fragmentation = 1.0 - share.mean(axis=0) if slots else np.zeros(len(resources))
    return {
        **{f"utilisation_{r}": float(v) for r, v in zip(resources, utilisation, strict=True)},
        **{f"fragmentation_{r}": float(v) for r, v in zip(resources, fragmentation, strict=True)},
        "overshoot_pct": 100.0 * float(overshoot.sum()),
        "machines_used": replay.machines_used,
        "peak_machines": int(replay.active.max(initial=0)),
        "machine_slots": int(replay.active.sum()),
    }


def _move_metrics(episode: Episode, moves: Moves, seconds: float) -> dict[str, float]:
    """The `MOVE_MEASURES` but for the price; `seconds`: how long the episode took."""
    count, workloads = len(moves), len(episode.workload_id)
    often = np.bincount(moves.workload, minlength=workloads) > OFTEN
    been = {(int(i), int(m)) for i, m in enumerate(episode.machine)}
    back = 0
    for place in zip(moves.workload.tolist(), moves.target.tolist(), strict=True):
        back += place in been
        been.add(place)
    return {
        "moves": count,
        "moves_per_day": count * 86400.0 / seconds if seconds else 0.0,
        "moves_per_workload": count / workloads if workloads else 0.0,
        "moves_back": back,
        "moved_often": float(often.mean()) if workloads else 0.0,
    }


def _replay(episode: Episode, machines: Machines, weights: PenaltyWeights, overshoot_per: str) -> _Replay:
    """Machine by machine, so that memory is (T, D) rather than (T, M, D)."""
    slots, kinds = int(episode.finish.max(initial=0)), len(machines.resources)
    exponent = weights.per_resource(kinds)[1]
    used, short = np.zeros((2, kinds))
    active = np.zeros(slots, dtype=np.int64)
    under, contention, firsts, active_capacity, unused, most_unused = np.zeros((6, slots, kinds))
    stays = episode.stays()
    hosts = np.unique(stays.machine)
    first = np.full((len(episode.start), kinds), slots)  # slot of each workload's first overshoot
    for machine in hosts:
        capacity = machines.capacity[machine]
        here, lives = stays.machine == machine, []
        for i, begin, end in zip(stays.workload[here], stays.begin[here], stays.end[here], strict=True):
            since = episode.start[i]
            lives.append((i, slice(begin, end), episode.demand[i][begin - since : end - since]))
        load, running = np.zeros((slots, kinds)), np.zeros(slots, dtype=bool)
        if episode.background is not None:
            load += episode.background[np.arange(slots) % len(episode.background), machine]
        for _, life, demand in lives:
            contention[life] += load[life] * demand  # with each earlier workload: every pair once
            load[life] += demand
            running[life] = True
        load[~running] = 0.0
        filled = np.minimum(load, capacity)
        room = np.where(running[:, None], capacity - filled, 0.0)
        over = load > capacity + TOLERANCE * capacity
        used += filled.sum(axis=0)
        short += (load - filled).sum(axis=0)
        under[running] += np.where(exponent > 0, room[running] ** exponent, 0.0)
        if over.any() and overshoot_per == "machine":
            _add_first(over, firsts)
        elif over.any():
            for i, life, _ in lives:
                some = over[life].any(axis=0)
                first[i, some] = np.minimum(first[i], life.start + over[life].argmax(axis=0))[some]
        active += running
        active_capacity[running] += capacity
        unused += room
        np.maximum(most_unused, room, out=most_unused)
    for d in range(kinds):
        np.add.at(firsts[:, d], first[first[:, d] < slots, d], 1.0)
    until = np.where(episode.start >= 0, episode.start, slots)  # each waits from its arrival to its start, or to T
    queue = _queue(episode.arrival, until, slots)
    moved = np.zeros(slots, np.int64)
    if (moves := episode.moves) is not None:
        np.add.at(moved, moves.slot - moves.rules.slots, 1)
    sums = (used, short, under, contention, firsts, active, active_capacity, unused, most_unused)
    return _Replay(*sums, machines_used=len(hosts), queue=queue, moved=moved)


def _add_first(over: npt.NDArray[np.bool_], firsts: Float) -> None:
    """Count 1 in `firsts` (t, D) where a column of `over` (t, D) is set for the first time."""
    some = np.flatnonzero(over.any(axis=0))
    firsts[over.argmax(axis=0)[some], some] += 1.0


def _queue(arrival: Int, until: Int, slots: int) -> Int:
    """(T,) how many wait in each slot: those that arrived in it or before, and not those whose `until` it is."""
    change = np.zeros(slots + 1, np.int64)
    waits = np.minimum(arrival, slots) < until
    np.add.at(change, np.minimum(arrival, slots)[waits], 1)
    np.add.at(change, until[waits], -1)
    return change.cumsum()[:slots]


def _weigh(replay: _Replay, weights: PenaltyWeights) -> Float:
    contention, _, overshoot, wait = weights.per_resource(len(replay.used))
    sums = [replay.contention @ contention, replay.under.sum(axis=1), replay.first_overshoots @ overshoot]
    return np.stack([*sums, wait[0] * replay.queue, weights.K_m * replay.moved], axis=1)


def _offered_load(episode: Episode, machines: Machines) -> float:
    """max_d of all demand (placed or not, to each workload's end) / (sum_m C_md * (last arrival + 1)); 0 if N = 0.

    The actual demand per slot of arrivals; the episode's `load` is the target that the sequences were drawn for.
    """
    if not len(episode.demand):
        return 0.0
    work = np.sum([demand.sum(axis=0) for demand in episode.demand], axis=0)
    return float((work / (machines.capacity.sum(axis=0) * (episode.arrival.max() + 1))).max())


def _ratio(numerator: Float, denominator: Float) -> Float:
    """(D,) numerator / denominator, 0 where the denominator is 0 (T = 0)."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)


def _check(episode: Episode, machines: Machines, overshoot_per: str) -> None:
    """InputError for the first contradiction in the record."""
    if overshoot_per not in OVERSHOOT_PER:
        raise InputError(f"overshoot_per is {overshoot_per!r}: must be one of {', '.join(OVERSHOOT_PER)}")
    if tuple(episode.resources) != tuple(machines.resources):
        raise InputError(f"resources of the episode are {episode.resources}, of the machines {machines.resources}")
    count = len(episode.workload_id)
    for name in ("arrival", "start", "finish", "machine", "demand"):
        if len(getattr(episode, name)) != count:
            raise InputError(f"{name} has {len(getattr(episode, name))} entries for {count} workloads")
    if (background := episode.background) is not None and (
        background.ndim != 3 or len(background) == 0 or background.shape[1:] != machines.capacity.shape
    ):
        raise InputError(f"background has shape {background.shape}: must be (slots >= 1, *{machines.capacity.shape})")
    seen: set[str] = set()
    for i, workload in enumerate(episode.workload_id):
        problem = f"workload_id {workload!r} occurs twice" if workload in seen else _problem(episode, machines, i)
        if problem:
            where = f"scheduler {episode.scheduler!r}, load {episode.load}, sequence {episode.sequence}"
            raise InputError(f"workload {workload!r} ({where}): {problem}")
        seen.add(workload)
    if episode.moves is not None:
        _check_moves(episode, episode.moves, machines)


def _check_moves(episode: Episode, moves: Moves, machines: Machines) -> None:
    """InputError for the first move that contradicts the record or the rules."""
    where = f"scheduler {episode.scheduler!r}, load {episode.load}, sequence {episode.sequence}"
    fields = (moves.workload, moves.slot, moves.source, moves.target)
    if len({len(field) for field in fields}) > 1:
        raise InputError(f"moves ({where}): fields have {', '.join(str(len(field)) for field in fields)} entries")
    at, free_from = episode.machine.tolist(), dict.fromkeys(range(len(episode.workload_id)), 0)
    rules, pinned = moves.rules, moves.rules.pinned(episode.source_workload)
    latest, in_slot = -1, 0
    for row, (i, slot, source, target) in enumerate(zip(*(field.tolist() for field in fields), strict=True)):
        decided = slot - rules.slots
        in_slot = in_slot + 1 if decided == latest else 1
        problem = ""
        if not 0 <= i < len(at):
            problem = f"workload is {i}: must be 0..{len(at) - 1}"
        elif at[i] < 0:
            problem = "it was never placed"
        elif not 0 <= target < len(machines):
            problem = f"to is {target}: must be 0..{len(machines) - 1}"
        elif not machines.capacity[target].any():
            problem = f"to is {target}: that machine is switched off"
        elif source != at[i]:
            problem = f"from is {source}: but it is on machine {at[i]}"
        elif target == source:
            problem = f"from and to are {source}"
        elif not episode.start[i] <= decided < episode.finish[i]:
            problem = (
                f"slot is {slot}, so it was decided in slot {decided}: must be while it runs, from {episode.start[i]} "
                f"to {episode.finish[i] - 1}"
            )
        elif decided < latest:
            problem = f"slot is {slot}: must not be before that of the move before it, {latest + rules.slots}"
        elif decided < free_from[i]:
            problem = f"slot is {slot}: the move before it lets it go from slot {free_from[i] + rules.slots} on"
        elif pinned[i]:
            problem = "it is one of those that never move (immovable)"
        elif in_slot > rules.per_slot:
            problem = f"it is move {in_slot} that was decided in slot {decided}: must be at most {rules.per_slot}"
        if problem:
            name = f" of workload {episode.workload_id[i]!r}" if 0 <= i < len(at) else ""
            raise InputError(f"move {row}{name} ({where}): {problem}")
        at[i], latest, free_from[i] = target, decided, slot + max(rules.overlap, rules.rest)


def _problem(episode: Episode, machines: Machines, i: int) -> str:
    """What is wrong with the record of workload `i`, naming the field; empty if nothing is."""
    arrival, start, finish = int(episode.arrival[i]), int(episode.start[i]), int(episode.finish[i])
    machine, demand = int(episode.machine[i]), episode.demand[i]
    if demand.ndim != 2 or len(demand) == 0 or demand.shape[1] != len(machines.resources):
        return f"demand has shape {demand.shape}: must be (length >= 1, {len(machines.resources)})"
    if not (np.isfinite(demand).all() and (demand >= 0).all()):
        return "demand must be finite and >= 0 in every slot"
    if arrival < 0:
        return f"arrival is {arrival}: must be >= 0"
    if start == finish == machine == -1:
        return ""
    if not 0 <= machine < len(machines):
        return f"machine is {machine}: must be 0..{len(machines) - 1} (or start, finish and machine all -1)"
    if start < arrival:
        return f"start is {start}: must not be before arrival {arrival}"
    if finish != start + len(demand):
        return f"finish is {finish}: must be start {start} + length {len(demand)}"
    return ""


class _Run(NamedTuple):
    """What run.json says that episodes are scored by."""

    machines: Machines
    weights: PenaltyWeights
    overshoot_per: str
    noisy: bool  # whether there was background load
    rules: MoveRules | None
    slot_seconds: float


def _read_run(path: Path) -> _Run:
    try:
        run = json.loads(path.read_text(encoding="utf-8"))
        resources = tuple(run["capacities"][0])
        capacity = np.array([[row[r] for r in resources] for row in run["capacities"]], dtype=np.float64)
        weights = PenaltyWeights(**run["penalty_weights"])
        rules = _read_rules(dict(run.get("scenario") or {}))
        if rules is None and path.with_name(MOVES).exists():
            raise InputError(f"scenario.moves_per_slot is missing or 0, but there is {path.with_name(MOVES)}")
        if rules is not None and "K_m" not in run["penalty_weights"]:
            raise InputError("field 'penalty_weights.K_m' is missing")
        noisy, seconds = bool(run.get("background", 0)), float(run.get("step_seconds", "nan"))
        return _Run(Machines(capacity, resources), weights, str(run["overshoot_per"]), noisy, rules, seconds)
    except KeyError as error:
        raise InputError(f"{path}: field {error} is missing") from error
    except (OSError, ValueError, TypeError, IndexError) as error:
        raise InputError(f"{path}: {error}") from error


def _read_rules(scenario: Mapping[str, Any]) -> MoveRules | None:
    """The rules of moves; None if nothing may move. Raises InputError for a field out of range."""
    if not scenario.get("moves_per_slot"):
        return None
    found: dict[str, Any] = {}
    for to, name in MOVE_FIELDS.items():
        value, share = scenario.get(name), to == "immovable"
        least, most = int(to in ("per_slot", "slots")), 1 if share else 100_000
        is_number = isinstance(value, int | float if share else int) and not isinstance(value, bool)
        if value is None or not is_number or not least <= value <= most:
            raise InputError(f"scenario.{name} is {value!r}: must be {least} to {most}")
        found[to] = value
    return MoveRules(**found)


def _read_table(path: Path, columns: tuple[str, ...]) -> pl.DataFrame:
    import polars as pl

    if not path.is_file():
        raise InputError(f"{path}: no such file")
    frame = pl.read_parquet(path)
    if missing := sorted(set(columns) - set(frame.columns)):
        raise InputError(f"{path}: columns {missing} are missing")
    return frame


def _read_episodes(folder: Path, run: _Run) -> Iterator[Episode]:
    """One Episode per (scheduler, load, sequence), in the order of episodes.parquet."""
    path, keys = folder / "demand.parquet", ("scheduler", "load", "sequence")
    machines, noisy, rules = run.machines, run.noisy, run.rules
    demand = _read_demand(path, machines.resources)
    background = _read_background(folder / "background.parquet", machines) if noisy else {}
    moves = None if rules is None else _read_moves(folder / MOVES, keys)
    fields = ("workload_id", "source_workload", "source_slot", "arrival", "start", "finish", "machine")
    frame = _read_table(folder / "episodes.parquet", keys + fields + ("moves",) * (rules is not None))
    for group in frame.partition_by(keys, maintain_order=True):
        scheduler, load, sequence = group.select(keys).row(0)
        names = [(load, sequence, name) for name in group["workload_id"]]
        if absent := [name for name in names if name not in demand]:
            raise InputError(f"{path}: no demand for (load, sequence, workload_id) {absent[0]}")
        if noisy and (load, sequence) not in background:
            raise InputError(f"{folder / 'background.parquet'}: no rows for (load, sequence) {(load, sequence)}")
        place = {name: i for i, name in enumerate(group["workload_id"])}
        own = None
        if rules is not None and moves is not None:
            name = (scheduler, load, sequence)
            own = _moves_of(moves.pop(name, None), place, rules, f"{folder / MOVES}: {name}")
            for i, count in enumerate(group["moves"].to_list()):
                if (found := int((own.workload == i).sum())) != count:
                    where = f"{folder / MOVES}: {name}: workload_id {group['workload_id'][i]!r}"
                    raise InputError(f"{where} has {found} moves, but {count} in episodes.parquet")
        yield Episode(
            **{name: group[name].to_numpy() for name in fields},
            demand=tuple(demand[name] for name in names),
            scheduler=scheduler,
            load=load,
            sequence=sequence,
            decision_ms=float("nan"),
            resources=machines.resources,
            background=background.get((load, sequence)),
            moves=own,
        )
    if moves:
        raise InputError(f"{folder / MOVES}: no episode of (scheduler, load, sequence) {next(iter(moves))}")


def _read_moves(path: Path, keys: Sequence[str]) -> dict[tuple[Any, ...], pl.DataFrame]:
    """(scheduler, load, sequence) -> its rows of moves.parquet, in the order of decisions."""
    frame = _read_table(path, (*keys, "workload_id", "slot", "from", "to"))
    return {part.select(keys).row(0): part for part in frame.partition_by(keys, maintain_order=True)}


def _moves_of(rows: pl.DataFrame | None, place: Mapping[str, int], rules: MoveRules, where: str) -> Moves:
    """The moves of an episode; `place`: workload_id -> position. InputError, which begins with `where`, for others."""
    if rows is None:
        nothing = np.zeros(0, np.int64)
        return Moves(nothing, nothing, nothing, nothing, rules)
    if unknown := sorted(set(rows["workload_id"]) - set(place)):
        raise InputError(f"{where}: workload_id {unknown[0]!r} is none of the episode's")
    for name in ("slot", "from", "to"):
        if not rows.schema[name].is_integer() or rows[name].null_count():
            raise InputError(f"{where}: {name} must be whole numbers in every row")
    workload = np.array([place[name] for name in rows["workload_id"]], np.int64)
    slot, source, target = (rows[name].to_numpy().astype(np.int64) for name in ("slot", "from", "to"))
    return Moves(workload, slot, source, target, rules)


def _read_demand(path: Path, resources: tuple[str, ...]) -> dict[tuple[float, int, str], Float]:
    """(load, sequence, workload_id) -> (length, D) units."""
    keys = ("load", "sequence", "workload_id")
    frame = _read_table(path, (*keys, "slot", *resources)).sort(*keys, "slot")
    lives = frame.group_by(keys, maintain_order=True).len()
    names, ends = lives.select(keys).rows(), np.cumsum(lives["len"].to_numpy())[:-1]
    units = np.split(frame.select(resources).to_numpy().astype(np.float64), ends)
    for name, slot in zip(names, np.split(frame["slot"].to_numpy(), ends), strict=False):
        if not np.array_equal(slot, np.arange(len(slot))):
            raise InputError(f"{path}: slots of (load, sequence, workload_id) {name} must be 0, 1, 2, ... without gaps")
    return dict(zip(names, units, strict=False))


def _read_background(path: Path, machines: Machines) -> dict[tuple[float, int], npt.NDArray[np.uint8]]:
    """(load, sequence) -> (P, M, D) units."""
    keys, count = ("load", "sequence"), len(machines)
    frame = _read_table(path, (*keys, "slot", "machine", *machines.resources)).sort(*keys, "slot", "machine")
    found = {}
    for group in frame.partition_by(keys, maintain_order=True):
        slot, machine = np.divmod(np.arange(len(group)), count)
        whole = len(group) % count == 0 and np.array_equal(group["slot"].to_numpy(), slot)
        if not (whole and np.array_equal(group["machine"].to_numpy(), machine)):
            raise InputError(f"{path}: every machine must be in every slot of {keys} {group.select(keys).row(0)}")
        units = group.select(machines.resources).to_numpy().astype(np.uint8)
        found[group.select(keys).row(0)] = units.reshape(-1, count, len(machines.resources))
    return found
