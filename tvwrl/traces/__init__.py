"""Traces: reading, writing and finding them; polars is only imported where a file is read or written."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [
    "SequenceSampler",
    "data_folder",
    "describe_source",
    "find_trace",
    "open_and_describe",
    "open_trace",
    "read_trace",
    "split_trace",
    "synthetic_trace",
    "trace_hash",
    "write_trace",
]
