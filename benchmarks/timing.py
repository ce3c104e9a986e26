"""How long a call takes on a machine that others use too."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def least_seconds(call: Callable[[], Any], repeats: int) -> float:
    """Processor time of the quickest of `repeats` >= 1 calls: what else runs can only add to it."""
    took = []
    for _ in range(repeats):
        begun = time.process_time()
        call()
        took.append(time.process_time() - begun)
    return min(took)
