"""Experiments: cells that are measured once and kept, and what is made of them: statistics, tables, plots, pages."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
