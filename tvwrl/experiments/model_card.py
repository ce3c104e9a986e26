"""The page that goes with an exported policy: what it takes and returns, what it learnt from, what it can and cannot.

Every number is of the run's own files, or of the comparison that the export made.
"""

from __future__ import annotations

import json
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import numpy as np

from tvwrl.experiments.episode_rows import UNPLACED, incomplete, no_value, read_rows
from tvwrl.experiments.statistics import mean_with_interval, point_estimate
from tvwrl.experiments.tables import best_first, by_load
from tvwrl.experiments.training_runs import DEEPRM
from tvwrl.markdown import markdown_table
from tvwrl.schedulers import KNOWLEDGE, LEARNT_PEAKS_AND_LENGTHS, knowing_no_more, knowledge_of

if TYPE_CHECKING:
    from tvwrl.agents import Checkpoint, Export, Facts

TEMPLATE = Path(__file__).with_name("model_card.md")
COLUMNS = {  # column of rows.csv -> heading, what it is divided by, decimals
    "reward": ("reward (thousands)", 1000.0, 2),
    "overshoot_pct": ("overshoot %", 1.0, 3),
    "machines_used": ("machines used", 1.0, 2),
    "wait_mean": ("wait (slots)", 1.0, 2),
    "unplaced": ("unplaced", 1.0, 2),
}
SPLITS = {
    "workloads": "workloads that training never saw",
    "applications": "applications that training never saw",
    "time": "the last part of every series, which training never saw",
}


def model_card(export: Export, checkpoint: Checkpoint, file: Path, source: Path, license: str, terms: str = "") -> str:
    """`model_card.md` filled in: Markdown with the front matter of Hugging Face.

    `file`: the exported file
    `source`: the .pt file of the checkpoint
    `license`: identifier of the policy's licence
    `terms`: of the trace
    """
    facts, config, shapes = export.facts, checkpoint.config, export.facts.shapes
    scenario, trace, trained = facts.scenario, facts.trace, shapes["grid"][0]
    run = _json_of(source.parent.parent / "run.json")
    noted, knowledge = run.get("trace") or {}, knowledge_of(scenario, facts.forecaster)
    of = f", {noted['workloads']} workloads" if "workloads" in noted else ""
    numbers = {
        "states": export.states,
        "difference": f"{export.difference:.1e}",
        "sequences": config.train_sequences,
        "split": SPLITS[scenario.split],
        "slot_seconds": scenario.step_seconds,
        "loads": ", ".join(f"{load:g}" for load in config.train_loads or (scenario.load,)),
        "units": ", ".join(f"{name} {value:.6g}" for name, value in zip(facts.resources, facts.unit, strict=True)),
        "algorithm": config.algo,
        "iteration": checkpoint.iteration,
        "iterations": config.iterations,
        "seed": config.seed,
        "policy": config.policy,
        "hidden": config.hidden,
        "largest": shapes["grid"][3],
    }
    words = {
        "license": json.dumps(license),
        "name": facts.name,
        "file": file.name,
        "file_in_code": repr(file.name),
        "trained_by": f"tvwrl {(run.get('versions') or {}).get('tvwrl', '')}".strip(),
        "trace": trace["name"],
        "trace_hash": trace["hash"],
        "trace_source": f"{trace.get('source') or 'source unknown'}{of}",
        "resources": ", ".join(facts.resources),
        "machine_kinds": ", ".join(scenario.machine_types)
        or f"capacity {', '.join(f'{c:g}' for c in scenario.capacity)} units",
        "knowledge": f"{knowledge.group}. It observes {knowledge.note.removesuffix(' (learnt)')}",
        "inputs": _inputs(facts),
        "results": _results(facts, checkpoint, source),
        "classes": _classes(facts),
    }
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        numbers
        | words
        | {
            "chooses": "chooses one of the waiting workloads and its machine"
            if scenario.choose_from_queue
            else "chooses a machine for the workload that has waited longest",
            "hold": ", or places nothing in this slot" if scenario.hold_action else "",
            "hold_action": "; the last action places nothing" if scenario.hold_action else "",
            "any_number": ", M: machines, any number of each" if facts.any_machines else ", any number",
            "machines": f"It takes any number of machines, and was trained on {trained}."
            if facts.any_machines
            else f"It takes exactly {trained} machines.",
            "privileged": " No real cluster knows lifetime peaks: this policy is for comparisons."
            if scenario.observe_peak
            else "",
            "origin": _origin(checkpoint),
            "terms": f"\n- Terms of the trace: {terms}." if terms else "",
            "never_saw": ("" if scenario.usage_delay else ", usage that is measured late")
            + ("" if scenario.background else ", background load")
            + ("" if scenario.burst > 1 else ", bursts of arrivals"),
            "forecaster": f"\n- Forecaster: {type(facts.forecaster).__name__}, for {scenario.peak_units} units and "
            f"slots of {scenario.step_seconds} s. Its weights are in the file, not what it learnt from."
            if facts.forecaster is not None
            else "",
            "synthetic": "\n- The trace is synthetic: nothing here was measured on recorded usage."
            if trace.get("source") == "synthetic"
            else "",
        }
    )


def _origin(checkpoint: Checkpoint) -> str:
    """What else the policy comes from, a line each."""
    config, lines = checkpoint.config, []
    if config.built_in:
        lines.append(f"- Before training it behaved about like the rule `{config.built_in}`, which is built in.")
    if config.imitates:
        lines.append(f"- Before it learnt from rewards it imitated `{config.imitates}`.")
    if config.also:
        lines.append(f"- It was also trained on {', '.join(f'`{name}`' for name in config.also)}.")
    return "".join("\n" + line for line in lines)


def _inputs(facts: Facts) -> str:
    """A table of the arrays that go in, and of the one that comes out."""
    machines, resources, history, columns = facts.shapes["grid"]
    places, features = facts.shapes["queue"]
    kinds, first = facts.shapes["classes"], "M" if facts.any_machines else str(machines)
    choices = facts.shapes.get("places", 1)
    actions = f"{choices} M" if choices > 1 else first
    actions += " + 1" if facts.scenario.hold_action else ""
    grid = f"units of load in the last {history} slots, oldest first, by class: 1 to {kinds}; 0 is free, "
    grid += f"{kinds + 1} no capacity, {kinds + 2} background load"
    rows = [
        ["`grid`", "uint8", f"(B, {first}, {resources}, {history}, {columns})", grid],
        ["`queue`", "float32", f"(B, {places}, {features})", _queue(facts)],
        ["`backlog`", "float32", "(B, 1)", "workloads that wait beyond the queue"],
        ["`mask`", "bool", f"(B, {actions})", "the actions that are allowed"],
    ]
    if wide := facts.shapes["shows"]["forecast"]:
        summed = "forecasts" if facts.scenario.observe_forecast else "lifetime peaks"
        rows.append(
            ["`forecast`", "float32", f"(B, {first}, {wide})", f"{summed}, summed over the workloads on a machine"]
        )
    rows.append(["`logits`", "float32", f"(B, {actions})", "the output; -1e9 where an action is not allowed"])
    return markdown_table(["name", "type", "shape", "meaning"], rows)


def _queue(facts: Facts) -> str:
    """The features of a place of the queue, in their order."""
    shows, names = facts.shapes["shows"], ", ".join(facts.resources)
    parts = ["class of the workload (0: empty place)"]
    parts += [f"its request in units, and whether it declared one ({names} each)"] if shows["request"] else []
    parts += [f"its demand in units in its first slot ({names})"] if shows["demand"] else []
    parts += [f"its forecast ({shows['forecast']} numbers)"] if shows["forecast"] else []
    return "; ".join(parts)


def _results(facts: Facts, checkpoint: Checkpoint, source: Path) -> str:
    """Means with intervals from the run's evaluation, if it played this very checkpoint."""
    folder = source.parent.parent / "evaluation"
    about = _json_of(folder / "run.json")
    name = _evaluated_as(about, folder, checkpoint, source)
    if name is None or not (folder / "rows.csv").is_file():
        return "This checkpoint was not evaluated."
    known = {**KNOWLEDGE, **dict.fromkeys(about["policies"], knowledge_of(facts.scenario, facts.forecaster))}
    known[DEEPRM], parts = LEARNT_PEAKS_AND_LENGTHS, []
    left = dict[float, str]()
    for load, group in by_load(read_rows(folder)).items():
        if name not in group:
            continue
        left |= {load: what} if (what := incomplete(group[name][UNPLACED])) else {}
        body = [
            [
                f"**{one}** (this policy)" if one == name else one,
                known[one].group if one in known else "",
                *(mean_with_interval(group[one][column] / by, digits) for column, (_, by, digits) in COLUMNS.items()),
            ]
            for one in best_first(group)
        ]
        for one, cells in zip(best_first(group), body, strict=True):
            cells[2] = no_value(incomplete(group[one][UNPLACED])) or cells[2]
        head = ["scheduler", "knows", *(title for title, _, _ in COLUMNS.values())]
        sequences = len(group[name]["reward"])
        parts.append(f"Load {load:g}, {sequences} test sequences:\n\n{markdown_table(head, body)}")
    if not parts:
        return "This checkpoint was not evaluated."
    better = _better_rules(facts, name, read_rows(folder))
    warning = [
        f"**It left workloads unplaced at load {load:g} ({what}): it has no mean reward there. Do not rely on it.**"
        for load, what in left.items()
    ]
    warning += (
        [f"**{', '.join(f'`{one}`' for one in better)} earned a higher mean reward: prefer that to this policy.**"]
        if better
        else []
    )
    machines = len(about.get("capacities") or [])
    where = f"On {SPLITS[facts.scenario.split]}, on {machines} machines. " if machines else ""
    return "\n\n".join([*warning, f"{where}Means over sequences [95 % bootstrap interval].", *parts])


def _better_rules(facts: Facts, name: str, rows: Any) -> list[str]:
    """Rules that know no more than the policy and had a higher mean reward, at any load; the best first. Loads where
    the policy has none, as it left workloads unplaced, do not count."""
    groups, found = knowing_no_more(knowledge_of(facts.scenario, facts.forecaster).group), dict[str, float]()
    for group in by_load(rows).values():
        mean = {one: point_estimate(columns["reward"]) for one, columns in group.items()}
        for one in mean.keys() & KNOWLEDGE.keys():
            if KNOWLEDGE[one].group in groups and mean[one] > mean.get(name, np.inf):
                found[one] = max(found.get(one, -np.inf), mean[one])
    return sorted(found, key=lambda one: -found[one])


def _evaluated_as(about: dict[str, Any], folder: Path, checkpoint: Checkpoint, source: Path) -> str | None:
    """The name under which an evaluation played the policy of the .pt file `source`."""
    played = about.get("checkpoint") or {}
    for name, file in (about.get("policies") or {}).items():
        newest = played.get("run") != name or played.get("iteration") == checkpoint.iteration
        if (folder / file).resolve() == source.resolve() and newest:
            return str(name)
    return None


def _classes(facts: Facts) -> str:
    if "own_labels" in facts.classes.to_dict():
        return f"none; every workload has a label of its own, 1 to {facts.classes.k} in turn"
    where = f"the training workloads of `{facts.trace['name']}`"
    return f"{facts.classes.k}, fitted on {where}; workloads unlike those get the nearest class"


def _json_of(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if there is no such file, or it is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
