"""The door of every command: bad input, faults of the system and interruptions end in one line and an exit code.

It is open before anything else is imported, so that Ctrl-C and SIGTERM are understood while modules load.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import NoReturn

EXTRAS = {  # module -> the extra of the package that brings it
    "torch": "train",
    "tensorboard": "train",
    "array_api_compat": "train",
    "yaml": "train",
    "moviepy": "video",
    "minari": "offline",
    "h5py": "offline",
    "stable_baselines3": "sb3",
    "sb3_contrib": "sb3",
    "optuna": "tune",
    "ray": "ray",
    "ortools": "flow",
    "kubernetes": "kubernetes",
    "urllib3": "kubernetes",
    "onnxruntime": "onnx",
    "onnx": "export",
    "onnxscript": "export",
    "uvicorn": "serve",
    "httptools": "serve",
    "orjson": "serve",
    "prometheus_client": "serve",
    "tsfresh": "tsfresh",
    "tslearn": "tslearn",
    "kmedoids": "kmedoids",
    "sklearn_extra": "sklx",
}
INTERRUPTED = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


def main(*words: str) -> NoReturn:
    """Run the command line `words`, followed by the arguments of the process, and end the process.

    Exit codes: 0 done, 1 a check found something wrong, 2 bad input or a fault of the system, 130 Ctrl-C, 143 SIGTERM.

    Parameters
    ----------
    *words : str
        The first words, such as "train"; those of the process follow.
    """
    atexit.register(_ignore_signals)
    run(lambda: _follow([*words, *sys.argv[1:]]))


def _ignore_signals() -> None:
    """All is said and done: what is left to Python takes no time, and would end by the signal without a line."""
    for number in INTERRUPTED:
        signal.signal(number, signal.SIG_IGN)


def _follow(words: list[str]) -> int | None:
    sys.argv = ["tvwrl", *words]  # what is recorded with results, and printed as the command to continue with
    from tvwrl.cli.dispatch import dispatch

    return dispatch(words)


def run(work: Callable[[], int | None]) -> NoReturn:
    """Call `work` and leave the process with its exit code; every fault that is not a bug is reported in one line."""
    signals: list[int] = []

    def leave(number: int, frame: object) -> NoReturn:
        signals.append(number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        sys.exit(128 + number)  # through `finally` blocks, so that nothing half-written stays

    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, leave)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell's background jobs ignore it
            signal.signal(signal.SIGINT, leave)
    warnings.showwarning = _show_warning
    sys.unraisablehook = partial(_go_on_leaving, signals)
    for stream in (sys.stdout, sys.stderr):  # a terminal or a file that knows few letters gets "?" for the others
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    try:
        try:
            code = work() or 0
            sys.stdout.flush()  # a full disk shows here, not after the exit code is chosen
        except BaseException as error:
            if signals:  # whatever libraries have made of it
                raise
            code = _code_of(error)
    except BaseException:  # a signal may also come while an error is reported
        if not signals:
            raise
        code = _say(INTERRUPTED[signal.Signals(signals[-1])], 128 + signals[-1])
    sys.exit(code)


def _code_of(error: BaseException) -> int:
    """Report an error in one line, and return its exit code; raises it again if it is a bug."""
    if isinstance(error, SystemExit):
        if isinstance(error.code, str):
            return _say(error.code, 1)
        return error.code or 0
    if isinstance(error, KeyboardInterrupt):
        return _say("interrupted", 130)
    if isinstance(error, BrokenPipeError):  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, OSError):  # no such folder, no permission, disk full
        return _say(f"error: {_described(error)}", 2)
    if isinstance(error, MemoryError):
        return _say("error: out of memory", 2)
    if isinstance(error, ModuleNotFoundError) and (extra := EXTRAS.get((error.name or "").split(".")[0])):
        return _say(f"error: this needs {error.name}: pip install 'tvwrl[{extra}]'", 2)
    from tvwrl.types import InputError

    if isinstance(error, InputError):
        return _say(f"error: {error}", 2)
    raise error


def _described(error: OSError) -> str:
    """`FILE: what is wrong`, without the system's number."""
    if error.strerror is None:
        return str(error)
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


def _say(text: str, code: int) -> int:
    with contextlib.suppress(OSError):  # nobody can be told
        print(text, file=sys.stderr, flush=True)
    return code


def _go_on_leaving(signals: list[int], fault: sys.UnraisableHookArgs) -> None:
    """Python drops an exception in a finaliser, also that of a signal, which is sent again for that reason."""
    if signals and isinstance(fault.exc_value, KeyboardInterrupt | SystemExit):
        threading.Timer(0.05, signal.pthread_kill, [threading.main_thread().ident, signals[-1]]).start()
    else:
        sys.__unraisablehook__(fault)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr)
