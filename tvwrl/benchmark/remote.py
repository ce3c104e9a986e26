"""Entries in processes of their own: what the comparison plays with, and the connection to the process.

Nothing that the process says is trusted: an answer is JSON, belongs to the question just asked, and comes in time.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from pickle import HIGHEST_PROTOCOL, dumps
from typing import Any

import numpy as np

from tvwrl.benchmark.entry_process import LENGTH
from tvwrl.benchmark.models import Function, Mask, Observation, Shown, Through, flat
from tvwrl.benchmark.view import Door
from tvwrl.schedulers import GROUPS, Knowledge, Scheduler
from tvwrl.simulation import Cluster
from tvwrl.types import InputError, Move, Placement, Workload

HANGING_SECONDS = 60.0  # after which a process that does not answer is killed
STARTING_SECONDS = 300.0  # the same for loading the entry, which may import much
LONGEST = 1_000_000  # bytes of an answer
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
Tell = Callable[[Any, Any], Any]


class EntryProcess:
    """A process in which an entry plays, from now until `close`, the end of the program, or the entry's first hang.

    `kind`, `content`: see `packed`
    `hidden`: environment variables that the process does not get: they name os.devnull there, so that HOME and
        TVWRL_DATA lead nowhere; with any, the process does not begin in the current folder either

    Raises InputError if the entry cannot be loaded there.

    Attribute: `facts`, what the process says of the entry.
    """

    def __init__(self, kind: str, content: Any, hidden: Sequence[str] = ()) -> None:
        ours, theirs = socket.socketpair()
        path = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path)
        environment = os.environ | ONE_THREAD | {"PYTHONPATH": path} | dict.fromkeys(hidden, os.devnull)
        command = [sys.executable, "-u", "-P", "-m", "tvwrl.benchmark.entry_process", str(theirs.fileno())]
        # A session of its own, so that whatever the entry starts can be ended with it
        process = subprocess.Popen(
            command,
            pass_fds=[theirs.fileno()],
            env=environment,
            cwd="/" if hidden else None,  # what it reads is to be found from its own file
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()
        self._connection, self._process, self._heard = ours, process, b""
        self._over: str | None = None  # why it no longer answers
        self.close = weakref.finalize(self, _end, process, ours, os.getpid())
        try:
            self.facts = self.ask("load", kind, content, seconds=STARTING_SECONDS)
        except BaseException:
            self.close()
            raise

    def ask(self, what: str, *given: Any, tell: Tell | None = None, seconds: float | None = None) -> dict[str, Any]:
        """The answer to a question. `tell`: answers what the entry asks meanwhile.

        Raises InputError for an error in the entry, a process that ends or does not answer within `seconds`
        (HANGING_SECONDS), and an answer that is none.
        """
        if not self.close.alive:
            raise InputError(self._over or "its process has been closed")
        limit = HANGING_SECONDS if seconds is None else seconds
        deadline = time.monotonic() + limit
        try:
            token = self._send((what, *given), deadline)
            while "see" in (answer := self._answer(token, deadline)):
                token = self._send(_told(tell, answer), deadline)
        except TimeoutError:
            lasted = "loading it" if what == "load" else "a decision"
            raise self._ended(f"{lasted} lasted longer than {limit:g} s: its process was stopped") from None
        except (ConnectionError, EOFError):
            raise self._ended(f"its process ended{self._how()} before it answered") from None
        except BaseException:  # Ctrl-C: what comes next would be the answer to this question
            self.close()
            raise
        if "error" in answer:
            error = InputError(_printable(answer["error"]))
            error.add_note(_printable(answer.get("trace", "")))
            raise error
        return answer

    def _send(self, question: Any, deadline: float) -> str:
        """Send a question; returns the token that its answer must carry, which cannot be guessed before."""
        token = secrets.token_hex(8)
        message = dumps((token, question), HIGHEST_PROTOCOL)
        self._wait(deadline)
        self._connection.sendall(len(message).to_bytes(LENGTH, "little") + message)
        return token

    def _answer(self, token: str, deadline: float) -> dict[str, Any]:
        while b"\n" not in self._heard:
            if len(self._heard) > LONGEST:
                raise self._ended(f"its process answered with more than {LONGEST:,} bytes")
            self._wait(deadline)
            if not (more := self._connection.recv(1 << 16)):
                raise EOFError
            self._heard += more
        said, _, self._heard = self._heard.partition(b"\n")
        try:
            # Nothing is nested in an answer: reading what is nested deeply could exhaust the stack
            answer = json.loads(said) if said.count(b"{") == 1 and b"[" not in said else None
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or answer.pop("token", None) != token:
            raise self._ended(f"its process said {said[:100]!r}, which is no answer to the question")
        return answer

    def _wait(self, deadline: float) -> None:
        """Let the next call of the connection last until the deadline."""
        if (left := deadline - time.monotonic()) <= 0:
            raise TimeoutError
        self._connection.settimeout(left)

    def _ended(self, why: str) -> InputError:
        """The error of a process that is not to be asked again, which ends here."""
        self._over = why
        self.close()
        return InputError(why)

    def _how(self) -> str:
        """How the process has ended. It is not reaped yet, so that its group can still be killed."""
        for _ in range(100):
            found = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is not None:
                exited = found.si_code == os.CLD_EXITED
                return f" with exit code {found.si_status}" if exited else f" by {signal.Signals(found.si_status).name}"
            time.sleep(0.01)
        return ""


class RemoteScheduler(Scheduler):
    """A scheduler that plays in a process of its own and sees what its knowledge group may; see `view`."""

    def __init__(self, name: str, process: EntryProcess, knowledge: Knowledge) -> None:
        facts = process.facts
        self.name, self.knowledge, self._process = name, knowledge, process
        self.looks_at_grid = facts.get("looks_at_grid") is True
        self.needs_forecasts = facts.get("needs_forecasts") is True
        self._moves = facts.get("moves") is True  # asking who moves nothing would only take time

    def reset(self, cluster: Cluster, rng: np.random.Generator) -> None:
        """See `Scheduler.reset`."""
        self._door = Door(self.knowledge.group)
        begin, state, bits = self._door.begin(cluster), self._door.state(cluster, ()), rng.bit_generator
        self._ask(cluster, "reset", begin, state, type(bits).__name__, bits.state)

    def schedule(self, cluster: Cluster, pending: Sequence[Workload]) -> Iterator[Placement]:
        """See `Scheduler.schedule`."""
        waiting, what = list(pending), "schedule"
        while True:
            answer = self._ask(cluster, what, self._door.state(cluster, waiting))
            if (machine := answer.get("machine")) is None:
                return
            workload, what = self._door.workload(answer.get("workload"), waiting), "more"
            yield Placement(workload, machine)
            waiting.remove(workload)

    def moves(self, cluster: Cluster) -> Iterator[Move]:
        """See `Scheduler.moves`."""
        what = "move"
        while self._moves:
            answer = self._ask(cluster, what, self._door.moving(cluster))
            if (machine := answer.get("machine")) is None:
                return
            yield Move(answer.get("workload"), machine)  # type: ignore[arg-type]  # `Guarded` checks both
            what = "move_more"

    def _ask(self, cluster: Cluster, what: str, *given: Any) -> dict[str, Any]:
        return self._process.ask(what, *given, tell=lambda name, about: self._door.tell(cluster, name, about))


def remote_function(process: EntryProcess) -> Function:
    """A function that plays in a process of its own, of which it gets copies of observation and mask."""

    def act(observation: Observation, mask: Mask) -> Any:
        return process.ask("act", flat(observation), flat(mask)).get("action")

    def fits(shown: Shown) -> None:
        process.ask("reset", shown)

    return Function(act, fits, what_of(process))


def remote_knowledge(process: EntryProcess) -> Knowledge | None:
    """What the scheduler in a process says that it knows; None for a function."""
    if (group := process.facts.get("group")) is None:
        return None
    if group not in GROUPS:
        raise InputError(f"it says that it knows {group!r}: must be one of {', '.join(map(repr, GROUPS))}")
    return Knowledge(group, _printable(process.facts.get("note", "")))


def packed(given: Any) -> tuple[str, Any]:
    """Kind and content of an entry for `EntryProcess`. Raises InputError for what cannot be sent.

    Kinds: "onnx" and "file" of a path, which the process reads; "object", pickled; "stable-baselines", pickled: its
    class and what its `save` writes, as the model itself would take its environment along; "through", pickled: a view,
    and kind and content of what observes it.
    """
    if isinstance(given, Path):
        return "onnx" if given.suffix == ".onnx" else "file", str(given.absolute())
    import io

    import cloudpickle

    models = sys.modules.get("stable_baselines3.common.base_class")
    kind, content = "object", given
    parts = given.view.parts if isinstance(given, Through) else ()
    modules = {module.__name__: module for one in (given, *parts) if (module := _own_module(one)) is not None}
    for module in modules.values():
        cloudpickle.register_pickle_by_value(module)
    try:
        if isinstance(given, Through):
            kind, content = "through", (given.view, packed(given.given))
        if models is not None and isinstance(given, models.BaseAlgorithm):
            given.save(file := io.BytesIO())
            kind, content = "stable-baselines", (type(given), file.getvalue())
        return kind, cloudpickle.dumps(content)
    except Exception as error:
        raise InputError(
            f"it cannot be sent to a process of its own ({type(error).__name__}: {error}): hold nothing that is open, "
            "such as files or connections, or write a Python file that defines 'entry', and give its path"
        ) from error
    finally:
        for module in modules.values():
            cloudpickle.unregister_pickle_by_value(module)


def _own_module(given: Any) -> Any:
    """The entrant's module that defines an entry, whose code is sent along since the process might not find it; None
    for installed modules and this package."""
    name = getattr(given if hasattr(given, "__qualname__") else type(given), "__module__", None) or ""
    file = getattr(sys.modules.get(name), "__file__", None)
    if name == "__main__" or file is None or name.split(".")[0] == "tvwrl":
        return None  # cloudpickle sends what `__main__` defines in any case
    installed = (sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
    return None if any(Path(file).is_relative_to(folder) for folder in installed) else sys.modules[name]


def _told(tell: Tell | None, question: dict[str, Any]) -> tuple[bool, Any]:
    """Whether the entry may see what it asks for, and that, or why not."""
    if tell is None:
        return False, "a function sees the observation and the mask, nothing else"
    try:
        return True, tell(question.get("see"), question.get("about"))
    except Exception as error:  # such as an attribute that needs forecasts where there are none
        return False, str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"


def what_of(process: EntryProcess) -> str:
    """What kind of entry a process has, in a few words."""
    return _printable(process.facts.get("what"))[:100]


def _printable(said: Any) -> str:
    """Text of a process without characters that command a terminal."""
    return "".join(one for one in str(said) if one.isprintable() or one in "\n\t")


def _end(process: subprocess.Popen[bytes], connection: socket.socket, owner: int) -> None:
    """Kill the process and all that it started; in a fork of the program that started it, do nothing."""
    if os.getpid() != owner:
        return
    connection.close()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
