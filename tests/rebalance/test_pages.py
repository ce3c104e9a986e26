"""What operators and `tvwrl serve` hear of the controller, over HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tvwrl.rebalance.handing_over import Extender, ExtenderOptions
from tvwrl.rebalance.monitoring import Monitoring, Pages
from tvwrl.types import InputError


def asked(pages, path, method="GET"):
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.request"}

    asyncio.run(pages({"type": "http", "method": method, "path": path}, receive, send))
    return sent[0]["status"], sent[1]["body"].decode()


def test_pages():
    state = {"alive": True, "ready": False}
    monitoring = Monitoring(True, lambda: 12.0, lambda: 3.0)
    pages = Pages(monitoring, lambda: state["alive"], lambda: state["ready"])
    assert asked(pages, "/healthz") == (200, "ok")
    assert asked(pages, "/readyz")[0] == 503
    state.update(alive=False, ready=True)
    assert asked(pages, "/healthz")[0] == 503
    assert asked(pages, "/readyz") == (200, "ok")
    status, text = asked(pages, "/metrics")
    assert status == 200
    assert "tvwrl_rebalance_plan_age_seconds 12.0" in text
    assert "tvwrl_rebalance_budget_left 3.0" in text
    assert 'tvwrl_rebalance_mode_info{dry_run="true"} 1.0' in text
    assert asked(pages, "/other")[0] == 404
    assert asked(pages, "/metrics", "POST")[0] == 405


@pytest.fixture
def heard():
    """(address, requests) of a server that answers 200."""
    found = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.append((self.path, self.headers.get("Authorization"), json.loads(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", found
    server.shutdown()
    server.server_close()


def test_a_target_is_handed_over_with_the_token(heard, tmp_path):
    address, found = heard
    (tmp_path / "token").write_text("secret\n")
    failed = []
    hand_over = Extender(ExtenderOptions(extender=address, extender_token_file=tmp_path / "token"), failed.append)
    hand_over("rs-1", "node-2", ("node-1",), 300.0)
    wish = {"controller": "rs-1", "node": "node-2", "avoid": ["node-1"], "seconds": 300.0}
    assert found == [("/targets", "Bearer secret", wish)]
    (tmp_path / "token").unlink()
    hand_over("rs-1", "node-2", (), 300.0)
    Extender(ExtenderOptions(extender="http://127.0.0.1:1"), failed.append)("rs-1", "node-2", (), 300.0)
    assert len(failed) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"extender": "nonsense"}, "extender is nonsense"),
        ({"extender_token_file": "token"}, "need extender"),
        ({"extender": "https://a", "extender_key": "key"}, "give both"),
        ({"extender": "https://a", "extender_ca": "none.pem"}, "cannot be used"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        Extender(ExtenderOptions(**options), str)
