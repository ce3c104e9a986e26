"""Rules that carry other projects' names decide as those projects do, on those projects' own test cases.

The tables in `conformance/` are facts from unit tests: machines, what is used and requested, and the score or the
answer of the filter. Each names project, version, file and case. Where a rule deviates by design, the case says so:
`deviates` has the rule's own answer, which is held too, and the reason.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tvwrl.schedulers.load_scores import risk_balancing
from tvwrl.schedulers.production.facts import FLAT, estimated_load, points
from tvwrl.schedulers.production.katalyst import target_score
from tvwrl.schedulers.production.trimaran import low_risk
from tvwrl.schedulers.registry import SCHEDULERS
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import Machines

TABLES = {path.stem: json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "conformance").iterdir())}
DAY = 48  # slots
CASES = [
    pytest.param(case, id=f"{table}/{Path(file).name}/{case['case']}")
    for table, content in TABLES.items()
    for file, cases in content["files"].items()
    for case in cases
]


def _risk(mean, deviation, request, margin, sensitivity):
    of_one = (mean + request, deviation)
    return points(risk_balancing(*of_one, *of_one, margin, sensitivity))


def _mu_sigma(mean, deviation, request):
    """What the score makes of a mean and of a deviation."""
    of_one = (mean + request, deviation)
    risk = [2 * (1 - risk_balancing(*of_one, *of_one, margin, 1)) for margin in (0, 1)]
    return [risk[0], risk[1] - risk[0]]


FORMULAS = {
    "risk": _risk,
    "mu_sigma": _mu_sigma,
    "low_risk": lambda **inputs: low_risk(**{name: np.array([value]) for name, value in inputs.items()}),
    "target_score": lambda percent, target: target_score(np.array([percent]), np.array([target])),
}


def situation(make_sequences, case):
    """The cluster of a case, measured one slot late, and its newcomer.

    One workload per machine uses what was measured; the others use nothing: those whose requests are known, and in the
    slot after the measurement those that were bound since. Workloads with a portrait used it for a day.
    """
    machines = case["machines"]
    now = max(DAY if "portraits" in machine else len(machine.get("used", "?")) for machine in machines)
    resources = len(case["newcomer"])
    nothing = [0.0] * resources
    rows, requests, places = [], [], []
    for m, machine in enumerate(machines):
        used = machine.get("used", [nothing])
        for request in [nothing, *machine.get("requests", [])]:
            demand = np.array(used[:1] * (now - len(used)) + used + used[-1:] * 2) * (request is nothing)
            rows.append((0, demand))
            requests.append(request)
            places.append(m)
        for portrait in machine.get("portraits", []):
            rows.append((0, [portrait] * (now + 2)))
            requests.append(nothing)
            places.append(m)
    since = [(m, request) for m, machine in enumerate(machines) for request in machine.get("bound_since", [])]
    rows += [(now, [nothing] * 2)] * (len(since) + 1)
    requests += [*(request for _, request in since), case["newcomer"]]
    places += [m for m, _ in since]
    kinds = ("cpu", "mem")[:resources]
    sequences = make_sequences(rows, request=[requests], resources=kinds)
    capacity = np.array([machine["size"] for machine in machines], float)
    scenario = Scenario(placements_per_slot=None, queue=99, usage_delay=1)
    simulation = Simulation(sequences, Machines(capacity, kinds), scenario, grid=False, max_slots=0)
    simulation.reset(0)
    cluster = Cluster(simulation)
    for w, machine in enumerate(places):
        while w >= len(places) - len(since) and cluster.slot < now:
            simulation.next_slot()
        simulation.place(0, machine)
    while cluster.slot < now:
        simulation.next_slot()
    return cluster, sequences.workload(0, len(rows) - 1)


@pytest.mark.parametrize("case", CASES)
def test_equals_the_source(make_sequences, case):
    if "formula" in case:
        assert FORMULAS[case["formula"]](**case["inputs"]) == pytest.approx(case["expected"])
        return
    cluster, newcomer = situation(make_sequences, case)
    rule = SCHEDULERS[case["rule"]](**case.get("options", {}))
    rule.reset(cluster, np.random.default_rng(0))
    assert {"score", "passes", "prefers", "estimate"} & case.keys()
    if "deviates" in case:
        assert case["deviates"]["because"]
        assert case["deviates"]["score"] != case["score"]
        case = case | case["deviates"]
    if "score" in case:
        assert rule.score(cluster, newcomer).tolist() == case["score"]
    if "passes" in case:
        assert rule.passes(cluster, newcomer).tolist() == case["passes"]
    if "prefers" in case:
        assert rule.score(cluster, newcomer).argmax() == case["prefers"]
    if "estimate" in case:
        np.testing.assert_allclose(estimated_load(cluster, newcomer, FLAT)[0], case["estimate"], rtol=1e-9)


def test_kube_default_adds_two_scores(make_sequences):
    """For clusters that the source's tests of LeastAllocated and of BalancedAllocation share."""
    scores = {}
    for cases in TABLES["kubernetes"]["files"].values():
        for case in cases:
            scores.setdefault(_inputs(case, "machines", "newcomer"), {})[case["rule"]] = case
    both = [rules for rules in scores.values() if {"least-allocated", "balanced-allocation"} <= rules.keys()]
    assert len(both) == 3
    for rules in both:
        least, balanced = rules["least-allocated"], rules["balanced-allocation"]
        cluster, newcomer = situation(make_sequences, least)
        found = SCHEDULERS["kube-default"]().score(cluster, newcomer)
        assert found.tolist() == np.add(least["score"], balanced["score"]).tolist()


def test_the_family_is_covered():
    """At least 60 different cases that are other projects' own; every table says where its cases come from."""
    own = [
        _inputs(case, "rule", "formula", "options", "machines", "newcomer", "inputs")
        for content in TABLES.values()
        for file, cases in content["files"].items()
        for case in cases
        if file.endswith("_test.go") and "deviates" not in case
    ]
    assert len(set(own)) >= 60
    for content in TABLES.values():
        assert all(content[told] for told in ("project", "version", "units", "files"))


def test_the_page_counts_the_cases():
    page = (Path(__file__).parents[2] / "docs/reference/production-rules.md").read_text()
    placing = page.partition("## Rules that move what runs")[0]
    for content in TABLES.values():
        cases = [case for of_file in content["files"].values() for case in of_file]
        deviating = [case for case in cases if "deviates" in case]
        (row,) = re.findall(rf"^\| `{content['project']}`.*\| (\d+) \| (\d+) \|", placing, re.MULTILINE)
        assert [int(number) for number in row] == [len(cases), len(deviating)]
        assert all(f"`{case['case']}`" in page for case in deviating)


def _inputs(case, *names):
    return json.dumps([case.get(name) for name in names])
