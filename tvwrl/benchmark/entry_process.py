"""The process in which an entry plays: hears questions, lets the entry decide, answers. `remote` is the other side.

Questions are pickles, which come from the program that started this process. Answers are JSON, one a line, because that
program must not unpickle what an entry made. Imports little, as every entry waits for it.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from tvwrl.benchmark.models import (
    Function,
    Shown,
    Through,
    checked_action,
    checked_machine,
    checked_workload,
    function_of,
    load,
    unflat,
    whole_number,
)
from tvwrl.types import InputError

LENGTH = 8  # bytes that say how long a question is
LONGEST_ERROR = 2_000  # characters


class Line:
    """The connection to the program that started this process."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._file = connection, connection.makefile("rb")
        self._token = ""  # of the question that is open

    def hear(self) -> Any:
        """The next question. Ends the process if there will be none."""
        self._token, question = pickle.loads(self._read(int.from_bytes(self._read(LENGTH), "little")))
        return question

    def say(self, answer: dict[str, Any]) -> None:
        """Answer the open question, or ask something before. Nothing is nested; brackets in texts are escaped."""
        said = json.dumps({"token": self._token, **answer})[1:].replace("{", "\\u007b").replace("[", "\\u005b")
        self._connection.sendall(b"{" + said.encode() + b"\n")

    def ask(self, name: str, about: Any) -> Any:
        """What the door tells; see `view.Door.tell`."""
        from tvwrl.benchmark.view import NotSeen

        about = None if about is None else whole_number(about)
        self.say({"see": name, "about": about})
        told, answer = self.hear()
        if not told:
            raise NotSeen(answer)
        return answer

    def _read(self, size: int) -> bytes:
        found = self._file.read(size)
        if len(found) < size:
            sys.exit()
        return found


class Acting:
    """Plays a function of observation and mask."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self.facts = {"what": function.what}

    def reset(self, shown: Shown) -> dict[str, Any]:
        """Raises InputError if the function was made for another observation."""
        if self._function.fits is not None:
            self._function.fits(shown)
        return {}

    def act(self, observation: Any, mask: Any) -> dict[str, Any]:
        """The action. Both are `flat`."""
        allowed = unflat(mask)
        actions = len(allowed)
        return {"action": checked_action(self._function.act(unflat(observation), allowed), actions)}


class Scheduling:
    """Plays a scheduler."""

    def __init__(self, given: Any, line: Line) -> None:
        from tvwrl.benchmark.view import FrozenCluster
        from tvwrl.schedulers import Scheduler, stated_knowledge

        if not isinstance(given, Scheduler):
            raise InputError(f"it is {given!r}: must be a function, a model or a Scheduler")
        scheduler: Any = given  # Any, as it is shown a FrozenCluster in place of a Cluster
        self._scheduler, self._line, self._frozen = scheduler, line, FrozenCluster
        self._group = (knowledge := stated_knowledge(scheduler)).group
        self.facts = {
            "what": f"scheduler {type(scheduler).__name__}",
            "group": knowledge.group,
            "note": knowledge.note,
            "looks_at_grid": bool(scheduler.looks_at_grid),
            "needs_forecasts": bool(scheduler.needs_forecasts),
            "moves": getattr(scheduler.moves, "__func__", None) is not Scheduler.moves,
        }

    def reset(self, begin: dict[str, Any], state: dict[str, Any], kind: str, stream: dict[str, Any]) -> dict[str, Any]:
        """Begin an episode. `kind`, `stream`: name and state of the random bit generator."""
        source = getattr(np.random, kind)()
        source.state = stream
        self._cluster = self._frozen(begin, self._group, self._line.ask)
        self._cluster.update(state)
        self._scheduler.reset(self._cluster, np.random.Generator(source))
        return {}

    def schedule(self, state: dict[str, Any]) -> dict[str, Any]:
        """The first placement among the workloads that wait."""
        pending = self._cluster.update(state)
        self._placements: Iterator[Any] = iter(self._scheduler.schedule(self._cluster, pending))
        return self._placed()

    def more(self, state: dict[str, Any]) -> dict[str, Any]:
        """The next placement, after the last one was carried out."""
        self._cluster.update(state)
        return self._placed()

    def move(self, state: dict[str, Any]) -> dict[str, Any]:
        """The first move of what runs."""
        self._cluster.update(state)
        self._moves: Iterator[Any] = iter(self._scheduler.moves(self._cluster))
        return self._moved()

    def move_more(self, state: dict[str, Any]) -> dict[str, Any]:
        """The next move, after the last one was carried out."""
        self._cluster.update(state)
        return self._moved()

    def _moved(self) -> dict[str, Any]:
        move = next(self._moves, None)
        if move is None:
            return {"machine": None}
        workload, machine = move
        number = checked_machine(machine, len(self._cluster.machines))
        return {"machine": number, "workload": checked_workload(workload)}

    def _placed(self) -> dict[str, Any]:
        placement = next(self._placements, None)
        if placement is None:
            return {"machine": None}
        machine = checked_machine(placement.machine, len(self._cluster.machines))
        return {"machine": machine, "workload": whole_number(placement.workload.index)}


def made(kind: str, content: Any, line: Line) -> Acting | Scheduling:
    """What plays the entry. `kind`: object, stable-baselines, onnx or file; see `remote.packed`."""
    given = unpacked(kind, content)
    function = function_of(given)
    return Scheduling(given, line) if function is None else Acting(function)


def unpacked(kind: str, content: Any) -> Any:
    """What `remote.packed` has packed; the path of a file is what the file has."""
    if kind in ("onnx", "file"):
        return load(Path(content))
    given: Any = cloudpickle.loads(content)
    if kind == "through":
        view, inner = given
        return Through(view, unpacked(*inner))
    if kind == "stable-baselines":
        import io

        make, saved = given
        given = make.load(io.BytesIO(saved), device="cpu")
    return given


def error_of(error: BaseException) -> dict[str, Any]:
    """What to answer instead."""
    try:
        text = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
    except Exception:
        text = type(error).__name__
    trace = "".join(traceback.format_exception(error))
    return {"error": text[:LONGEST_ERROR], "trace": trace[-10 * LONGEST_ERROR :]}


def main(descriptor: int) -> None:
    """Answer until the other side hangs up."""
    connection = socket.socket(fileno=descriptor)
    connection.set_inheritable(False)
    # End this process, and those that it started, once the other side has hung up, even if the entry never returns
    hung_up = select.poll()
    hung_up.register(connection, 0)  # hanging up is always reported

    def end_then() -> None:
        hung_up.poll()
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=end_then, daemon=True).start()
    line = Line(connection)
    player: Any = None
    while True:
        what, *given = line.hear()
        try:
            if what == "load":
                kind, content = given
                player = made(kind, content, line)
                answer = player.facts
            else:
                answer = getattr(player, what)(*given)
        except BaseException as error:  # an entry may also try to exit
            answer = error_of(error)
        line.say(answer)


if __name__ == "__main__":
    main(int(sys.argv[1]))
