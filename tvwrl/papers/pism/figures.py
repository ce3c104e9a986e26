"""All figures of the PISM paper: their titles and the commands that reproduce them."""

from __future__ import annotations

from tvwrl.experiments.reproduce import commands
from tvwrl.papers.pism import (
    classifier_figures,
    cluster_figures,
    law_figures,
    nginx_figures,
    prediction_figures,
    scheduler_figures,
    trace_figures,
)

STUDIES = (
    (trace_figures.FIGURES, trace_figures.TraceStudy),
    (classifier_figures.FIGURES, classifier_figures.ClassifierStudy),
    (cluster_figures.FIGURES, cluster_figures.ClusterStudy),
    (prediction_figures.FIGURES, prediction_figures.PredictionStudy),
    (nginx_figures.FIGURES, nginx_figures.NginxStudy),
    (scheduler_figures.FIGURES, scheduler_figures.SchedulerStudy),
    (law_figures.FIGURES, law_figures.LawStudy),
)
FIGURES = {name: title for titles, _ in STUDIES for name, title in titles.items()}
COMMANDS = {
    name: command
    for titles, study in STUDIES
    for name, command in commands("pism", "PISM paper", titles, study).items()
}
