"""`tvwrl serve` in a process of its own, and what clients, bad ones too, do to it."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

PATIENCE = 240.0  # seconds for anything that is to happen: machines are busy, and kernels may have to be compiled
NAMES = ["a", "b", "c", "d"]


def wait_for(condition, what):
    """What `condition` returns once it is true."""
    end = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)
    return found


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def arguments(name="new", names=NAMES):
    """The body of /filter and /prioritize."""
    pod = {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}}
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(names)}).encode()


class Server:
    """A server that began; `options` as on the command line. Its log goes to `folder`, or to `stderr`."""

    def __init__(self, folder, prometheus, *options, port=None, stderr=None):
        self.port, self.token = port or free_port(), None
        self.log = Path(folder) / f"{self.port}-{time.monotonic_ns()}.log"
        command = [sys.executable, "-m", "tvwrl", "serve", "--policy", "best-fit", "--prometheus", prometheus.url]
        command += ["--listen", f"127.0.0.1:{self.port}", "--poll-seconds", "0.1", *map(str, options)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr or log, cwd=folder
            )

    def text(self):
        return self.log.read_text()

    def events(self, event):
        found = [json.loads(line) for line in self.text().splitlines() if line.startswith("{") and line.endswith("}")]
        return [one for one in found if one["event"] == event]

    def wait_until_ready(self):
        def ready():
            assert self.process.poll() is None, self.text()
            with contextlib.suppress(OSError):
                return self.ask("GET", "/readyz")[0] == 200

        wait_for(ready, "a server that is ready")
        return self

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def ask(self, method, path, body=None, **headers):
        """Status and body of the answer."""
        if self.token is not None:
            headers = {"Authorization": f"Bearer {self.token}", **headers}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        with contextlib.closing(connection):
            connection.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def decide(self, path="/filter", **changes):
        """The answer in JSON to a valid request."""
        status, body = self.ask("POST", path, arguments(**changes))
        assert status == 200, body
        return json.loads(body)

    def counted(self, name):
        """The number in /metrics of a counter with its labels; 0 where it is not there yet."""
        text = self.ask("GET", "/metrics")[1].decode()
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def polls(self):
        return sum(self.counted(f'tvwrl_polls_total{{result="{result}"}}') for result in ("ok", "failed"))

    def wait_for_polls(self, more=2):
        """So that at least one of them began after now."""
        before = self.polls()
        wait_for(lambda: self.polls() >= before + more, "looks at the metrics")

    def readers(self):
        """Process ids of those that read metrics."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        found = {int(pid) for file in (children, *threads) for pid in file.read_text().split()}
        return {pid for pid in found if b"resource_tracker" not in command_of(pid)}

    def end(self, number=signal.SIGTERM):
        """End it; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        assert "Traceback" not in self.text(), self.text()
        return code


def command_of(pid):
    """Empty where there is no such process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def sent(connection, data):
    """All that comes back after `data`, until the other side closes or says nothing more for two seconds."""
    with contextlib.suppress(OSError):  # refused before all of it was read
        connection.sendall(data)
    connection.settimeout(2.0)
    return until_closed(connection)


def until_closed(connection):
    found = b""
    with contextlib.suppress(OSError):
        while more := connection.recv(65536):
            found += more
    return found


def one_answer(connection):
    """Status and body of one answer, on a connection that may stay open."""
    connection.settimeout(PATIENCE)
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return answer.status, answer.read()


def at_once(count, work):
    """What `work(i)` returns in `count` threads."""
    found = [None] * count

    def run(i):
        found[i] = work(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    return found


def largest_memory(pid):
    """MiB that a process has held at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


def has_proc():
    return os.path.isdir("/proc/self/task")


def certificate(folder, name):
    """A certificate that signs itself, and its key."""
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    words += ["-keyout", f"{name}.key", "-out", f"{name}.crt", "-subj", f"/CN={name}"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    return folder / f"{name}.crt", folder / f"{name}.key"
