"""Traces: reading, writing and finding them; polars is only imported where a file is read or written."""

from tvwrl.traces.canonical import read_trace, trace_hash, write_trace
from tvwrl.traces.catalogue import describe_source, find_trace, open_and_describe, open_trace

__all__ = [
    "describe_source",
    "find_trace",
    "open_and_describe",
    "open_trace",
    "read_trace",
    "trace_hash",
    "write_trace",
]
