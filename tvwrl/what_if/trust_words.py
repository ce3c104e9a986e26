"""What the page of a comparison says of its record: how far it can be trusted."""

from __future__ import annotations

from datetime import UTC, datetime

from tvwrl.what_if.recorded import Recorded
from tvwrl.what_if.words import count_of, named

RETURNED = "came back on another node or after more than an hour, and"
EMPTY = "but a node without other pods counts as empty."


def trust(recorded: Recorded) -> list[str]:
    """How far the record can be trusted, one point a line; only what is not as it should be."""
    known, lines = recorded.trust, []
    begins, ends = (_moment(recorded.at(slot)) for slot in (0, recorded.slots))
    lines.append(
        f"{known.pods:,} pods on {len(recorded.size):,} nodes, {begins} to {ends}, every {recorded.interval} s. "
        f"{known.at_start:,} already ran when it began and {known.at_end:,} still ran when it ended: only the time "
        "between counts."
    )
    cpu, memory = recorded.utilisation
    lines.append(
        f"The pods used {cpu:.1%} of the CPU and {memory:.1%} of the memory of these nodes. If your dashboards show "
        "more, pods are missing from the record, and savings are overstated."
    )
    shares = (
        (known.without_cpu_request, "requests no CPU", "request no CPU"),
        (known.without_memory_request, "requests no memory", "request no memory"),
        (known.restarts, f"{RETURNED} counts as a new pod", f"{RETURNED} count as new pods"),
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
            "the largest counts."
        )
    lines += [
        f"Left out on purpose: {count_of(nodes, 'node')} ({name}){_on_them(nodes, pods)}; "
        "`--excluded-nodes` names what to leave out."
        for name, nodes, pods in known.pools
    ]
    if known.idle_nodes:
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
