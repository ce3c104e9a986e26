"""A fixed seed and number of threads for torch in a block."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def seeded(threads: int, seed: int) -> Iterator[None]:
    """Set torch's seed and number of threads in the block, and restore both afterwards.

    With one thread, results do not depend on the number of cores, and a busy core slows nothing else down.
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(before)
