"""Traces: reading, writing and finding them; polars is only imported where a file is read or written."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
