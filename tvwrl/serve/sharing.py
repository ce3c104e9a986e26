"""How the server's processes share a machine: what they leave of its memory, and who goes first."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

NICE = 10  # answers go first
MMAP_THRESHOLD = -3  # of mallopt
LARGE = 256 * 1024  # bytes of a block


def return_memory() -> None:
    """Let the C library return large blocks of memory as soon as they are freed.

    By itself glibc learns from every large block that is freed to keep the next ones: of arrays of a whole cluster,
    which are made anew at every look at the metrics, it keeps as much again as is in use. Elsewhere, do nothing.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, LARGE)


def go_last() -> None:
    """Let other processes go first."""
    if hasattr(os, "nice"):  # there is none on Windows
        os.nice(NICE)
