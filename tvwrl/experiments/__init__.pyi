from .engine import Cell as Cell, complete as complete
from .episode_rows import read_rows as read_rows
from .evaluated import Evaluation as Evaluation
from .evaluation import DEFAULT_SCHEDULERS as DEFAULT_SCHEDULERS
from .plots import plot_comparison as plot_comparison
from .tables import comparison_table as comparison_table, terminal_table as terminal_table
