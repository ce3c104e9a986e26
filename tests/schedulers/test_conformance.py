"""Rules that carry other projects' names decide as those projects do, on those projects' own test cases.

The tables in `conformance/` are facts from unit tests: machines, what is used and requested, and the score or the
answer of the filter. Each names project, version, file and case.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from tvwrl.schedulers.load_aware import risk_balancing
from tvwrl.schedulers.production.estimates import FLAT, estimated_load
from tvwrl.schedulers.production.katalyst import target_score
from tvwrl.schedulers.production.requests import points
from tvwrl.schedulers.production.trimaran import low_risk
from tvwrl.schedulers.registry import SCHEDULERS
from tvwrl.simulation.cluster import Cluster
from tvwrl.simulation.scenario import Scenario
from tvwrl.simulation.simulation import Simulation
from tvwrl.types import Machines

TABLES = {path.stem: json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "conformance").iterdir())}
CASES = [
    pytest.param(case, id=f"{table}/{Path(file).name}/{case['case']}")
    for table, content in TABLES.items()
    for file, cases in content["files"].items()
    for case in cases
]


def _risk(mean, deviation, request, margin, sensitivity):
    of_one = (mean + request, deviation)
    return points(risk_balancing(*of_one, *of_one, margin, sensitivity))


FORMULAS = {
    "risk": _risk,
    "low_risk": lambda **inputs: low_risk(**{name: np.array([value]) for name, value in inputs.items()}),
    "target_score": lambda percent, target: target_score(np.array([percent]), np.array([target])),
}


def situation(make_sequences, case):
    """The cluster of a case, measured one slot late, and its newcomer.

    One workload per machine uses what was measured; the others use nothing: those whose requests are known, and in the
    slot after the measurement those that were bound since.
    """
    machines, now = case["machines"], max(len(machine.get("used", "?")) for machine in case["machines"])
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
    if "score" in case:
        assert rule.score(cluster, newcomer).tolist() == case["score"]
    if "passes" in case:
        assert rule.passes(cluster, newcomer).tolist() == case["passes"]
    if "prefers" in case:
        assert rule.score(cluster, newcomer).argmax() == case["prefers"]
    if "estimate" in case:
        np.testing.assert_allclose(estimated_load(cluster, newcomer, FLAT)[0], case["estimate"], rtol=1e-9)


def test_the_family_is_covered():
    """At least 60 cases that are other projects' own; every table says where its cases come from."""
    own = sum(len(cases) for name in TABLES if name != "crane" for cases in TABLES[name]["files"].values())
    assert own >= 60
    for content in TABLES.values():
        assert all(content[told] for told in ("project", "version", "units", "files"))
