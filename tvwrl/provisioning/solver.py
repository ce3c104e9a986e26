"""HiGHS, through scipy, without what it prints."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any


def run_milp(cost: Any, **settings: Any) -> Any:
    """`scipy.optimize.milp`; HiGHS writes lines of debugging to standard output past Python, which are dropped."""
    from scipy.optimize import milp

    with _silent():
        return milp(cost, **settings)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Send what C code writes to standard output nowhere."""
    sys.stdout.flush()
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
