"""How the server's processes share a machine: what they leave of its memory, who goes first, and what they tell each
other."""

from __future__ import annotations

import ctypes
import os
import pickle
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

NICE = 10  # answers go first
MMAP_THRESHOLD = -3  # of mallopt
LARGE = 256 * 1024  # bytes of a block
PIECE = 256 * 1024  # bytes of an array that are read at a time


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


def send(pipe: Connection, content: object) -> None:
    """Send something down a pipe, for `receive`. Raises OSError if nobody reads it."""
    arrays: list[pickle.PickleBuffer] = []
    text = pickle.dumps(content, protocol=5, buffer_callback=arrays.append)
    views = [array.raw() for array in arrays]
    pipe.send_bytes(pickle.dumps((text, [len(view) for view in views])))
    for view in views:
        for begin in range(0, len(view), PIECE):
            pipe.send_bytes(view[begin : begin + PIECE])


def receive(pipe: Connection) -> Any:
    """What was sent. Arrays come in pieces: other threads can go on between them, but not while one is copied.

    Raises EOFError or OSError if the other process has ended.
    """
    text, sizes = pickle.loads(pipe.recv_bytes())
    arrays = [np.empty(size, np.uint8) for size in sizes]
    for array in arrays:
        for begin in range(0, len(array), PIECE):
            pipe.recv_bytes_into(array.data[begin : begin + PIECE])
    return pickle.loads(text, buffers=arrays)
