"""What all command lines share: bad input ends in one clear line and exit code 2, an interruption in 130; lists."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any

from tyro.constructors import PrimitiveConstructorSpec

from tvwrl.types import InputError


def split_list(text: str) -> list[str]:
    """Items between commas, without empty ones; a comma in brackets is part of an item, as in `Medea(1,0.5,0.5)`."""
    items, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            items.append("")
        else:
            items[-1] += letter
    return [item.strip() for item in items if item.strip()]


def _listed(kind: type) -> PrimitiveConstructorSpec[Any]:
    """Several values after one flag, with commas or spaces between them."""
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar=f"{kind.__name__.upper()},...",
        instance_from_str=lambda words: tuple(kind(item) for item in split_list(",".join(words))),
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda values: [",".join(map(str, values))],
    )


Numbers = Annotated[tuple[int, ...], _listed(int)]
Shares = Annotated[tuple[float, ...], _listed(float)]
Names = Annotated[tuple[str, ...], _listed(str)]


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
