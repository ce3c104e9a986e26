"""The application, asked without a network, and requests to ask it with."""

import asyncio
import io
import json

from tests.serve.clusters import decider, observed
from tvwrl.serve.extender import Application, Limits
from tvwrl.serve.monitoring import Log, Monitoring
from tvwrl.serve.record import Record

TOKEN, PASSWORD = "opensesame-91", "hunter2-swordfish"
BEARER = (b"authorization", b"Bearer " + TOKEN.encode())
LEAKS = (TOKEN, PASSWORD, "Traceback", "site-packages", ".py", "/root", "/home", "/tmp", "object at 0x")
BODY = 2**20  # bytes
CONTAINER = {
    "name": "main",
    "env": [{"name": "PASSWORD", "value": PASSWORD}],
    "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}},
}
POD = {
    "metadata": {
        "name": "cart-1", "namespace": "shop", "uid": "5f1c", "annotations": {"secret": PASSWORD},
        "ownerReferences": [{"kind": "ReplicaSet", "name": "cart-5d9c7b6f4", "controller": True}],
    },
    "spec": {"containers": [CONTAINER], "initContainers": [CONTAINER], "overhead": {"cpu": "10m"}},
}  # fmt: skip
NODES = {"metadata": {}, "items": [{"metadata": {"name": name}, "status": {"x": [1]}} for name in "abe"]}
CACHED = {"Pod": POD, "Nodes": None, "NodeNames": ["a", "b", "c", "new"]}
WHOLE = {"Pod": POD, "Nodes": NODES, "NodeNames": None}
BINDING = {"PodName": "cart-1", "PodNamespace": "shop", "PodUID": "5f1c", "Node": "a"}
VALID = {"/filter": [CACHED, WHOLE], "/prioritize": [CACHED, WHOLE], "/bind": [BINDING]}


class Asked:
    """An application in a loop of its own, asked without a network."""

    def __init__(self, limits=None, bind=lambda binding: None, file=None):
        self.log = io.StringIO()
        asked = decider(stale=1e9, assume=1e9)
        asked.renew(observed(dict.fromkeys("abcd", (8, 32)), [("p", "a", "", [1, 1], [1, 1])]))
        self.monitoring = Monitoring("best-fit", False, lambda: asked.age)
        record = Record(file, lambda where: None)
        limits = limits or Limits(body=BODY, deadline=60.0, body_seconds=60.0)
        self.application = Application(
            asked, self.monitoring, record, Log(self.log), limits, bind=bind, token=TOKEN.encode()
        )
        self.runner = asyncio.Runner()

    def close(self):
        self.application.close()
        self.runner.close()

    def __call__(self, path, *parts, method="POST", headers=(BEARER,)):
        """Status and body of the answer to a request whose body arrives in parts; None: no answer."""
        return self.runner.run(self.ask(path, *parts, method=method, headers=headers))

    async def ask(self, path, *parts, method="POST", headers=(BEARER,)):
        scope = {"type": "http", "method": method, "path": path, "headers": list(headers), "query_string": b""}
        left = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
        if left:
            left[-1]["more_body"] = False
        sent = []

        async def receive():
            return left.pop(0) if left else {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        await self.application(scope, receive, send)
        if not sent:
            return None
        start, *bodies = sent
        body = b"".join(one["body"] for one in bodies)
        assert dict(start["headers"])[b"content-length"] == str(len(body)).encode()
        return start["status"], body

    def errors(self):
        """Events of the log that stand for exceptions nobody expected; forgets the log."""
        events = [json.loads(line) for line in self.log.getvalue().splitlines()]
        assert PASSWORD not in self.log.getvalue()
        assert TOKEN not in self.log.getvalue()
        self.log.seek(0)
        self.log.truncate()
        return [one for one in events if one["event"] == "error"]


def check(asked, path, body, statuses=(200, 400)):
    status, answer = asked(path, body)
    assert status in statuses, (status, answer[:300])
    assert asked.errors() == []
    text = answer.decode()
    if status != 200:
        assert len(text) < 500
        assert "\n" not in text
        assert not [leak for leak in LEAKS if leak in text]
        return
    assert not [leak for leak in LEAKS[:3] if leak in text]
    found = json.loads(text)
    if path == "/filter":
        assert found.keys() == {"Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error"}
    elif path == "/prioritize":
        assert all(one.keys() == {"Host", "Score"} and one["Score"] in range(11) for one in found)
    else:
        assert found == {"Error": ""}


def in_json(content):
    """The body of a request."""
    return json.dumps(content).encode()
