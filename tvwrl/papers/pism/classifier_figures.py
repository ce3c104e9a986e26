"""Figure 10, on real tasks: how often the category of a batch task is predicted right when it arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tvwrl.command_line import Numbers
from tvwrl.experiments.engine import Rows, read_rows
from tvwrl.experiments.plots import plot_lines
from tvwrl.experiments.reproduce import Report, check_seeds
from tvwrl.experiments.statistics import interval_name, mean_with_range
from tvwrl.interference.batch_tasks import USAGE_FILE
from tvwrl.interference.categories import CLASSES
from tvwrl.markdown import markdown_table
from tvwrl.papers.pism import published
from tvwrl.papers.pism.cells import ClassifierCell
from tvwrl.papers.pism.classifiers import classifiers_of
from tvwrl.papers.pism.options import folder_with
from tvwrl.papers.pism.rows import column, select

FIGURES = {"fig10": "Figure 10, accuracy of the task classifier by task and by instance"}
COLUMNS = (*CLASSES, "overall")
TITLES = {"exact": "in the right class", "neighbour": "in the right or a neighbouring class"}


@dataclass(frozen=True)
class ClassifierStudy:
    """Categories of tasks of measured usage, learnt from earlier tasks and predicted for later ones."""

    data: Path | None = None
    """Folder with ali18_usage_tasks.csv.gz."""
    seeds: Numbers = (0, 1, 2)
    """Seeds of the random split by jobs; one fit per seed."""

    partial = False

    def cells(self, figure: str) -> list[ClassifierCell]:
        """Every classifier on the split by time, and on a split by jobs per seed."""
        check_seeds(self.seeds)
        data = folder_with(self.data, USAGE_FILE)
        splits = (("time", 0), *(("jobs", seed) for seed in self.seeds))
        return [ClassifierCell(split, seed, name, data) for split, seed in splits for name in classifiers_of(split)]

    def report(self, figure: str, out: Path, cells: Sequence[ClassifierCell]) -> Report:
        """Tables by task and by instance, and a plot of the split by jobs."""
        rows = read_rows(out, cells)
        one, seeds = rows[0], len(self.seeds)
        text = (
            f"# {FIGURES[figure]} (real)\n\n{one['known_tasks'] + one['arriving_tasks']:,} tasks of {one['jobs']:,} "
            "jobs of Alibaba's trace; percent of tasks or instances in the predicted class, overall: in all three "
            "dimensions. By time: learnt from jobs submitted in the earlier six sevenths of the span, one split. By "
            f"jobs: a seventh of them drawn, {seeds} seeds [{interval_name(seeds)}]. Thresholds are those of the tasks "
            "learnt from: the paper gives only two of its nine, for other tasks, so its numbers serve for orientation "
            f"only.\n\n{_tables(rows)}"
        )
        return Report(text, rows, {"plot": lambda file: _plot(rows, file)})


def _plot(rows: Rows, file: Path) -> None:
    lines = {}
    for name in classifiers_of("jobs"):
        own = select(rows, split="jobs", predictor=name, of="instances", hit="exact")
        lines[name] = np.array([column(own, field) for field in COLUMNS])
    plot_lines(file, COLUMNS, lines, "", "% of instances in the predicted class (real)", joined=False)


def _tables(rows: Rows) -> str:
    parts = []
    for hit, title in TITLES.items():
        for of in ("tasks", "instances"):
            body = [["paper, instances of one day", *published.CLASSIFIER[hit]]] if of == "instances" else []
            for split in ("time", "jobs"):
                for name in classifiers_of(split):
                    own = select(rows, split=split, predictor=name, of=of, hit=hit)
                    cells = [mean_with_range(column(own, field)) for field in COLUMNS]
                    body.append([f"{name}, by {split}", *cells])
            parts.append(f"## % of {of} {title}\n\n" + markdown_table((f"of {of}", *COLUMNS), body))
    return "\n\n".join(parts)
