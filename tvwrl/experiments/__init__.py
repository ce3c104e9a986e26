"""Experiments: cells that are measured once and kept, and what is made of them: statistics, tables, plots, pages."""

import lazy_loader

__getattr__, __dir__, _ = lazy_loader.attach_stub(__name__, __file__)
__all__ = [
    "DEFAULT_SCHEDULERS",
    "Cell",
    "Evaluation",
    "comparison_table",
    "complete",
    "plot_comparison",
    "read_rows",
    "terminal_table",
]
