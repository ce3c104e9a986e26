"""A server for what is read over HTTP, and the folder of real traces."""

import contextlib
import os
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # the client closed the connection first


@contextlib.contextmanager
def _serve(handler, site):
    server = _Server(("127.0.0.1", 0), type("MyHandler", (handler,), {"site": site}))
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def serve():
    """Context manager: serve(handler class, site) answers requests from `site`, and writes its address to site.url."""
    return _serve


@pytest.fixture(scope="session")
def real_data():
    """The folder of real traces; skips the test where there is none."""
    folder = Path(os.environ.get("TVWRL_REAL_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no folder of real traces at {folder}")
    return folder
