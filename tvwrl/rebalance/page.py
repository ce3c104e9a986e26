"""The page of a plan of moves: what to move, what that is worth, and pictures of the nodes before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from tvwrl.markdown import markdown_table
from tvwrl.rebalance.cluster_state import ClusterState
from tvwrl.rebalance.forecast import HOUR, Forecast
from tvwrl.rebalance.plan_of_moves import MovePlan, Point
from tvwrl.rebalance.search import OVERLOAD, Goal, most_emptied, movable_now, on_nodes, worth_of
from tvwrl.runs import provenance, whole_folder, write_csv, write_json
from tvwrl.types import Float, Int

PLAN, MOVES, PAGE, PICTURE, EXPLORER = "plan.json", "moves.csv", "report.md", "before-and-after.png", "explorer.html"
TOP = 25  # moves that are printed; all are in the file
NAMED = 12  # nodes that are named in a sentence
WIDTH = 110  # letters of a line
MOST_ROWS = 150  # nodes of a picture


def places_after(state: ClusterState, plan: MovePlan) -> Int:
    """(N,) the node of each pod after all moves."""
    row = {name: i for i, name in enumerate(state.pod)}
    node = {name: m for m, name in enumerate(state.node)}
    at = state.at.copy()
    for move in plan.moves:
        at[row[move.pod]] = node[move.target]
    return at


@dataclass(frozen=True)
class About:
    """What the page says beside the plan.

    `currency`: of prices
    `trusted`: sentences about how far the record of usage can be trusted
    `rule`: that chose the moves; empty: the search did
    `longest_age`: hours for which a plan is carried out at most
    """

    currency: str = ""
    trusted: Sequence[str] = ()
    rule: str = ""
    longest_age: float = np.inf


def page(state: ClusterState, plan: MovePlan, goal: Goal, about: About | None = None) -> str:
    """The report in Markdown, which also reads well in a terminal; without the picture."""
    about = about or About()
    trusted = about.trusted
    grave = [one for one in trusted if one.startswith("**")]  # such as that pods are left out
    rest = [one for one in trusted if one not in grave]
    parts = [
        f"# Which pods to move in {plan.source}",
        *map(_wrapped, [*_verdict(state, plan, goal, about), *grave]),
        *_moves(plan),
        *_drained(state, plan),
        "## What stays, and why",
        _wrapped(_staying(state, plan)),
        "## What is not known",
        _bullets([*plan.unknown, *ALWAYS]),
        *(["## How far the record can be trusted", _bullets(rest)] if rest else []),
    ]
    return "\n\n".join(parts) + "\n"


ALWAYS = (
    "The next day is taken to be like one of the days before, each as likely as the others. A rollout or an incident "
    "that none of them had is in no interval.",
    "An empty node saves money only if something removes it: a cluster autoscaler, Karpenter, or you.",
    "Kubernetes chooses the node of a pod that is evicted. Without tvwrl serve to prefer the target, it may choose "
    "another.",
)


def _verdict(state: ClusterState, plan: MovePlan, goal: Goal, about: About) -> list[str]:
    used = int(state.in_use.sum())
    if not plan.moves:
        if not movable_now(state).any():
            why = "no pod may be moved now"
        elif goal.moves(state) == 0:
            why = "no move is allowed (--most-moves)"
        elif goal.name == OVERLOAD:
            why = f"no node is expected to exceed {goal.limit:.0%} of its size, or no move would help"
        elif about.rule:
            why = f"{about.rule} proposes none that Kubernetes and the forecast allow"
        else:
            why = _why_none(state, goal)
        return [f"**Nothing to move: {why}.** {used:,} of {len(state.node):,} nodes are in use."]
    nodes, hours, money = (plan.expected[name] for name in ("nodes", "machine_hours", "money"))
    batches = plan.moves[-1].batch + 1
    moved = len({move.pod for move in plan.moves})
    share = moved / max(int((~state.bound).sum()), 1)
    lines = []
    if plan.drained:
        done = f"{_count(len(plan.moves), 'move')} ({share:.1%} of the pods), in {_count(batches, 'batch')}"
        text = (
            f"**{done}, empty {_count(len(plan.drained), 'node')} of {used:,} in use.** If all are made, that saves "
            f"{_interval(hours, 0)} machine-hours over the next day"
        )
        if np.isfinite(money.value) and money.value:
            text += f", worth {_interval(money, 2)} {about.currency}".rstrip() + " at the price of these nodes"
        lines.append(
            text + ". Hours for which nodes are needed again, by pods that wait or that come in the course of the day, "
            "are taken off already."
        )
        bound = most_emptied(state, goal.moves(state))
        lines.append(
            f"{goal.moves(state):,} moves are allowed (--most-moves): no choice of so many can empty more than "
            f"{_count(bound, 'node')}."
        )
    else:
        saves = "" if goal.name == OVERLOAD else ", which empty no node and so save nothing"
        lines.append(f"**{_count(len(plan.moves), 'move')} in {_count(batches, 'batch')}{saves}.**")
    over = plan.expected["overload_hours"]
    above = goal.limit if goal.name == OVERLOAD else 1.0
    what = f"Hours (mean of a day) with CPU or memory above {above:.0%} of a node, summed over nodes, over the next day"
    same = over.value == over.low == over.high == 0
    lines.append(f"{what}: {'as many as without the moves' if same else _interval(over, 1, signed=True)}.")
    lines += _lasting(plan, about.longest_age)
    if nodes.value < 0:
        lines.append("Nodes that are empty now come into use.")
    if any("[" in line for line in lines):
        lines.append("95 % intervals of the mean over the days that were seen.")
    return lines


def _why_none(state: ClusterState, goal: Goal) -> str:
    """Why the search found no node to empty."""
    moves, fixed = goal.moves(state), ~movable_now(state) & ~state.bound
    pods = np.bincount(state.at[~state.bound], minlength=len(state.node))
    held = np.bincount(state.at[fixed], minlength=len(state.node)) > 0
    free = np.flatnonzero(state.in_use & state.savable & ~held)
    if not len(free):
        return "on every node that would be saved runs a pod that must stay"
    fewest = int(pods[free].min())
    if fewest > moves:
        return f"the emptiest node runs {fewest:,} pods, and {moves:,} moves are allowed (--most-moves)"
    if goal.price_per_move and worth_of(state, goal)[free].max() / fewest < goal.price_per_move:
        return f"a move would save less than its price, {goal.price_per_move:g} (--price-per-move)"
    return (
        f"with {moves:,} moves (--most-moves) the pods of no node have room elsewhere, by requests and by load below "
        f"{goal.limit:.0%} (--limit), or none is to spare on the fullest day"
    )


def _lasting(plan: MovePlan, longest: float) -> list[str]:
    """How long the moves take, where that is known."""
    lasting = plan.expected.get("hours", Point(0.0, 0.0, 0.0)).value
    if lasting == np.inf:
        return ["Within a day the hourly budgets (--hourly and others) do not allow all moves."]
    text = f"The last move is taken to be made {lasting:.1f} h after the cluster was seen, within the hourly budgets"
    if lasting > longest:
        return [
            f"{text} (--hourly and others); what it saves counts from then on. A plan is carried out for --longest-age "
            "at most: --watch plans anew for what is left."
        ]
    return [f"{text}; what it saves counts from then on."] if lasting else []


def _moves(plan: MovePlan) -> list[str]:
    if not plan.moves:
        return []
    head = ["batch", "pod", "from", "to", "why", "saves, h" if plan.drained else "less overload, h", "risk"]
    rows = [
        [str(one.batch), one.pod, one.source, one.target, one.reason, f"{one.saving:.1f}", one.risk]
        for one in plan.moves[:TOP]
    ]
    more = len(plan.moves) - TOP
    return [
        "## Moves, in order",
        _wrapped("The pods of a batch may be on their way together; the next batch begins when they all run."),
        markdown_table(head, rows),
        *([f"and {more:,} more in {MOVES}."] if more > 0 else []),
    ]


def _drained(state: ClusterState, plan: MovePlan) -> list[str]:
    if not plan.drained:
        return []
    names = ", ".join(plan.drained[:NAMED]) + (
        f" and {len(plan.drained) - NAMED:,} more" if len(plan.drained) > NAMED else ""
    )
    closed = set(state.node[~state.open]).intersection(plan.drained)
    if closed:
        names += (
            f". Of these {_count(len(closed), 'node')} take no new pods already, such as {min(closed)}: whoever closed "
            "them may be about to remove them, and then the plan saves less"
        )
    if state.waiting:
        names += f". {_count(len(state.waiting), 'pod')} that wait for a node now may take one of them first"
    return ["## Nodes that can be removed afterwards", _wrapped(names + ".")]


def _staying(state: ClusterState, plan: MovePlan) -> str:
    may, free = int(movable_now(state).sum()), int((~state.bound).sum())
    text = f"{may:,} of {free:,} pods may be moved"
    text += f", beside {len(state) - free:,} that belong to their nodes." if len(state) > free else "."
    if plan.stays:
        text += f" Of the others: {'; '.join(f'{why}: {count:,}' for why, count in plan.stays.items())}."
    if state.unsaved:
        kinds = Counter(state.unsaved.values()).most_common()
        text += (
            " Nodes that no plan empties, as that would save nothing: "
            f"{'; '.join(f'a node that {why}: {count:,}' for why, count in kinds)}."
        )
    return text


def write(
    out: Path,
    state: ClusterState,
    forecast: Forecast,
    plan: MovePlan,
    goal: Goal,
    about: About | None = None,
) -> str:
    """Write the page, the plan, pictures and the explorer to a new folder; returns the page."""
    about = about or About()
    text, at = page(state, plan, goal, about), places_after(state, plan)
    head, rest = text.split("\n\n", 1)
    with whole_folder(out) as folder:
        write_json(folder / PLAN, provenance() | plan.as_dict() | {"trusted": list(about.trusted)})
        write_csv(folder / MOVES, [move._asdict() for move in plan.moves])
        draw(folder / PICTURE, state, forecast, at)
        if len(state):  # otherwise there is nothing to explore
            _explore(folder / EXPLORER, state, forecast, plan)
        page_with_picture = f"{head}\n\n![Nodes before and after]({PICTURE})\n\n{rest}"
        (folder / PAGE).write_text(page_with_picture, encoding="utf-8")
    return text


def draw(file: Path, state: ClusterState, forecast: Forecast, at: Int) -> None:
    """A PNG: the load of nodes over the next day as now and after the moves, those first that have most of CPU and
    memory together.

    White: a node that runs no pod but its own. Of many nodes, as many are drawn as are seen, at even distances.
    """
    from matplotlib.figure import Figure

    hourly = _hourly(state, forecast)
    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey=True)
    image: Any = None
    for column, (title, where) in enumerate((("now", state.at), ("after the moves", at))):
        load = on_nodes(hourly.reshape(len(state), hourly.shape[1] * hourly.shape[2]), where, len(state.node))
        share = load.reshape(len(state.node), -1, 2) / np.where(state.size > 0, state.size, np.inf)[:, None, :]
        used = np.zeros(len(state.node), np.bool_)
        used[where[~state.bound]] = True
        share[~used] = np.nan
        order = np.argsort(-np.nan_to_num(share, nan=-1.0).mean(axis=(1, 2)), kind="stable")
        rows = order[np.linspace(0, len(order) - 1, min(len(order), MOST_ROWS)).astype(int)]
        for d, resource in enumerate(("CPU", "memory")):
            panel = axes[d][column]
            image = panel.imshow(
                share[rows, :, d], aspect="auto", vmin=0, vmax=1.1, cmap="viridis", interpolation="nearest",
                extent=(0, 24, len(state.node), 0),
            )  # fmt: skip
            panel.set_title(f"{resource}, {title}: {int(used.sum()):,} nodes in use", fontsize=10)
            panel.set_xticks(range(0, 25, 6))
            if d:
                panel.set_xlabel("hours from now")
            if not column:
                panel.set_ylabel("nodes, the most loaded first")
    figure.colorbar(image, ax=axes, label="largest share of the node in each hour, mean of days", shrink=0.8)
    figure.savefig(file, dpi=120, format="png")


def _hourly(state: ClusterState, forecast: Forecast) -> Float:
    """(N, 24, D) mean over the days seen of the largest use in each hour."""
    hourly: Float = forecast.in_steps(HOUR).mean(axis=1, dtype=np.float64)
    return hourly


NAMES = {"machine": "node", "replica": "pod", "application": "pod", "planner": "state"}  # on the explorer's page
WORDS = (  # of the explorer's page, and what stands for them: each pod is an application with one replica
    (r"^([\d,]+) applications?, [\d,]+ replicas?$", "$1 pods"),
    (r"([\d,]+) replicas? of [\d,]+ applications?", "$1 pods"),
    (r"\b1 pods\b", "1 pod"),
    (r"^It has 1 replica\. $", ""),
    (r"^Each needs ", "It needs "),
    (r", \d+ (is|are) started\. Replicas of an application are alike.*", "."),
    (r"It has no affinity limits\.", ""),
    (r"^What limits the plan$", "Moves, and nodes"),
    (r"^Where its replicas are$", "Where it is"),
    (r"In the plan of ", "In the state "),
    (r"running replica", "pod"),
    *(
        (rf"(?<![\w./:-]){old}(s?)(?![\w/:-]|\.\w)", rf"{new}$1")
        for one, other in NAMES.items()
        for old, new in ((one, other), (one.capitalize(), other.capitalize()))
    ),
)
ABOUT = (
    "Every column of the picture is a node, and its colour or height says how much of it the pods on it use, or "
    "request, at their most. Pods that belong to their nodes, as those of DaemonSets, are not shown, so that there is "
    "less room left than it seems.",
    "The states are the cluster as it is now, after each batch of moves has been made, and after all of them. Choose "
    "one as A and another as B to compare them. The list of moves has all that are made until then.",
    "Times are the hours of the next day from now: the mean, over the past days, of the largest use in each hour.",
)
MOST_STATES = 24  # between now and the end; of more batches as many are shown, at even distances
NOW, AFTER = "as it is now", "after the moves"


def _explore(file: Path, state: ClusterState, forecast: Forecast, plan: MovePlan) -> None:
    """The explorer's page: what is on every node now and after each batch, but for pods that belong to it."""
    from tvwrl.planning import (
        Affinity,
        Fleet,
        Instance,
        Plan,
        PlanningProblem,
        Result,
        Results,
        Wording,
        explore,
        validate,
    )

    mine = ~state.bound  # the others keep no node in use
    hourly = _hourly(state, forecast)
    asked = np.broadcast_to(state.request[:, None, :], hourly.shape)
    demand = np.concatenate([hourly, asked], axis=2)
    size = np.concatenate([state.size, state.size], axis=1)
    states = _states(state, plan)
    # What runs exceeds no node of the page, now or on the way.
    used = np.maximum.reduce([size, *(_most_on(demand, at, len(size)) for at in states.values())])
    resources = ("cores used", "GiB used", "cores requested", "GiB requested")
    count = np.ones(int(mine.sum()), np.int64)
    instance = Instance(state.source, state.pod[mine], count, demand[mine], resources, Affinity.of(len(count)))
    every = np.arange(len(count))
    now = Plan.of(NOW, every, state.at[mine], count)
    problem = PlanningProblem(instance, Fleet(used, fixed=True, name=state.node), running=now)
    results = Results(problem, None, "", file.parent, renumber=False)
    for name, where in states.items():
        one = replace(now, algorithm=name, machine=where[mine])
        results.made[name] = Result(one, validate(problem, one), 0.0)
    explore(results, file, Wording(WORDS, ABOUT, AFTER if plan.moves else NOW))


def _states(state: ClusterState, plan: MovePlan) -> dict[str, Int]:
    """Where all pods are now, after batches of moves and after all of them, by name."""
    row = {name: i for i, name in enumerate(state.pod)}
    node = {name: m for m, name in enumerate(state.node)}
    batches = plan.moves[-1].batch + 1 if plan.moves else 0
    shown = {int(one) for one in np.linspace(0, batches - 2, min(batches - 1, MOST_STATES))} if batches > 1 else set()
    at, found = state.at.copy(), {NOW: state.at}
    for k, move in enumerate(plan.moves):
        at[row[move.pod]] = node[move.target]
        if k + 1 < len(plan.moves) and plan.moves[k + 1].batch > move.batch and move.batch in shown:
            found[f"after batch {move.batch}"] = at.copy()
    return found | {AFTER: at} if plan.moves else found


def _most_on(demand: Float, at: Int, nodes: int) -> Float:
    count, times, resources = demand.shape
    load = on_nodes(demand.reshape(count, times * resources), at, nodes)
    most: Float = load.reshape(nodes, times, resources).max(axis=1)
    return most


def _count(number: int, what: str) -> str:
    plural = {"batch": "batches"}.get(what, what + "s")
    return f"{number:,} {what if number == 1 else plural}"


def _interval(point: Point, decimals: int, signed: bool = False) -> str:
    sign = "+" if signed else ""
    text = f"{point.value:{sign},.{decimals}f}"
    ends = [f"{end:{sign},.{decimals}f}" for end in (point.low, point.high)]
    return text if ends[0] == ends[1] or not np.isfinite(point.low) else f"{text} [{ends[0]}, {ends[1]}]"


def _wrapped(text: str) -> str:
    return fill(text, WIDTH, break_on_hyphens=False, break_long_words=False)


def _bullets(lines: list[str]) -> str:
    return "\n".join(
        fill(line, WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
        for line in lines
    )
