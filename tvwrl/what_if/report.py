"""The page of a comparison: a table, what it means, a picture, and all figures as files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.deferring import deferred
from tvwrl.experiments import with_interval
from tvwrl.markdown import markdown_table
from tvwrl.plotting import Panel, Point, Row, draw_estimates
from tvwrl.runs import provenance, whole_file, write_csv, write_json
from tvwrl.what_if import words
from tvwrl.what_if.compared import MONTH, Compared, Outcome
from tvwrl.what_if.off import SHORTEST, STRETCH, Off
from tvwrl.what_if.recorded import HOUR, Recorded, trust_of
from tvwrl.what_if.replay import Replay
from tvwrl.what_if.right_sized import LONG_ENOUGH, MARGIN, PERCENTILE, RightSized, right_sized
from tvwrl.what_if.shadow import Shadow
from tvwrl.what_if.verdict import NOTICEABLE, Answer, is_reference, overshoots_more, verdict_of
from tvwrl.what_if.words import trust

if TYPE_CHECKING:
    import polars as pl
else:
    pl = deferred("polars")

PICTURE, PAGE, FIGURES, DAYS = "what-if.png", "report.md", "what-if.json", "days.csv"
NODES_OFF, OFF_PICTURE, REQUESTS = "nodes-off.csv", "nodes-off.png", "requests.csv"
TOP = 10  # rows of a table of which all are in a file
WIDTH = 110  # letters of a line
PANELS = {
    "needed": "machines needed at a time (fewer is better)",
    "cpu_over": "CPU overshoot, h a day (less is better)",
    "memory_over": "memory overshoot, h a day (less is better)",
    "wait_mean": "mean wait, minutes (less is better)",
}
HAPPENED, RULES, SEES_FUTURE = "what happened", "rules and policies", "references that see the future"


def page(compared: Compared, replay: Replay, shadow: Shadow | None = None) -> str:
    """The report in Markdown, which also reads well in a terminal; without the picture."""
    recorded, known = compared.recorded, trust(compared.recorded)
    meaning = list(words.caveats(compared, replay.keep_running, replay.within_requests))
    parts = [
        f"# What if other schedulers had placed these {recorded.trust.pods:,} pods?",
        *map(wrapped, words.verdict(compared)),
        table(compared),
        wrapped(_legend(compared)),
        *([wrapped(_shadow_line(shadow))] if shadow is not None else []),
        *_kinds(compared),
        *_off(compared),
        *_requests(recorded),
        "## What this means",
        bullets(meaning),
        "## How far the record can be trusted",
        bullets(known),
        "## What each rule knew",
        bullets(words.knowledge(compared) or ["Nothing was replayed."]),
    ]
    return "\n\n".join(parts) + "\n"


def _kinds(compared: Compared) -> list[str]:
    """Machines and money by kind of node, of the rule to look at."""
    rule = verdict_of(compared).first
    if rule is None or not (compared.priced or len(set(compared.recorded.kind)) > 1):
        return []
    head = ["kind", "nodes", "in use as placed", f"in use with {rule.name}", "saved"]
    head += ["price", f"{compared.currency or 'money'} saved"] * compared.priced
    rows = []
    for kind, nodes, before, after, money in compared.by_kind(rule):
        row = [kind or "unknown", f"{nodes:,}", f"{before:,.1f}", f"{after:,.1f}", f"{before - after:,.1f}"]
        prices = np.unique(compared.recorded.price[compared.recorded.kind == kind])
        price = f"{prices[0]:,g}" if len(prices) == 1 else f"{prices[0]:,g} to {prices[-1]:,g}"
        rows.append(row + [price, f"{money:,.0f}"] * compared.priced)
    said = f"Machines in use on average with `{rule.name}`, by kind of node"
    said += f"; price of an hour; money per {MONTH} days." if compared.priced else "."
    return ["## By kind of node", wrapped(said), markdown_table(head, rows)]


def _off(compared: Compared) -> list[str]:
    """Which nodes could have been off with the rule to look at."""
    rule = verdict_of(compared).first
    if rule is None:
        return []
    off = Off(compared, rule)
    rows, always = off.stretches(), off.always
    whole = [row for row in rows if row["node"] in set(always)]
    some = [row for row in rows if row["node"] not in set(always)]
    orders = len(rule.orders)
    before, after = off.by_hour()
    hours = [h for h in range(24) if np.isfinite(after[h])]
    least, most = min(hours, key=lambda h: after[h]), max(hours, key=lambda h: after[h])
    said = [
        f"With `{rule.name}`, {after[least]:,.1f} nodes had no pods (but those of DaemonSets) from {least:02d}:00 to "
        f"{least + 1:02d}:00 UTC, the hour with the fewest, and {after[most]:,.1f} from {most:02d}:00, that with the "
        f"most; as placed {before[least]:,.1f} and {before[most]:,.1f}. Means over days"
        + (f" and {orders} orders." if orders > 1 else "."),
        "Which nodes these are depends on the order"
        + (f": this is the most typical one of {orders}." if orders > 1 else ".")
        + " It is what a replay did, and no plan: pods that run stay where they are until they are replaced. "
        f"{NODES_OFF} has all stretches of {SHORTEST:g} h or more.",
    ]
    if whole:
        said.append(f"Never used: {words.listed(sorted(always), 2 * TOP)}.")
    lines = ["## Which nodes could have been off", *map(wrapped, said)]
    if some:
        head = ["node", "kind", "without pods from", "until (UTC)", "hours", "of these as placed"]
        cells = [
            [row["node"], row["kind"] or "-", row["begins"], row["ends"], f"{row['hours']:,.1f}",
             f"{row['hours_as_placed']:,.1f}"]
            for row in some[:TOP]
        ]  # fmt: skip
        what = f"The longest of {len(some):,} stretches" if len(some) > 1 else "The only stretch"
        lines += [f"{what} of the others:", markdown_table(head, cells)]
    return lines


def _requests(recorded: Recorded) -> list[str]:
    """What owners would have to request, and what that would free."""
    found = right_sized(recorded)
    known = [one for one in found if not one.short]
    lines = ["## Right-sized requests"]
    short = [one for one in found if one.short]
    rest = (
        f"{words.count_of(len(short), 'owner')} ran for less than {LONG_ENOUGH // HOUR} h in this record: too short to "
        "go by. "
        if short
        else ""
    )
    if not known:
        return [*lines, wrapped(f"{rest}Nothing can be proposed.")]
    freed = np.sum([one.freed for one in known], axis=0)
    whole = (recorded.size * recorded.reference).sum(axis=0)
    changes = " and ".join(
        f"{abs(amount):,.1f} {unit} ({abs(amount) / size:.1%} of these nodes) {'less' if amount >= 0 else 'more'}"
        for amount, size, unit in zip(freed, whole, ("cores", "GiB"), strict=True)
    )
    said = (
        f"{rest}If {'all others' if short else 'all owners'} requested the {PERCENTILE}th percentile of the CPU that a "
        f"pod used, and the most memory, each with {MARGIN - 1:.0%} more, {changes} would be requested on average. "
        f"{REQUESTS} has all owners. Requests are of a pod, summed over its containers, now those of the latest pod; "
        "running: pods at a time; freed: by all pods together, below 0 where requests are too low."
    )
    head = ["owner", "running", "CPU now", "proposed", "freed", "GiB now", "proposed", "freed"]
    return [*lines, wrapped(said), markdown_table(head, [_sized(one) for one in known[:TOP]])]


def _sized(one: RightSized) -> list[str]:
    cells = [one.owner, f"{one.running:,.1f}"]
    for now, proposed, freed in zip(one.request, one.proposed, one.freed, strict=True):
        cells += ["none" if now is None else f"{now:,.3f}", f"{proposed:,.3f}", f"{freed:,.1f}"]
    return cells


def table(compared: Compared) -> str:
    """One row for each outcome."""
    crowded = any(one.mean("requests_over").value > NOTICEABLE for one in compared.outcomes)
    head = [
        "scheduler",
        "needed",
        "saved",
        *["if kept"] * bool(compared.kept),
        "in use",
        "CPU over",
        "memory over",
        "wait",
        "wait 95 %",
        "unplaced",
    ]
    head += ["requests over"] * crowded
    head += [f"{compared.currency or 'money'} saved"] * (compared.priced)
    return markdown_table(head, [_row(compared, one, crowded) for one in compared.outcomes])


def _row(compared: Compared, one: Outcome, crowded: bool) -> list[str]:
    actual = one is compared.actual
    mark = "†" if is_reference(one) else ""
    means = {name: one.mean(name).value for name in ("needed", "in_use", "cpu_over", "memory_over")}
    waits = [one.mean(name).value for name in ("wait_mean", "wait_p95")]
    worse = "" if actual else _mark(compared, one)
    saved = "-" if actual else shown(compared.saved(one), 1) + worse
    row = [one.name + mark, f"{means['needed']:.1f}", saved, *_kept(compared, one), f"{means['in_use']:.1f}"]
    row += [f"{means[name]:,.1f}" for name in ("cpu_over", "memory_over")]
    row += [f"{wait:.1f}" if wait == wait else "-" for wait in waits] + [str(one.unplaced)]
    row += [f"{one.mean('requests_over').value:,.1f}"] * crowded
    return row + (["-" if actual else shown(compared.money(one), 0) + worse] if compared.priced else [])


def _mark(compared: Compared, one: Outcome) -> str:
    """Whether it overshoots more than as placed."""
    return {Answer.YES: " !", Answer.OPEN: " ?", Answer.NO: ""}[overshoots_more(compared, one)]


def _kept(compared: Compared, one: Outcome) -> list[str]:
    """What is saved if what ran at first had stayed, where anything tells."""
    kept = compared.kept.get(one.name)
    if kept is None:
        return ["-"] * bool(compared.kept)
    return [shown(compared.saved(kept), 1) + _mark(compared, kept)]


def _legend(compared: Compared) -> str:
    days = f"Means over {compared.days} days" if compared.days > 1 else "One day"
    orders = f" and {compared.orders} orders (see below)" * (compared.orders > 1)
    days += orders + (
        " with 95 % intervals"
        if compared.days > 1
        else ", so intervals are for the orders alone"
        if orders
        else ", so no intervals"
    )
    text = (
        f"{days}. as-placed: where the pods really ran; needed: the most machines with a pod at a time; saved: how "
        "many fewer than as-placed; in use: the mean number of machines with a pod; over: machine-hours a day with "
        f"usage above {compared.limit:.0%} of the node; wait: minutes, mean and 95th percentile."
    )
    rows = table(compared)
    text += " requests over: machine-hours a day with requests above the node." * ("requests over" in rows)
    text += " if kept: saved if the pods that ran at first stay where they were." * bool(compared.kept)
    text += " !: overshoots more than as-placed." * (" !" in rows)
    text += " ?: may overshoot more." * (" ?" in rows)
    text += " unplaced: in the worst order." * any(one.unplaced and len(one.orders) > 1 for one in compared.outcomes)
    text += " †: sees the future; a reference, not a real scheduler." * ("†" in rows)
    return text + (f" Money: per {MONTH} days." if compared.priced else "")


def _shadow_line(shadow: Shadow) -> str:
    text = (
        f"`shadow`: the server decided on {words.count_of(shadow.decided, 'pod')}. Those that it held "
        f"({shadow.held:,}), and all that it did not decide on, stay where they were."
    )
    if shadow.unknown_pods:
        text += f" Left out: decisions for {words.count_of(shadow.unknown_pods, 'pod')} that the record does not have."
    if shadow.clocks_differ:
        when = f"{abs(shadow.early) / 60:.0f} min {'before' if shadow.early > 0 else 'after'}"
        text += (
            f" **Half of the decisions are dated {when} the start of their pods, or more: the clocks of the server and "
            "of this record probably differ, and decisions may count for other runs of a pod.**"
        )
    if shadow.unknown_nodes:
        text += (
            f" {words.count_of(shadow.unknown_nodes, 'pod')} would have gone to nodes that the record does not have."
        )
    return text


def write(out: Path, compared: Compared, replay: Replay, shadow: Shadow | None = None) -> str:
    """Write the page, its pictures and all figures as files to the folder; returns the page."""
    text = page(compared, replay, shadow)
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / FIGURES, _figures(compared, replay, shadow))
    write_csv(out / DAYS, compared.day_rows())
    write_csv(out / REQUESTS, [one.row() for one in right_sized(compared.recorded)])
    rule = verdict_of(compared).first
    rows = [] if rule is None else Off(compared, rule).stretches()
    with whole_file(out / NODES_OFF) as partial:
        pl.DataFrame(rows, schema=STRETCH).write_csv(partial)
    with whole_file(out / PICTURE) as partial:
        draw(partial, compared)
    if rule is not None:
        with whole_file(out / OFF_PICTURE) as partial:
            Off(compared, rule).draw(partial)
    head, rest = text.split("\n\n", 1)
    with whole_file(out / PAGE) as partial:
        partial.write_text(f"{head}\n\n![Machines, overshoot and waits]({PICTURE})\n\n{rest}", encoding="utf-8")
    return text


def draw(file: Path, compared: Compared) -> None:
    """A PNG of points with intervals, a row for each outcome."""
    rows = [Row(one.name, _group(compared, one), ours=one is compared.actual) for one in compared.outcomes]
    panels = [
        Panel(title, {one.name: [one.mean(quantity)] for one in compared.outcomes})
        for quantity, title in PANELS.items()
        if any(one.mean(quantity).value > NOTICEABLE for one in compared.outcomes)
    ]
    days = f"{compared.days} day{'s' * (compared.days != 1)}"
    draw_estimates(file, sorted(rows, key=_place), panels, note=days, sides=("what happened", "replayed"))


def _group(compared: Compared, one: Outcome) -> str:
    return HAPPENED if one is compared.actual else SEES_FUTURE if is_reference(one) else RULES


def _place(row: Row) -> int:
    return (HAPPENED, RULES, SEES_FUTURE).index(row.group)


def _figures(compared: Compared, replay: Replay, shadow: Shadow | None) -> dict[str, Any]:
    own = {name: value for name, value in asdict(shadow).items() if name != "placed"} if shadow else None
    found = {"verdict": verdict_of(compared).as_dict(), "shadow": own, "outcomes": compared.as_dict()}
    return facts(compared, replay) | {"keep_running": replay.keep_running} | found


def facts(compared: Compared, replay: Replay) -> dict[str, Any]:
    """What was replayed, and how far it can be trusted."""
    recorded = compared.recorded
    return provenance() | {
        "source": recorded.source,
        "begins": recorded.origin,
        "interval": recorded.interval,
        "slots": recorded.slots,
        "days": compared.days,
        "nodes": len(recorded.size),
        "reference": dict(zip(("cores", "gib"), recorded.reference.tolist(), strict=True)),
        "decision_seconds": replay.decision_seconds,
        "within_requests": replay.within_requests,
        "limit": compared.limit,
        "currency": compared.currency,
        "trust": trust_of(recorded),
    }


def shown(point: Point, decimals: int, sign: str = "") -> str:
    """A mean with its interval; `sign`: "+" shows that of a rise too."""
    return with_interval(point.value, (point.low, point.high), decimals, sign)


def wrapped(text: str) -> str:
    """A paragraph in lines of `WIDTH`."""
    return fill(text, WIDTH, break_on_hyphens=False, break_long_words=False)


def bullets(lines: list[str]) -> str:
    """A list in lines of `WIDTH`."""
    return "\n".join(
        fill(line, WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
        for line in lines
    )
