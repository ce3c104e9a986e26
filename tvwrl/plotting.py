"""What all pictures share: colours, a figure that needs no display, and axes without clutter."""

from __future__ import annotations

from typing import Any

# Okabe and Ito (2008): told apart with every common colour blindness; yellow is left out, too pale on white.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#7F7F7F")
DPI = 150


def new_figure(width: float, height: float, **layout: Any) -> Any:
    """A matplotlib figure of this size in inches that needs no display; `layout`: its constrained layout's paddings."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    figure = Figure(figsize=(width, height), layout=ConstrainedLayoutEngine(**layout))
    FigureCanvasAgg(figure)
    return figure


def tidy(axis: Any, grid: str = "both") -> None:
    """A faint grid behind the data, along `grid` (x, y or both), and no frame above and to the right."""
    axis.grid(axis=grid, color="#DDDDDD", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
