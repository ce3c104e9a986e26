"""What the page of a comparison says in sentences: what was found, what it means, and how far it can be trusted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import numpy as np

from tvwrl.plotting import Point
from tvwrl.schedulers import REQUESTS
from tvwrl.what_if.compared import MONTH, Compared, Outcome
from tvwrl.what_if.recorded import Recorded
from tvwrl.what_if.verdict import (
    ALONE,
    FEWEST_DAYS,
    NOTICEABLE,
    Answer,
    Verdict,
    costs,
    costs_anyhow,
    is_reference,
    overshoots_anyhow,
    overshoots_more,
    saves,
    verdict_of,
)

RETURNED = "came back on another node or after more than an hour, and"
EMPTY = "but a node without other pods counts as empty."


def trust(recorded: Recorded, replayed: bool = True) -> list[str]:
    """Say how far a record can be trusted.

    Parameters
    ----------
    recorded : Recorded
        The record.
    replayed : bool
        Whether it is replayed, or else shows what will run.

    Returns
    -------
    list of str
        One point a line, in Markdown; only what is not as it should be.

    Examples
    --------
    >>> trust(recorded)  # doctest: +SKIP
    ['120 pods on 12 nodes, 2026-01-01 00:00 UTC to ...']
    """
    known, lines = recorded.trust, []
    begins, ends = (_moment(recorded.at(slot)) for slot in (0, recorded.slots))
    lines.append(
        f"{known.pods:,} pods on {len(recorded.size):,} nodes, {begins} to {ends}, every {recorded.interval} s. "
        f"{known.at_start:,} already ran when it began and {known.at_end:,} still ran when it ended"
        + (": only the time between counts." if replayed else ".")
    )
    cpu, memory = recorded.utilisation
    lines.append(
        f"The pods used {cpu:.1%} of the CPU and {memory:.1%} of the memory of these nodes. If your dashboards show "
        "more, pods are missing from the record, and savings are overstated."
    )
    shares = (
        (known.without_cpu_request, "requests no CPU", "request no CPU"),
        (known.without_memory_request, "requests no memory", "request no memory"),
        (known.restarts * replayed, f"{RETURNED} counts as a new pod", f"{RETURNED} count as new pods"),
    )
    lines += [f"{_share(count, known.pods)} {one if count == 1 else many}." for count, one, many in shares if count]
    if known.bound == 1:
        lines.append(f"1 pod of a DaemonSet, or static, stays on its node: it counts as load there, {EMPTY}")
    elif known.bound:
        lines.append(
            f"{known.bound:,} pods of DaemonSets, or static, stay on their nodes: they count as load there, {EMPTY}"
        )
    elif known.without_owner:
        lines.append("The owners of pods are unknown: pods of DaemonSets, if there are any, are moved like others.")
    if known.unknown_node or known.unsized_node:
        lines.append(
            f"**Left out: {count_of(known.unknown_node, 'pod')} whose node is unknown and {known.unsized_node:,} on "
            f"{count_of(known.unsized_nodes, 'node')} without a size{named(known.unsized)}, with "
            f"{known.left_out_share:.1%} of all CPU used.** The cluster looks emptier than it was."
        )
    if known.container_restarts:
        lines.append(
            f"Containers were restarted {count_of(known.container_restarts, 'time')} (crashes, or killed for lack of "
            "memory). What they would have used is not recorded."
        )
    if known.hole:
        hours = known.hole * recorded.interval / 3600
        lines.append(f"**Nothing at all was recorded in {hours:.1f} h of this time.** There, pods count as before.")
    if known.filled:
        lines.append(f"{known.filled:.2%} of the pods' samples are missing: the value before replaces each.")
    if known.bad_rows:
        lines.append(
            f"{known.bad_rows:,} samples were unusable (negative, not finite or absurdly large) and are left out."
        )
    if known.half_recorded:
        lines.append(
            f"**Left out: {count_of(known.half_recorded, 'pod')} of which only CPU or only memory is recorded, in "
            f"{known.half_rows:,} samples.** The cluster looks emptier than it was."
        )
    lines += [f"**{text[0].upper()}{text[1:]}**" for text in (known.overused, known.overasked) if text]
    if known.on_two_nodes:
        lines.append(
            f"{count_of(known.on_two_nodes, 'pod')} stood on two nodes at a time. Of these the one counts that was "
            "sampled last."
        )
    if known.resized_nodes:
        lines.append(
            f"{count_of(known.resized_nodes, 'node')} had several sizes, as when another machine takes over a name: "
            f"{'the largest counts' if replayed else 'the size now counts, if Kubernetes says it, else the largest'}."
        )
    lines += [
        f"Left out on purpose: {count_of(nodes, 'node')} ({name}){_on_them(nodes, pods)}; "
        "`--excluded-nodes` names what to leave out."
        for name, nodes, pods in known.pools
    ]
    if known.idle_nodes and replayed:
        lines.append(
            f"{count_of(known.idle_nodes, 'node')} had no pods at all in the record, but may get some in the replay."
        )
    return lines


def _on_them(nodes: int, pods: int) -> str:
    """The pods on nodes, if there are any."""
    return f" and the {count_of(pods, 'pod')} on {'it' if nodes == 1 else 'them'}" if pods else ""


def _share(count: int, of: int) -> str:
    return f"{count_of(count, 'pod')} ({count / of:.1%})"


def _moment(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


FEW_DAYS = 5
HARDLY_USED = 0.03  # share of the CPU or memory of all nodes below which pods are probably missing
NEARLY_A_DAY = 0.9
MANY = 1.2  # times the nodes that had pods at the same time; with more in all, nodes came and went
KNOWN = {  # what stands in for undeclared requests is Kubernetes' own here
    REQUESTS.note: "requests of running and waiting pods; those without count as 0.1 cores and 200 MiB, as in the "
    "scores of Kubernetes"
}
NOT_KNOWN = (
    "The record lacks node selectors, taints, affinity, topology spread, volumes, GPUs and PodDisruptionBudgets, so no "
    "rule obeyed them. Each can forbid a placement, so **savings are upper limits**."
)
NOTABLE = 0.01  # share of all CPU above which it is said beside the verdict that it is left out
NOT_FITTED = "Rules with forecasts use the network that ships with tvwrl, which was not fitted on this cluster."
MONEY = (
    "Money is for machine-hours in use, each at the price of its node, and is only saved if something switches empty "
    "machines off."
)
THROTTLED = (
    "Recorded CPU cannot exceed a node, as the kernel throttles it, and pods that exceed its memory are evicted. So "
    "the overshoot of as-placed understates contention, and pods that were throttled would have used more elsewhere."
)


def verdict(compared: Compared) -> list[str]:
    """The answer in a few sentences: what is recommended or open, and what it has to be measured by."""
    lines = []
    if (used := compared.recorded.utilisation.max()) < HARDLY_USED:
        lines.append(
            f"**The pods of this record use {used:.2%} of the nodes: most of the cluster is probably missing, and what "
            "follows means little.**"
        )
    known = compared.recorded.trust
    if known.left_out_share > NOTABLE:
        lines.append(
            f"**Pods with {known.left_out_share:.1%} of all CPU used are left out, as nothing is known of their nodes"
            f"{named(known.unsized)}: this is the verdict on the others alone.**"
        )
    if known.without_cpu_request == known.without_memory_request == known.pods:
        lines.append("No pod has a request in this record, so a rule may put any number of them on a node.")
    lines += [sentence(compared, one) for one in compared.others if one.name == "shadow"]
    found = verdict_of(compared)
    if any(one.placed.knowledge is not None and not is_reference(one) for one in compared.others):
        lines += _answer(compared, found)
    hours = compared.recorded.slots * compared.recorded.interval / 3600
    if hours < 24 * NEARLY_A_DAY:
        lines.append(f"The record has {hours:.1f} hours: figures per day are for these hours alone, and mean little.")
    elif compared.days < FEW_DAYS:
        lines.append(f"The record has {count_of(compared.days, 'whole day')}: intervals from so few mean little.")
    return lines


def _answer(compared: Compared, found: Verdict) -> Iterator[str]:
    """What is recommended, what saves most, what is dearer, and what Kubernetes can do alone."""
    said, what = list(found.recommended[:1]), "money" if compared.by_money else "machines"
    if said:
        yield f"**Recommended: `{said[0].name}`.** {sentence(compared, said[0])}{_ties(found.recommended, what)}"
    elif found.open or found.risky:
        yield f"**No rule is recommended.** {' '.join(_reasons(compared, found))}"
    else:
        yield f"**No rule {'saves money' if compared.by_money else 'needs fewer machines'}.**"
    yield from _dearer(compared, found)
    if found.fewest and found.fewest[0] not in said:
        said.append(found.fewest[0])
        least = "lowest cost" if compared.by_money else "fewest machines"
        yield f"About the {least}: {sentence(compared, found.fewest[0])}{_ties(found.fewest, 'overshoot')}"
    free = next((one for one in compared.others if one.name == ALONE[0]), None)
    if free is not None and free not in said:
        yield f"Without new software, as kube-scheduler can do it alone: {sentence(compared, free)}"
    if not said and free is None:
        yield from (sentence(compared, one) for one in compared.others[:1] if one.placed.knowledge is not None)


def _dearer(compared: Compared, found: Verdict) -> Iterator[str]:
    """Which rules would cost more, and why those with fewer machines do."""
    anew = [one for one in found.dearer if costs(compared, one) is Answer.YES]
    kept = [one for one in found.dearer if one not in anew]
    parts = [
        f"{_names(rules)} {'are' if len(rules) > 1 else 'is'} dearer than as-placed{when}"
        for rules, when in ((anew, ""), (kept, " if the pods that ran at first had stayed"))
        if rules
    ]
    if parts:
        fewer = any(compared.saved(one).value > NOTICEABLE for one in anew)
        yield f"{'; '.join(parts)}.{' Fewer machines cost more here, as they are dearer ones.' * fewer}"


def _reasons(compared: Compared, found: Verdict) -> Iterator[str]:
    """Why no rule is recommended."""
    if compared.days < FEWEST_DAYS:
        yield "One day does not show how other days would have been."
    doubtful = [one for one in found.open if overshoots_anyhow(compared, one) is Answer.OPEN]
    unsure = [one for one in found.open if one not in doubtful and saves(compared, one) is Answer.OPEN]
    dear = [one for one in found.open if one not in unsure and costs_anyhow(compared, one) is Answer.OPEN]
    unplaced = [one for one in found.risky if one.unplaced]
    crowded = [one for one in found.risky if one not in unplaced]
    reasons = [
        f"{_names(rules)} {_form(rules, verb)} {what}"
        for rules, verb, what in (
            (crowded, "overshoot", "more than as-placed"),
            (unplaced, "leave", "pods unplaced"),
            (doubtful, "", "may overshoot more than as-placed"),
            (unsure, "", "may save nothing" if compared.by_money else "may need no fewer machines"),
            (dear, "", "may be dearer if the pods that ran at first had stayed"),
        )
        if rules
    ]
    if reasons:
        saving = "save money" if compared.by_money else "need fewer machines"
        yield f"Of the rules that {saving}, or may, {'; '.join(reasons)}.".replace("  ", " ")


def _ties(outcomes: Sequence[Outcome], what: str) -> str:
    """What cannot be told from the first by its machines, or by its overshoot."""
    rest = outcomes[1:]
    if not rest:
        return ""
    return f" {_names(rest)} {_form(rest, 'tie')} with it in {what}: intervals do not separate them."


def _form(outcomes: Sequence[Outcome], verb: str) -> str:
    """The verb for one or several."""
    return verb if len(outcomes) > 1 or not verb else f"{verb}s"


def _names(outcomes: Sequence[Outcome]) -> str:
    *most, last = (f"`{one.name}`" for one in outcomes)
    return f"{', '.join(most)} and {last}" if most else last


def sentence(compared: Compared, outcome: Outcome) -> str:
    """What an outcome would have changed, good and bad in one sentence."""
    saved = compared.saved(outcome)
    placed = f"{compared.actual.mean('needed').value:.1f}"
    text = f"`{outcome.name}` would have needed {_fewer(saved, ' machines')} than the {placed} recorded"
    if abs(saved.value) < NOTICEABLE:
        text = f"`{outcome.name}` would have needed as many machines as recorded, {placed}"
    kept = compared.kept.get(outcome.name)
    if kept is not None and max(abs(saved.value), abs(compared.saved(kept).value)) >= NOTICEABLE:
        text += f", or {_fewer(compared.saved(kept))} if the pods that ran at first had stayed"
    kinds = {"cpu": "CPU", "memory": "memory"}
    changes = [part for key in kinds if (part := _overshoot(compared.change(outcome, f"{key}_over"), kinds[key]))]
    text += f", and overshot {' and '.join(changes)}" if changes else ", without more overshoot"
    answer = overshoots_more(compared, outcome)
    if not changes and answer is Answer.OPEN:
        text = text.replace(", without more overshoot", ", on average without more overshoot")
    if answer is not Answer.NO:
        over = max(outcome.mean("cpu_over").value, outcome.mean("memory_over").value)
        text += f" (overshoot in {over / outcome.mean('machine_hours').value:.1%} of its machine-hours)"
    wait = outcome.mean("wait_mean").value
    if wait > 0:
        text += f"; pods would have waited {wait:.1f} min on average"
    if outcome.let_go:
        text += f"; it held **{count_of(outcome.let_go, 'pod')} for too long**, which Kubernetes then placed"
    if outcome.unplaced:
        text += f"; **{count_of(outcome.unplaced, 'pod')} would never have been placed**"
    over = outcome.mean("requests_over").value
    if over > NOTICEABLE:
        text += (
            f"; in {over:,.0f} machine-hours a day, requests would have exceeded the node, which kube-scheduler never "
            "allows: lower the requests"
        )
    return f"{text}{_worth(compared, outcome)}."


def _worth(compared: Compared, outcome: Outcome) -> str:
    """What the machines in use save or cost; empty where nothing is known, or nothing changes."""
    kept = compared.kept.get(outcome.name)
    both = [one for one in (outcome, kept) if one is not None] if compared.priced else []
    sums = [compared.money(one) for one in both]
    as_many = all(abs(compared.saved(one, "in_use").value) < NOTICEABLE for one in both)
    if as_many and all(map(_is_nothing, sums)):
        return ""
    unit = f" {compared.currency}".rstrip()
    said = [
        "save nothing"
        if _is_nothing(money)
        else f"save {_interval(money, 0)}{unit}"
        if money.value >= 0
        else f"cost {_size(money, 0)}{unit} more"
        for money in sums
    ]
    fewer = compared.saved(outcome, "in_use")
    own = "as many" if abs(fewer.value) < NOTICEABLE else f"its {_fewer(fewer)}"
    text = f"; {own} machines in use on average {said[0]} per {MONTH} days"
    return text + "".join(f", or {one} if those had stayed" for one in said[1:])


def caveats(compared: Compared, keep_running: bool, within_requests: bool) -> Iterator[str]:
    """What the figures mean, and what they do not."""
    yield NOT_KNOWN
    if keep_running:
        yield "Pods that ran when the record began stay where they ran; only later ones are placed by the rule."
    else:
        yield (
            "All pods are placed anew, and those that run at the beginning together: as if everything were restarted "
            'once. `kube-default` shows what this alone changes. "if kept" is the other extreme: pods that ran at '
            'the beginning stay where they were. A cluster moves from "if kept" to "saved" as pods are replaced.'
        )
    if within_requests:
        yield "As in kube-scheduler, requests of the pods on a node never exceed its size, and no pod blocks others."
    else:
        yield (
            "**Requests may exceed a node here** (`--ignore-requests`). kube-scheduler never allows this, so you would "
            "have to lower the requests."
        )
    if compared.orders > 1:
        yield _orders(compared)
    yield THROTTLED
    yield from _slots(compared)
    yield (
        "The rules see the usage of a slot, that of new pods included: a scheduler in a cluster knows a little less. "
        "The waits of as-placed are 0: the record does not show how long pods were pending."
    )
    if any(one.placed.knowledge is not None and "forecast" in one.placed.knowledge.group for one in compared.others):
        yield NOT_FITTED
    most, nodes = max(day.needed for day in compared.actual.days[0]), len(compared.recorded.size)
    if nodes > MANY * most:
        yield (
            f"At most {most:,} of the {nodes:,} nodes had pods at the same time: others were idle, or came and went. "
            "The replay has all nodes all the time, so a rule that spreads pods uses more than really existed."
        )
    if compared.left_hours:
        yield left_over(compared)
    if compared.priced:
        yield MONEY


def left_over(compared: Compared) -> str:
    """What is left out of all figures at the end of the record."""
    return f"The last {compared.left_hours:.1f} h of the record make no whole day, and are left out of all figures."


def _orders(compared: Compared) -> str:
    """In how many orders rules were played, and how much that matters."""
    played = [one for one in compared.others if len(one.orders) > 1]
    counts = sorted({len(one.orders) for one in played})
    text = (
        f"Each rule was played in {' or '.join(map(str, counts))} orders of what the record does not order: the pods "
        "that ran when it began, those that came in one slot, and the nodes that a rule rates alike. A cluster sees "
        "one of them, so intervals hold what one order may give. "
    )
    widest = {}
    for quantity, what in (("needed", "machines needed"), ("cpu_over", "hours of CPU overshoot a day")):
        each = {one.name: one.of(quantity).mean(axis=1) for one in played}
        name = max(each, key=lambda name: float(np.ptp(each[name])))
        if np.ptp(each[name]) < NOTICEABLE:
            continue
        widest[quantity] = f"{what}, from {each[name].min():,.1f} to {each[name].max():,.1f} of `{name}`"
    shares = [
        float(np.nanmean(found))
        for quantity in widest
        if np.isfinite(found := [one.due_to_order(quantity) for one in played]).any()
    ]
    if not widest:
        return text + "Here they make no difference to machines needed, nor to CPU overshoot."
    text += f"Orders differ most in {'; in '.join(widest.values())}."
    if len(shares) == len(widest):
        two = len(shares) > 1
        text += (
            f" On average over the rules, {' and '.join(f'{share:.0%}' for share in shares)} of the variance of "
            f"{'these two come' if two else 'this comes'} from orders, the rest from days."
        )
    return text


def _slots(compared: Compared) -> Iterator[str]:
    """How often decisions are taken, and what longer slots do to short pods."""
    recorded = compared.recorded
    every: dict[int, list[str]] = {}
    for one in compared.others:
        if one.placed.decision_seconds:
            every.setdefault(one.placed.decision_seconds, []).append(f"`{one.name}`")
    for seconds, names in sorted(every.items()):
        text = f"{', '.join(names)} {'decides' if len(names) == 1 else 'decide'} every {seconds / 60:g} min."
        short = int((recorded.length[~recorded.bound] * recorded.interval < seconds).sum())
        if short:
            text += (
                f" **{count_of(short, 'pod')} ran for less than that. Such pods look as if they ran at the same time, "
                "so machines and waits are overstated here.**"
            )
        yield text


def knowledge(compared: Compared) -> list[str]:
    """What each rule may look at, rules that know the same together."""
    groups: dict[str, list[str]] = {}
    for one in compared.others:
        if one.placed.knowledge is not None:
            note = KNOWN.get(one.placed.knowledge.note, one.placed.knowledge.note).replace("workload", "pod")
            mark = ": no scheduler of a real cluster knows this" if is_reference(one) else ""
            groups.setdefault(note.removesuffix(" (a reference)") + mark, []).append(f"`{one.name}`")
    return [f"{', '.join(names)}: {note}." for note, names in groups.items()]


def _overshoot(change: Point, name: str) -> str:
    """By how much overshoot rises or falls; empty if it does not."""
    if abs(change.value) < NOTICEABLE:
        return ""
    word = "more" if change.value > 0 else "fewer"
    return f"{name} for {_size(change)} {word} machine-hours a day"


def _fewer(saved: Point, what: str = "") -> str:
    """So many fewer, or more."""
    if abs(saved.value) < NOTICEABLE:
        return f"no fewer{what}"
    return f"{_size(saved)} {'fewer' if saved.value > 0 else 'more'}{what}"


def _size(point: Point, decimals: int = 1) -> str:
    """A change without its sign, with the interval in its direction."""
    return _interval(Point(-point.value, -point.high, -point.low) if point.value < 0 else point, decimals)


def _is_nothing(money: Point) -> bool:
    """Whether it is 0 in whole units, and so is its interval."""
    return all(round(abs(end)) == 0 for end in money if not math.isnan(end))


def _interval(point: Point, decimals: int = 1) -> str:
    text = f"{point.value:,.{decimals}f}"
    return text if math.isnan(point.low) else f"{text} [{point.low:,.{decimals}f}, {point.high:,.{decimals}f}]"


def named(names: str) -> str:
    """Names in brackets, if there are any."""
    return f" ({names})" if names else ""


def count_of(number: int, thing: str) -> str:
    """As in 1 pod, 2 pods."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int) -> str:
    """Names between commas, the first few of many."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
