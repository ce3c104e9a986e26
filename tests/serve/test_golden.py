"""What a real kube-scheduler sent is read as it was meant, and what it accepted is what is still answered.

The files come from `python -m e2e.golden`.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from tvwrl.serve.extender_messages import bound, filtered, prioritized, read_arguments, read_binding

FOLDER = Path(__file__).parent / "golden"
FILES = sorted(FOLDER.glob("*.json"))
MIB, NONE = 2.0**20, float("nan")
REQUESTS = {
    "requests": (0.5, 1024 * MIB),
    "owner": (0.5, 1024 * MIB),
    "nothing-requested": (NONE, NONE),
    "several-containers": (1.0, 1e9),  # the init container alone needs more than the others together
    "limits-only": (2.0, 1536 * MIB),  # the API server takes limits for requests
    "two-nodes": (0.5, 1024 * MIB),
    "held": (0.5, 1024 * MIB),
}


def exchange(path):
    """The exchange, and the body of its request."""
    content = json.loads(path.read_text())
    return content, json.dumps(content["request"]).encode()


def asked(verb):
    return [pytest.param(path, id=path.stem) for path in FILES if f".{verb}." in path.name]


def test_every_kind_of_request_is_there():
    kinds = {path.name.split(".")[0] for path in FILES}
    assert kinds == {*REQUESTS, "bind"}


@pytest.mark.parametrize("path", asked("filter") + asked("prioritize"))
def test_requests_of_the_scheduler_are_read(path):
    content, body = exchange(path)
    request = content["request"]
    arguments = read_arguments(body)
    whole = request["Nodes"]
    names = [node["metadata"]["name"] for node in whole["items"]] if whole else request["NodeNames"]
    assert list(arguments.names) == names
    assert (arguments.nodes is None) == (".names." in path.name)
    assert arguments.pod.key == f"default/{request['Pod']['metadata']['name']}"
    assert arguments.pod.uid == request["Pod"]["metadata"]["uid"]
    np.testing.assert_allclose(arguments.pod.request, REQUESTS[path.name.split(".")[0]])


@pytest.mark.parametrize("path", asked("filter"))
def test_the_answer_to_filter_is_as_the_scheduler_accepted_it(path):
    content, body = exchange(path)
    answer, arguments = content["answer"], read_arguments(body)
    failed = answer["FailedNodes"]
    passed = [name not in failed for name in arguments.names]
    reason = next(iter(failed.values()), "")
    final = bool(answer["FailedAndUnresolvableNodes"])
    assert json.loads(filtered(arguments, passed, reason, final=final)) == answer


@pytest.mark.parametrize("path", asked("prioritize"))
def test_the_answer_to_prioritize_is_as_the_scheduler_accepted_it(path):
    content, body = exchange(path)
    arguments, answer = read_arguments(body), content["answer"]
    score = {one["Host"]: one["Score"] for one in answer}
    assert json.loads(prioritized(arguments.names, [score[name] for name in arguments.names])) == answer


def test_a_binding_of_the_scheduler_is_read_and_answered():
    content, body = exchange(FOLDER / "bind.json")
    binding, request = read_binding(body), content["request"]
    assert (binding.pod, binding.node) == (request["PodName"], request["Node"])
    assert (binding.namespace, binding.uid) == ("default", request["PodUID"])
    assert json.loads(bound()) == content["answer"]
