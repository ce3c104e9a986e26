"""The page of a comparison: a table, what it means, a picture, and all figures as files."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from textwrap import fill
from typing import Any

from tvwrl.experiments.statistics import with_interval
from tvwrl.markdown import markdown_table
from tvwrl.plotting import Panel, Point, Row, draw_estimates
from tvwrl.runs import provenance, whole_file, write_csv, write_json
from tvwrl.what_if import words
from tvwrl.what_if.compared import MONTH, Compared, Outcome
from tvwrl.what_if.recorded import trust_of
from tvwrl.what_if.replay import Replay
from tvwrl.what_if.shadow import Shadow

PICTURE, PAGE, FIGURES, DAYS = "what-if.png", "report.md", "what-if.json", "days.csv"
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
    recorded, known = compared.recorded, words.trust(compared.recorded)
    meaning = list(words.caveats(compared, replay.keep_running, replay.within_requests))
    parts = [
        f"# What if other schedulers had placed these {recorded.trust.pods:,} pods?",
        *map(_wrapped, words.verdict(compared)),
        table(compared),
        _wrapped(_legend(compared)),
        *([_wrapped(_shadow_line(shadow))] if shadow is not None else []),
        "## What this means",
        _bullets(meaning),
        "## How far the record can be trusted",
        _bullets(known),
        "## What each rule knew",
        _bullets(words.knowledge(compared) or ["Nothing was replayed."]),
    ]
    return "\n\n".join(parts) + "\n"


def table(compared: Compared) -> str:
    """One row for each outcome."""
    crowded = any(one.mean("requests_over").value > words.NOTICEABLE for one in compared.outcomes)
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
    head += [f"{compared.currency or 'money'} saved"] * (compared.price is not None)
    return markdown_table(head, [_row(compared, one, crowded) for one in compared.outcomes])


def _row(compared: Compared, one: Outcome, crowded: bool) -> list[str]:
    actual = one is compared.actual
    mark = "†" if words.is_reference(one) else ""
    means = {name: one.mean(name).value for name in ("needed", "in_use", "cpu_over", "memory_over")}
    waits = [one.mean(name).value for name in ("wait_mean", "wait_p95")]
    worse = "" if actual or not words.overshoots_more(compared, one) else " !"
    saved = "-" if actual else _shown(compared.saved(one), 1) + worse
    row = [one.name + mark, f"{means['needed']:.1f}", saved, *_kept(compared, one), f"{means['in_use']:.1f}"]
    row += [f"{means[name]:,.1f}" for name in ("cpu_over", "memory_over")]
    row += [f"{wait:.1f}" if wait == wait else "-" for wait in waits] + [str(one.unplaced)]
    row += [f"{one.mean('requests_over').value:,.1f}"] * crowded
    return row + ([] if compared.price is None else ["-" if actual else _shown(compared.money(one), 0) + worse])


def _kept(compared: Compared, one: Outcome) -> list[str]:
    """What is saved if what ran at first had stayed, where anything tells."""
    kept = compared.kept.get(one.name)
    if kept is None:
        return ["-"] * bool(compared.kept)
    return [_shown(compared.saved(kept), 1) + " !" * words.overshoots_more(compared, kept)]


def _legend(compared: Compared) -> str:
    days = f"Means over {compared.days} days with 95 % intervals" if compared.days > 1 else "One day, so no intervals"
    text = (
        f"{days}. as-placed: where the pods really ran; needed: the most machines with a pod at a time; saved: how "
        "many fewer than as-placed; in use: the mean number of machines with a pod; over: machine-hours a day with "
        f"usage above {compared.limit:.0%} of the node; wait: minutes, mean and 95th percentile."
    )
    rows = table(compared)
    text += " requests over: machine-hours a day with requests above the node." * ("requests over" in rows)
    text += " if kept: saved if the pods that ran at first stay where they were." * bool(compared.kept)
    text += " !: overshoots more than as-placed." * (" !" in rows)
    text += " †: sees the future; a reference, not a real scheduler." * ("†" in rows)
    return text + (f" Money: per {MONTH} days." if compared.price is not None else "")


def _shadow_line(shadow: Shadow) -> str:
    text = (
        f"`shadow`: the server decided on {words.count_of(shadow.decided, 'pod')}. Those that it held "
        f"({shadow.held:,}), and all that it did not decide on, stay where they were."
    )
    if shadow.unknown_pods:
        text += f" Left out: decisions for {words.count_of(shadow.unknown_pods, 'pod')} that the record does not have."
    if shadow.unknown_nodes:
        text += (
            f" {words.count_of(shadow.unknown_nodes, 'pod')} would have gone to nodes that the record does not have."
        )
    return text


def write(out: Path, compared: Compared, replay: Replay, shadow: Shadow | None = None) -> str:
    """Write report.md, what-if.png, what-if.json and days.csv to the folder; returns the page."""
    text = page(compared, replay, shadow)
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / FIGURES, _figures(compared, replay, shadow))
    write_csv(out / DAYS, compared.day_rows())
    with whole_file(out / PICTURE) as partial:
        draw(partial, compared)
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
        if any(one.mean(quantity).value > words.NOTICEABLE for one in compared.outcomes)
    ]
    days = f"{compared.days} day{'s' * (compared.days != 1)}"
    draw_estimates(file, sorted(rows, key=_place), panels, note=days, sides=("what happened", "replayed"))


def _group(compared: Compared, one: Outcome) -> str:
    return HAPPENED if one is compared.actual else SEES_FUTURE if words.is_reference(one) else RULES


def _place(row: Row) -> int:
    return (HAPPENED, RULES, SEES_FUTURE).index(row.group)


def _figures(compared: Compared, replay: Replay, shadow: Shadow | None) -> dict[str, Any]:
    recorded = compared.recorded
    facts = {name: value for name, value in asdict(shadow).items() if name != "placed"} if shadow else None
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
        "keep_running": replay.keep_running,
        "limit": compared.limit,
        "price_per_machine_hour": compared.price,
        "currency": compared.currency,
        "trust": trust_of(recorded),
        "shadow": facts,
        "outcomes": compared.as_dict(),
    }


def _shown(point: Point, decimals: int) -> str:
    return with_interval(point.value, (point.low, point.high), decimals)


def _wrapped(text: str) -> str:
    return fill(text, WIDTH, break_on_hyphens=False, break_long_words=False)


def _bullets(lines: list[str]) -> str:
    return "\n".join(
        fill(line, WIDTH, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False, break_long_words=False)
        for line in lines
    )
