"""Rules that carry other projects' names move what those projects move, on those projects' own test cases.

The tables in `conformance/` are facts from unit tests: nodes, pods and how many of them are evicted, in one round. Each
names project, version, file and case. Where a rule deviates by design, the case says so: `deviates` has the rule's own
answer, which is held too, and the reason.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from tvwrl.schedulers.moving.descheduler import by_usage
from tvwrl.schedulers.moving.karpenter import worth
from tvwrl.schedulers.moving.koordinator import Anomalies, node_score, pod_score

TABLES = {path.stem: json.loads(path.read_text()) for path in sorted((Path(__file__).parent / "conformance").iterdir())}
CASES = [
    pytest.param(case, id=f"{table}/{Path(file).name}/{case['case']}")
    for table, content in TABLES.items()
    for file, cases in content["files"].items()
    for case in cases
]


def _best(score):
    return np.argsort(-score, kind="stable").tolist()


def _abnormal(rounds, machines, most):
    """Machines that are abnormal in the last of the rounds, of which each names those that are used too much."""
    anomalies = Anomalies(machines, most)
    found = [anomalies.among(np.isin(np.arange(machines), much), now) for now, much in enumerate(rounds)]
    return np.flatnonzero(found[-1]).tolist()


FORMULAS = {
    "by_usage": lambda load: by_usage(np.array(load, float)).tolist(),
    "nodes_by_score": lambda load, size: _best(node_score(np.array(load, float), np.array(size, float))),
    "pods_by_score": lambda usage, excess: _best(pod_score(np.array(usage, float), np.array(excess, float))),
    "abnormal": _abnormal,
    "approved": lambda k, **inputs: worth(**inputs) >= 1 / k,
}
PLACING = {"low": "spread", "high": "stack"}  # by the first part of the rule's name


@pytest.mark.parametrize("case", CASES)
def test_equals_the_source(begin, reset, moves_of, case):
    if "formula" in case:
        assert FORMULAS[case["formula"]](**case["inputs"]) == pytest.approx(case["expected"])
        return
    simulation = begin(case["machines"], case.get("resources", ("cpu", "pods")), **case.get("scenario", {}))
    placing = case.get("placing", PLACING.get(case["rule"].partition("-")[0], "best-fit"))
    made = moves_of(simulation, reset(f"{placing} + {case['rule']}", simulation))
    assert {"moves", "moved", "from"} & case.keys()
    if "deviates" in case:
        assert case["deviates"]["because"]
        case = case | case["deviates"]
    if "moves" in case:
        assert len(made) == case["moves"]
    if "moved" in case:
        assert [workload for workload, _, _ in made] == case["moved"]
    if "from" in case:
        assert sorted({machine for _, machine, _ in made}) == case["from"]


def test_every_table_says_where_its_cases_come_from():
    for content in TABLES.values():
        assert all(content[told] for told in ("project", "version", "units", "files"))
        assert all(file.endswith("_test.go") for file in content["files"])


def test_the_page_counts_the_cases():
    page = (Path(__file__).parents[3] / "docs/reference/production-rules.md").read_text()
    moving = page[page.index("## Rules that move what runs") :]
    for content in TABLES.values():
        cases = [case for of_file in content["files"].values() for case in of_file]
        (row,) = re.findall(rf"^\| `{content['project']}`.*\| (\d+) \| (\d+) \|", moving, re.MULTILINE)
        assert [int(number) for number in row] == [len(cases), sum("deviates" in case for case in cases)]
