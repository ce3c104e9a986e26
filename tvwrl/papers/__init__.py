"""The papers: published numbers, the cells that measure them again, and the figures made of both; one folder each.

`PAPERS` has a row for each figure. Nothing imports this room but the reproduce command.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module

__all__ = ["PAPERS", "command", "titles"]


@dataclass(frozen=True)
class Paper:
    """A paper's name, what its commands begin with, and its figures: name -> study in its `figures` module, title.

    The figure `all` stands for all others in one folder.
    """

    name: str
    prefix: str
    figures: Mapping[str, tuple[str, str]]

    @property
    def titles(self) -> dict[str, str]:
        """Figure -> title."""
        return {figure: title for figure, (_, title) in self.figures.items() if figure != "all"}

    def command(self, figure: str) -> str:
        """Of a figure."""
        return f"{self.prefix}-{figure}".lstrip("-")


TVW_RL = Paper("TVW-RL paper", "", {
    "fig4": ("TvwRlStudy", "Figure 4: operational excellence, Google"),
    "fig5": ("TvwRlStudy", "Figure 5: operational excellence, Alibaba"),
    "table2-noise": ("TvwRlStudy", "Table 2, robustness against noise (Google, load 0.5)"),
    "table2-clustering": ("TvwRlStudy", "Table 2, variation of clustering (Google, load 0.5)"),
    "table3-ku": ("TvwRlStudy", "Table 3: effect of K_u (Alibaba, load 0.5)"),
    "sensitivity-ko": ("TvwRlStudy", "Sensitivity to K_o, the penalty of overshoot (load 0.5)"),
    "sensitivity-kc": ("TvwRlStudy", "Sensitivity to K_c, the penalty of contention (load 0.5)"),
    "sensitivity-kw": ("TvwRlStudy", "Sensitivity to K_w, the penalty of waiting, in calm and in bursts (load 0.5)"),
    "table1": (
        "Table1Study", "Table 1: classes by aggregate features, temporal features and DTW (minutes per trace)"
    ),
    "classes": (
        "ClassesStudy", "additional: do classes help agents and forecasts? None, random, predicted and true ones"
    ),
    "all": (
        "TvwRlStudy", "TVW-RL paper, all figures and tables in one folder; trainings that several need are made once. "
        "Preset smoke leaves table1 out, and classes is always left out."
    ),
})  # fmt: skip
LRASCHED = Paper("LRASched paper", "lrasched", {
    "table2": ("LearningStudy", "Table 2, accuracy and latency of predictions"),
    "fig2": ("LearningStudy", "Figure 2, performance by degree of collocation (simulated)"),
    "fig5": ("LearningStudy", "Figure 5, accuracy as applications arrive (simulated)"),
    "fig6": ("TestbedStudy", "Figure 6, utilisation of the testbed over time (simulated)"),
    "fig7": ("TestbedStudy", "Figure 7, 99th percentile of response time by service (simulated)"),
    "fig8": ("PlacementStudy", "Figure 8, applications that are placed (simulated)"),
    "fig9": ("PlacementStudy", "Figure 9, utilisation of the cluster (simulated)"),
    "fig10": ("PlacementStudy", "Figure 10, machines used when more are added (simulated)"),
    "gap": ("GapStudy", "Gap of the heuristics to the optimum, on small batches (simulated)"),
    "fig11": ("PlanningTimeStudy", "Figure 11, latency by cluster size, 3 dimensions (simulated)"),
    "fig12": ("PlanningTimeStudy", "Figure 12, latency by cluster size, 6 dimensions (simulated)"),
})  # fmt: skip
PROVISIONING = Paper("Provisioning paper", "provisioning", {
    "fig3": ("ProvisioningStudy", "Figure 3: all algorithms, fixed demand, densities together"),
    "fig4": ("ProvisioningStudy", "Figure 4: affinity densities, fixed demand"),
    "fig5": ("ProvisioningStudy", "Figure 5: numbers of applications, fixed demand"),
    "fig6": ("ProvisioningStudy", "Figure 6: affinity densities, demand at 98 times"),
    "fig7": ("ProvisioningStudy", "Figure 7: numbers of applications, demand at 98 times"),
    "all": (
        "ProvisioningStudy", "All figures of the provisioning paper in one folder; every instance is planned once."
    ),
})  # fmt: skip
PISM = Paper("PISM paper", "pism", {
    "table1": ("TraceStudy", "Table 1, how much batch work arrives and how long it runs"),
    "table2": ("TraceStudy", "Table 2, how often graphs of jobs recur"),
    "fig8": ("TraceStudy", "Figure 8, usage of batch tasks and thresholds between its classes"),
    "fig10": ("ClassifierStudy", "Figure 10, accuracy of the task classifier by task and by instance"),
    "fig11": ("PredictionStudy", "Figure 11, level of checkout by the number of large tasks beside it"),
    "fig12": ("ClusterStudy", "Figure 12, interference scores of machines with and without PISM"),
    "table3": ("ClusterStudy", "Table 3, throughput of services"),
    "fig13": ("ClusterStudy", "Figure 13, schedulers with and without PISM"),
    "fig14": ("ClusterStudy", "Figure 14, mean response times of two services on 14 machines"),
    "fig15": ("ClusterStudy", "Figure 15, response times of two services on 14 machines"),
    "table4": ("PredictionStudy", "Table 4, BUSY and IDLE of checkout"),
    "fig16": ("PredictionStudy", "Figure 16, predicted by observed level of checkout"),
    "fig17": ("PredictionStudy", "Figure 17, levels of all services within 2"),
    "fig18": ("PredictionStudy", "Figure 18, scores of machines by weighting"),
    "nginx": ("NginxStudy", "additional: levels of real runs of nginx under interference"),
    "schedulers": (
        "SchedulerStudy", "additional: schedulers of the time-varying simulator with and without PISM"
    ),
    "laws": (
        "LawStudy", "additional: the laws of the simulation fitted to measured response times, at published anchors"
    ),
})  # fmt: skip
ALADDIN = Paper("Aladdin+H paper", "aladdin", {
    "fig10": ("SizeStudy", "Figure 10, violations, machines used and resource efficiency by cluster size"),
    "fig11": ("SizeStudy", "Figure 11, latency, runtime and migrations by cluster size"),
    "repack": ("RepackStudy", "what moving placed replicas is worth, by how full the cluster is"),
})  # fmt: skip
PAPERS = {"tvw_rl": TVW_RL, "lrasched": LRASCHED, "provisioning": PROVISIONING, "pism": PISM, "aladdin": ALADDIN}


def titles() -> dict[str, dict[str, str]]:
    """List the figures of all papers; imports none of them.

    Returns
    -------
    dict
        Paper -> name of a figure's command -> its title.

    Examples
    --------
    >>> titles()["Aladdin+H paper"]["aladdin-fig10"]
    'Figure 10, violations, machines used and resource efficiency by cluster size'
    """
    return {
        paper.name: {
            paper.command(figure): "all of them in one folder" if figure == "all" else title
            for figure, (_, title) in paper.figures.items()
        }
        for paper in PAPERS.values()
    }


@cache
def command(name: str) -> type:
    """Find what measures and draws a figure; imports the figures of one paper.

    Parameters
    ----------
    name : str
        Of the figure's command, as in `titles`.

    Returns
    -------
    type
        A dataclass with the options of the command, and a method `run`.

    Examples
    --------
    >>> command("aladdin-fig10")().preset
    'paper'
    """
    from tvwrl.experiments import commands

    folder, paper, figure = next(
        (folder, paper, figure)
        for folder, paper in PAPERS.items()
        for figure in paper.figures
        if paper.command(figure) == name
    )
    study, title = paper.figures[figure]
    made: type = getattr(import_module(f"tvwrl.papers.{folder}.figures"), study)
    if figure == "all":
        return commands(paper.prefix, paper.name, paper.titles, made, title)[name]
    return commands(paper.prefix, paper.name, {figure: title}, made)[name]
