"""Every fault ends in one line and an exit code, at any time."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tvwrl.cli.door import EXTRAS, run
from tvwrl.types import InputError

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """The handlers of signals, and what Python does with warnings, as they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hook = sys.unraisablehook
    with warnings.catch_warnings():
        yield
    sys.unraisablehook = hook
    for number, handler in before.items():
        signal.signal(number, handler)


def raising(error: BaseException) -> Callable[[], int]:
    """Work that ends with an error."""

    def work() -> int:
        raise error

    return work


def outcome(work: Callable[[], int | None], capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    """Exit code, and what was said on stderr."""
    with pytest.raises(SystemExit) as left:
        run(work)
    return left.value.code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (InputError("gamma is 2: must be 0 to 1"), 2, "error: gamma is 2: must be 0 to 1\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (SystemExit(7), 7, ""),
        (MemoryError(), 2, "error: out of memory\n"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/a"), 2, "error: runs/a: No space left on device\n"),
        (ConnectionError("reset"), 2, "error: reset\n"),
        (ModuleNotFoundError("...", name="torch.nn"), 2, "error: this needs torch.nn: pip install 'tvwrl[train]'\n"),
    ],
)
def test_a_fault_is_one_line(error: BaseException, code: int, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert outcome(raising(error), capsys) == (code, text)


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        run(lambda: 1 // 0)


@pytest.mark.parametrize(
    ("number", "code", "text"), [(signal.SIGTERM, 143, "terminated\n"), (signal.SIGINT, 130, "interrupted\n")]
)
def test_a_signal_is_one_line_whatever_libraries_make_of_it(
    number: int, code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> int:
        try:
            signal.raise_signal(number)
        except BaseException as error:
            raise RuntimeError("failed in nopython mode pipeline") from error
        return 0

    assert outcome(work, capsys) == (code, text)


def test_a_signal_that_a_finaliser_swallows_is_sent_again(capsys: pytest.CaptureFixture[str]) -> None:
    class Swallowing:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    def work() -> int:
        del [Swallowing()][0]
        time.sleep(20)
        return 0

    assert outcome(work, capsys) == (130, "interrupted\n")


@pytest.mark.parametrize("module", ["tvwrl.cli.dispatch", "numpy"])
def test_a_signal_while_modules_load_is_one_line(module: str, tmp_path: Path) -> None:
    """The process interrupts itself in the middle of the import of a module."""
    (tmp_path / "sitecustomize.py").write_text(
        "import builtins, os, signal\n"
        "original = builtins.__import__\n"
        "def importing(name, *rest, **named):\n"
        f"    if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "    return original(name, *rest, **named)\n"
        "builtins.__import__ = importing\n"
    )
    paths = os.pathsep.join([str(tmp_path), str(ROOT)])
    command = [sys.executable, "-m", "tvwrl", "evaluate", "--trace", "nowhere"]
    done = subprocess.run(command, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "interrupted\n")


def test_a_reader_that_leaves_is_no_fault() -> None:
    command = f"{sys.executable} -m tvwrl reproduce | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_output_that_cannot_be_written_is_a_fault() -> None:
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "tvwrl"]
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: No space left on device\n")


@pytest.mark.parametrize("words", [["doctor", "--shel"], ["evaluate", "--help"]])
def test_there_are_no_colours_in_a_terminal(words: list[str]) -> None:
    ours, theirs = os.openpty()
    subprocess.run([sys.executable, "-m", "tvwrl", *words], cwd=ROOT, stdout=theirs, stderr=theirs, check=False)
    os.close(theirs)
    assert b"\x1b[" not in os.read(ours, 100_000)


def test_a_signal_after_the_work_changes_nothing() -> None:
    code = """
import os, signal, sys
from tvwrl.cli.door import main

class Late:
    def __del__(self):  # while Python puts everything away
        os.kill(os.getpid(), signal.SIGTERM)

late = Late()
sys.argv = ["tvwrl", "--version"]
main()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_letters_that_a_terminal_lacks_are_replaced() -> None:
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "COLUMNS": "60"}
    command = [sys.executable, "-m", "tvwrl", "evaluate", "--schedullers", "Ä"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"--schedulers" in done.stderr
    assert b"Traceback" not in done.stderr


def test_a_signal_while_an_error_is_reported_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    class Unsayable(InputError):
        def __str__(self) -> str:
            signal.raise_signal(signal.SIGINT)
            return "never"

    assert outcome(raising(Unsayable()), capsys) == (130, "interrupted\n")


def test_every_extra_is_named_by_what_it_brings() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(EXTRAS.values()) == declared.keys() - {"docs", "dev"}
