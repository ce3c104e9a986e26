"""A server for what is read over HTTP, the folder of real traces, and how tests prepare traces and look at them."""

import contextlib
import gzip
import hashlib
import os
import threading
from http.server import ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from tvwrl.traces import read_trace
from tvwrl.traces.preparation.prepare import prepare


def write_file(path, content):
    """Text, or a list of lines, in a file that is gzipped if its name ends with .gz; returns its path."""
    text = content if isinstance(content, str) else "".join(f"{line}\n" for line in content)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode())
    return path


def prepared(loader, source, out, rules, **options):
    """The trace made of a source, and its report."""
    report = prepare(loader, str(source), out, rules, **{"plots": False} | options)
    return read_trace(out), report


def digest(folder):
    """Of the trace itself; the report holds times and the command."""
    return hashlib.sha256(
        b"".join((folder / f"{name}.parquet").read_bytes() for name in ("usage", "workloads"))
    ).digest()


def series(trace):
    """Slots and usage by workload."""
    rows = {str(name): slice(*trace.offsets[i : i + 2]) for i, name in enumerate(trace.workload_id)}
    return {name: (trace.slot[own].tolist(), trace.usage[own].round(9).tolist()) for name, own in rows.items()}


def check_usage(trace, wanted):
    """The trace has the workloads, with the usage, that were `wanted`."""
    found = {name: usage for name, (_, usage) in series(trace).items()}
    assert found.keys() == wanted.keys()
    for name, usage in wanted.items():
        np.testing.assert_allclose(found[name], usage, rtol=1e-6, atol=1e-9)


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
