"""The page of a comparison of rules that move pods: a table, what it means, a picture, and all figures as files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tvwrl.markdown import markdown_table
from tvwrl.plotting import COLOURS, FAINT, MARKERS, Point, new_figure, tidy
from tvwrl.runs import whole_file, write_csv, write_json
from tvwrl.what_if import words
from tvwrl.what_if.compared import MONTH, Outcome
from tvwrl.what_if.move_names import family
from tvwrl.what_if.moves import COUNTS, MovesCompared, overload
from tvwrl.what_if.replay import Replay
from tvwrl.what_if.report import FIGURES, PAGE, bullets, facts, shown, wrapped
from tvwrl.what_if.verdict import NOTICEABLE, Answer, overshoots_more

TABLE, PICTURE = "moves.csv", "moves.png"
ON_FRONT = ("H", "O", "A")  # marks of rules on each of `FRONTS`


def page(moves: MovesCompared, replay: Replay) -> str:
    """The report in Markdown, which also reads well in a terminal; without the picture."""
    compared = moves.compared
    first = {family(one.name): one for one in reversed(compared.others)}
    families = replace(compared, outcomes=[compared.actual, *reversed(first.values())])
    parts = [
        f"# What if these {compared.recorded.trust.pods:,} pods had been moved while they ran?",
        *map(wrapped, verdict(moves)),
        table(moves),
        wrapped(_legend(moves)),
        *[wrapped(f"Moved nothing, so all is as placed: {_listed(moves.idle)}.")] * bool(moves.idle),
        "## What this means",
        bullets(list(_caveats(moves, replay))),
        "## How far the record can be trusted",
        bullets(words.trust(compared.recorded)),
        "## What each rule knew",
        bullets(words.knowledge(families)),
    ]
    return "\n\n".join(parts) + "\n"


def verdict(moves: MovesCompared) -> Iterator[str]:
    """Which rule saves most, which saves most without more overload, and which most for each eviction."""
    saving = [one for one in moves.compared.others if moves.compared.saved(one, "machine_hours").value > NOTICEABLE]
    if not saving:
        yield "**No rule saves machine-hours.**"
        return
    most = max(saving, key=lambda one: moves.compared.saved(one, "machine_hours").value)
    yield f"**Most machine-hours saved: `{most.name}`:** {_sentence(moves, most)}"
    hours = moves.compared.saved(most, "machine_hours").value
    alike = [one for one in saving if hours - moves.compared.saved(one, "machine_hours").value < NOTICEABLE]
    if len(alike) > 1:
        yield f"As many: {_listed([one for one in alike if one is not most])}."
    if moves.compared.priced:
        dearest = max(saving, key=lambda one: moves.compared.money(one).value)
        money = f"{shown(moves.compared.money(dearest), 0)} {moves.compared.currency}".rstrip()
        yield f"Most money saved: `{dearest.name}`: {money} per {MONTH} days."
    safe = [one for one in saving if overshoots_more(moves.compared, one) is Answer.NO]
    if not safe:
        yield "Each rule that saves any overloads nodes for longer than as placed, or may."
    elif most not in safe:
        best = max(safe, key=lambda one: moves.compared.saved(one, "machine_hours").value)
        yield f"Most without more overload: `{best.name}`: {_sentence(moves, best)}"
    least = max(saving, key=lambda one: moves.compared.saved(one, "machine_hours").value / moves.evictions(one))
    if least is not most:
        yield f"Most for each eviction: `{least.name}`: {_sentence(moves, least)}"


def _sentence(moves: MovesCompared, one: Outcome) -> str:
    compared, hours = moves.compared, moves.compared.actual.mean("machine_hours").value
    text = (
        f"{shown(compared.saved(one, 'machine_hours'), 1)} of {hours:,.1f} machine-hours a day, for "
        f"{moves.evictions(one):,.1f} evictions a day of {moves.evicted(one):.1%} of the pods"
    )
    changes = [
        f"{shown(change, 1, '+')} machine-hours of {what} overload"
        for name, what in (("cpu_over", "CPU"), ("memory_over", "memory"))
        if abs((change := compared.change(one, name)).value) >= NOTICEABLE
    ]
    return f"{', '.join([text, *changes])}."


def _listed(outcomes: Sequence[Outcome]) -> str:
    return ", ".join(f"`{one.name}`" for one in outcomes)


def table(moves: MovesCompared) -> str:
    """One row for each outcome, but for rules that moved nothing."""
    priced = moves.compared.priced
    head = ["rule", "evictions", "of pods", "hours saved", "needed", "CPU over", "memory over"]
    head += [f"{moves.compared.currency or 'money'} saved"] * priced
    head += ["often", "returns", "emptied", "opened", "front"]
    return markdown_table(head, [_row(moves, one) for one in moves.compared.outcomes if one not in moves.idle])


def _row(moves: MovesCompared, one: Outcome) -> list[str]:
    compared, actual = moves.compared, one is moves.compared.actual
    row = [one.name, f"{moves.evictions(one):,.1f}", f"{moves.evicted(one):.1%}"]
    row.append("-" if actual else shown(compared.saved(one, "machine_hours"), 1))
    for name in ("needed", "cpu_over", "memory_over"):
        change = compared.change(one, name)
        row.append(f"{one.mean(name).value:,.1f}" if actual else _change(change))
    row += ["-" if actual else shown(compared.money(one), 0)] * compared.priced
    row += [f"{moves.count(one, name):,.0f}" for name in COUNTS[2:]]
    return [*row, " ".join(mark for mark, on in zip(ON_FRONT, moves.on_front[one.name], strict=True) if on) or "-"]


def _change(change: Point) -> str:
    return shown(change, 1, "+") if any(abs(end) >= NOTICEABLE for end in change) else "0"


def _legend(moves: MovesCompared) -> str:
    compared = moves.compared
    days = f"Means over {compared.days} days" if compared.days > 1 else "One day"
    orders = f" and {compared.orders} orders of what ties" * (compared.orders > 1)
    text = (
        f"{days}{orders}{', with 95 % intervals' * (compared.days > 1)}. as-placed: where the pods really ran, without "
        "a move; all other rows are changes against it. evictions: a day, at most "
        f"{moves.moves_per_hour:,} an hour; of pods: share that was evicted at least once; hours saved: machine-hours "
        "a day with fewer nodes in use; needed: the most nodes with a pod at a time; over: machine-hours a day with "
        f"usage above {compared.limit:.0%} of the node. In the whole record, often: pods that were evicted more than "
        "twice; returns: evictions to a node that the pod had been evicted from; emptied: nodes that moves took the "
        "last pods from, and opened: how many of these got pods again. front: no other rule is as good, and in one "
        "better, in evictions and machine-hours (H), in evictions and hours of overload (O), or in all three (A)."
    )
    return text + f" Money: per {MONTH} days." * compared.priced


def _caveats(moves: MovesCompared, replay: Replay) -> Iterator[str]:
    """What the figures mean, and what they do not."""
    compared = moves.compared
    for name, why in moves.left_out.items():
        yield f"**`{name}` is left out:** {why}."
    yield (
        "A pod arrives when and where it was recorded, unless moves have emptied that node, or filled it with others: "
        "then it goes where kube-scheduler puts it among the nodes in use, and if none has room, to its own, which is "
        "opened again."
    )
    minutes = replay.decision_seconds / 60
    yield (
        f"Moves are decided every {minutes:g} min on the mean usage of these {minutes:g} min, and take effect when the "
        "next begin. The new node has room by requests, by the number of pods and by usage. A pod that moves runs on "
        "without a break: what a restart costs is not counted."
    )
    yield words.NOT_KNOWN
    yield words.THROTTLED
    if not replay.within_requests:
        yield "**Requests may exceed a node here** (`--ignore-requests`), which kube-scheduler never allows."
    if any(one.placed.knowledge is not None and "forecast" in one.placed.knowledge.group for one in compared.others):
        yield words.NOT_FITTED
    if compared.left_hours:
        yield words.left_over(compared)
    if compared.priced:
        yield words.MONEY


def write(out: Path, moves: MovesCompared, replay: Replay) -> str:
    """Write the page, its picture and all figures as files to the folder; returns the page."""
    text, figures = page(moves, replay), moves.as_dict()
    out.mkdir(parents=True, exist_ok=True)
    known = {"moves_per_hour": moves.moves_per_hour, "left_out": dict(moves.left_out)}
    write_json(out / FIGURES, facts(moves.compared, replay) | known | {"outcomes": figures})
    write_csv(out / TABLE, [{"rule": name} | dict(_flat(row)) for name, row in figures.items()])
    with whole_file(out / PICTURE) as partial:
        draw(partial, moves)
    head, rest = text.split("\n\n", 1)
    with whole_file(out / PAGE) as partial:
        partial.write_text(f"{head}\n\n![Evictions against machine-hours and overload]({PICTURE})\n\n{rest}", "utf-8")
    return text


def _flat(row: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Numbers and intervals as columns; what has parts of its own is left to the JSON file."""
    for name, value in row.items():
        if isinstance(value, dict) and {"mean", "low", "high"} == set(value):
            yield from ((name if end == "mean" else f"{name}_{end}", number) for end, number in value.items())
        elif not isinstance(value, dict):
            yield name, value


def draw(file: Path, moves: MovesCompared) -> None:
    """A PNG of evictions against machine-hours, and against hours of overload; a line joins what is not dominated."""
    outcomes, fronts = [one for one in moves.compared.outcomes if one not in moves.idle], moves.on_front
    figure = new_figure(9.0, 4.6)
    hours = [(moves.evictions(one), one.mean("machine_hours").value) for one in outcomes]
    over = [(moves.evictions(one), overload(one)) for one in outcomes]
    panels = {"machine-hours a day": hours, "machine-hours of overload a day, CPU and memory": over}
    families = list(dict.fromkeys(family(one.name) for one in outcomes))
    for side, (axis, (title, shown_at)) in enumerate(zip(figure.subplots(1, 2), panels.items(), strict=True)):
        points = dict(zip((one.name for one in outcomes), shown_at, strict=True))
        best = sorted(points[one.name] for one in outcomes if fronts[one.name][side])
        axis.plot(*zip(*best, strict=True), color=FAINT, lw=1.5, zorder=1)
        for k, name in enumerate(families):
            own = [one for one in outcomes if family(one.name) == name]
            colour = COLOURS[(k - 1) % len(COLOURS)] if k else "black"
            for one in own:
                axis.plot(
                    *points[one.name], MARKERS[k % len(MARKERS)], color=colour, ms=7, zorder=2,
                    mfc=colour if fronts[one.name][side] else "none", label=name if one is own[0] else None,
                )  # fmt: skip
        axis.set_xlabel("evictions a day")
        axis.set_title(title, fontsize=9.5)
        axis.set_ylim(bottom=0 if side else None)
        tidy(axis)
    handles, labels = axis.get_legend_handles_labels()
    said = "a point for each setting of a rule; filled, and joined: no other is better in both"
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, title=said, title_fontsize=8)
    figure.savefig(file, dpi=150, format="png")
