"""What all command lines share: bad input ends in one clear line and exit code 2, an interruption in 130."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import warnings
from collections.abc import Callable

from tvwrl.types import InputError


def run(main: Callable[[], int | None]) -> None:
    """Call `main` and leave the process with its exit code."""
    warnings.showwarning = _show_warning
    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, _leave)
    try:
        code = main() or 0
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = 130
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:  # no such folder, no permission, disk full
        print(f"error: {error}", file=sys.stderr)
        code = 2
    sys.exit(code)


def _leave(number: int, frame: object) -> None:
    """End through `finally` blocks, so that nothing half-written stays."""
    sys.exit(128 + number)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    print(f"warning: {message}", file=sys.stderr)
