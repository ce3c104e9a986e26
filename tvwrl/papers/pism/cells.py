"""What is measured for the PISM paper: schedulers on clusters, predictors of levels, classifiers of tasks, laws."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from tvwrl.experiments import Rows, RowsCell
from tvwrl.interference import (
    ANCHORS,
    CLASSES,
    DEFAULT,
    LAWS,
    QUANTILES,
    USAGE_FILE,
    WEIGHTINGS,
    Arrivals,
    BatchTasks,
    Levels,
    Observations,
    PlacementRule,
    Snapshots,
    Thresholds,
    TwoDays,
    category_of,
    draw_deployment,
    draw_response_model,
    kept_share,
    mean_levels,
    observe_days,
    read_hour,
    read_usage,
    replay_hour,
    service_weights,
    simulate,
    take_snapshots,
)
from tvwrl.papers.pism.clusters import WARM_UP, K, SimulatedCluster, first_period, learn, predictors_of, try_scheduler
from tvwrl.papers.pism.law_fitting import read_nginx
from tvwrl.papers.pism.predictors import (
    CLASSIFIERS,
    COMPOSITION,
    LINEAR,
    NGINX_PREDICTORS,
    PREDICTORS,
    TREE,
    split_jobs,
)
from tvwrl.papers.pism.trace_tables import trace_figure
from tvwrl.papers.pism.trials import (
    SchedulerTrial,
    accuracy,
    compare_ways,
    mean_and_tail,
    score_metrics,
    service_metrics,
    throughput,
)
from tvwrl.types import Float, Int


class GroupedCell(RowsCell):
    """A cell whose group is its name without the last part."""

    @property
    def group(self) -> str:
        """The folder above its own."""
        return self.name.rpartition("/")[0] or self.name


@dataclass(frozen=True)
class TraceCell(GroupedCell):
    """A figure of real traces: a row with its text, then its rows."""

    figure: str  # table1, table2 or fig8
    data: Path

    @property
    def name(self) -> str:
        return f"traces/{self.figure}"

    def measure(self) -> Rows:
        text, rows = trace_figure(self.figure, self.data)
        return [{"text": text}, *rows]


@dataclass(frozen=True)
class ClusterCell(GroupedCell):
    """One scheduler on one cluster, its score learnt in one way; a row per kind of trees that predict scores.

    A scheduler without PISM has a row for all trees, one with PISM for its own.
    """

    cluster: SimulatedCluster
    scheduler: str  # of `clusters.KINDS`, or PISM alone
    learnt: str  # how the score was learnt: a value of `clusters`, "" = no score

    @property
    def name(self) -> str:
        return f"{self.cluster.name}/{re.sub('[ ,]+', '-', self.scheduler + (self.learnt and '+' + self.learnt))}"

    def measure(self) -> Rows:
        """Scores of machines, response times of services, and throughput over that under the default scheduler."""
        cluster, predictors = self.cluster, predictors_of(self.cluster)
        (deployment, hour, _), learnt = first_period(cluster), learn(cluster)
        seen, moves = try_scheduler(cluster, self.scheduler, self.learnt)
        times = _response_ms(cluster, seen)
        about = asdict(cluster) | {"scheduler": self.scheduler, "learnt": self.learnt, "moves": moves}
        about |= {"kept": 100.0 * kept_share(hour, cluster.machines), "right": hour.percent_classified()}
        about |= service_metrics(learnt.responses, seen, times)
        about |= throughput(_default_mean_and_tail(cluster), mean_and_tail(deployment, times))
        return [
            about | {"trees": trees} | score_metrics(learnt, predictors[trees], seen, times)
            for trees in ([self.learnt] if self.learnt in predictors else predictors)
        ]


def _response_ms(cluster: SimulatedCluster, seen: Snapshots) -> Float:
    return learn(cluster).responses.response_ms(seen, np.random.default_rng([cluster.seed, 5]))


@lru_cache(maxsize=1)
def _default_mean_and_tail(cluster: SimulatedCluster) -> Float:
    seen, _ = try_scheduler(cluster, "default", "")
    return mean_and_tail(first_period(cluster).deployment, _response_ms(cluster, seen))


CHECKOUT = "checkout"
LARGEST = (2, 4, 3)  # classes of CPU, memory and makespan of the task that Figure 11 counts
MOST_LARGE = 8  # tasks that are told apart; more count as so many
SAME_CPU = 0.05  # of the median, within which batch CPU counts as the same


@dataclass(frozen=True)
class PredictionCell(RowsCell):
    """One predictor under one law and seed: rows `of` each service, of machines by weighting, and of checkout's pairs
    of observed and predicted level."""

    days: TwoDays
    law: str
    predictor: str  # of `PREDICTORS`

    @property
    def group(self) -> str:
        """The simulated days, which all laws share."""
        return f"days-{self.days.machines}-{self.days.services}-{self.days.hours}-{self.days.seed}"

    @property
    def name(self) -> str:
        return f"{self.group}/{self.law}/{self.predictor.replace(', ', '-').replace(' ', '-')}"

    def measure(self) -> Rows:
        """Learn from the first day, predict the second."""
        train, test, levels = _observed(self.days, self.law)
        observed = levels.level(test.service, test.response_ms).astype(np.float64)
        predicted = PREDICTORS[self.predictor](train, levels, test)
        rows: Rows = []
        for s in np.unique(test.service[observed > 0]):
            own = (test.service == s) & (observed > 0)
            found = accuracy(np.rint(predicted[own]), observed[own])
            rows.append({"of": "service", "service": test.services[s]} | found)
        if self.predictor == COMPOSITION and CHECKOUT in test.services:
            own = (test.service == test.services.index(CHECKOUT)) & (observed > 0)
            pairs, counts = np.unique(np.stack([observed[own], np.rint(predicted[own])]), axis=1, return_counts=True)
            for (a, b), n in zip(pairs.T, counts, strict=True):
                rows.append({"of": "pair", "observed": int(a), "predicted": int(b), "records": int(n)})
        if self.predictor in (COMPOSITION, LINEAR, TREE):
            for weighting in WEIGHTINGS:
                scores = mean_levels(test, predicted, levels, service_weights(weighting, train))
                correlation = float(np.corrcoef(*scores)[0, 1])
                rows.append({"of": "machine", "weighting": weighting, "correlation": correlation} | accuracy(*scores))
        about = {"law": self.law, "seed": self.days.seed, "predictor": self.predictor, "k": K}
        return [about | row for row in rows]


@dataclass(frozen=True)
class LargeTasksCell(PredictionCell):
    """Levels of checkout by how many tasks of the largest category run beside it, at nearly the same use of CPU."""

    predictor: str = "large-tasks"

    def measure(self) -> Rows:
        """A row for each number of such tasks: records, mean level and mean batch CPU."""
        _, test, levels = _observed(self.days, self.law)
        level = levels.level(test.service, test.response_ms).astype(np.float64)
        own = test.only((test.service == test.services.index(CHECKOUT)) & (level > 0))
        level = levels.level(own.service, own.response_ms).astype(np.float64)
        middle = np.median(own.batch_cpu)
        alike = np.abs(own.batch_cpu - middle) <= SAME_CPU * middle
        count = np.minimum(own.composition[:, int(category_of(np.array(LARGEST)))], MOST_LARGE)
        return [
            {
                "law": self.law,
                "seed": self.days.seed,
                "tasks": int(number),
                "records": int(part.sum()),
                "level": float(level[part].mean()),
                "cpu": float(own.batch_cpu[part].mean()),
            }
            for number in range(MOST_LARGE + 1)
            if (part := alike & (count == number)).any()
        ]


@lru_cache(maxsize=1)
def _observed(days: TwoDays, law: str) -> tuple[Observations, Observations, Levels]:
    """Records of the first and the second day, and the levels of the first."""
    train, test = observe_days(days, law, list(LAWS).index(law))
    return train, test, Levels.of(train, K, skip_rare=True)


@lru_cache(maxsize=1)
def _usage(data: Path) -> BatchTasks:
    return read_usage(data / USAGE_FILE)


@dataclass(frozen=True)
class ClassifierCell(GroupedCell):
    """One classifier on one split of the tasks into those that it learns from and those that arrive."""

    split: str  # "time" or "jobs"
    seed: int
    classifier: str  # of `CLASSIFIERS`
    data: Path

    @property
    def name(self) -> str:
        return f"{self.split}-{self.seed}/{re.sub('[^a-zA-Z]+', '-', self.classifier).strip('-')}"

    def measure(self) -> Rows:
        """Percent of tasks and of instances classified exactly or as a neighbouring class."""
        tasks = _usage(self.data)
        later = split_jobs(tasks, self.split, self.seed)
        known, arriving = tasks.only(~later), tasks.only(later)
        thresholds = Thresholds.from_usage(known.cpu, known.memory, known.makespan)
        predicted = CLASSIFIERS[self.classifier](thresholds, self.seed, known, arriving)
        off: Int = np.abs(predicted - thresholds.classes(arriving.cpu, arriving.memory, arriving.makespan))
        rows: Rows = []
        for of, weight in (("tasks", np.ones(len(arriving))), ("instances", arriving.instances.astype(np.float64))):
            for hit, right in (("exact", off == 0), ("neighbour", off <= 1)):
                shares = 100 * weight @ np.column_stack([right, right.all(axis=1)]) / weight.sum()
                about = {"split": self.split, "seed": self.seed, "predictor": self.classifier, "of": of, "hit": hit}
                rows.append(about | dict(zip((*CLASSES, "overall"), shares.tolist(), strict=True)))
        size = {"known_tasks": len(known), "arriving_tasks": len(arriving), "jobs": len(set(tasks.job))}
        return [row | size for row in rows]


CAMPAIGN, COMPOSED = "campaign", "composition"  # what is left out, part by part, to be predicted
PODS = 3  # kinds of pods: of CPU, cache and bandwidth


@dataclass(frozen=True)
class NginxCell(RowsCell):
    """One predictor on real runs of nginx: levels of each campaign, or beside each composition of pods, learnt from all
    others."""

    predictor: str  # of `NGINX_PREDICTORS`
    runs: Path  # ntua_nginx_ibench.csv.gz
    split: str = CAMPAIGN  # or COMPOSED

    @property
    def name(self) -> str:
        return f"nginx/{self.split}/{re.sub('[^a-z]+', '-', self.predictor).strip('-')}"

    def measure(self) -> Rows:
        """A row per part that was left out. Services with fewer than `K` runs in the others are left out of it."""
        observations, group = read_nginx(self.runs)
        if self.split == COMPOSED:
            pods = observations.composition[:, :PODS]
            group = np.array([" ".join(map(str, row)) for row in pods.tolist()], dtype=object)
        rows = []
        for one in sorted(set(group)):
            train, test = (observations.only(part) for part in (group != one, group == one))
            levels = Levels.of(train, K, skip_rare=True)
            observed = levels.level(test.service, test.response_ms)
            known = observed > 0
            if known.any():
                predicted = NGINX_PREDICTORS[self.predictor](train, levels, test)
                found = accuracy(np.rint(predicted[known]), observed[known].astype(np.float64))
                about = {"split": self.split, "part": one, "predictor": self.predictor, "runs": int(known.sum())}
                rows.append(about | found)
        return rows


ANCHOR_MACHINES, ANCHOR_SERVICES, ANCHOR_MINUTES = 40, 60, 50  # of the clusters in which anchors are measured


@dataclass(frozen=True)
class AnchorCell(RowsCell):
    """Response times of the anchored services (`laws.ANCHORS`) under every law, calibrated on another period."""

    seed: int
    data: Path | None = None  # folder of recorded batch tasks, None: synthetic ones

    @property
    def name(self) -> str:
        return f"anchors-{'recorded' if self.data else 'synthetic'}-{self.seed}"

    def measure(self) -> Rows:
        """P10, P90 and coefficient of variation of checkout and coupon under each law."""
        rng, hour = np.random.default_rng(self.seed), _hour(self.data)
        first, second = (replay_hour(hour, ANCHOR_MACHINES, ANCHOR_MINUTES, rng) for _ in range(2))
        deployment = draw_deployment(ANCHOR_MACHINES, ANCHOR_SERVICES, first, 60 * ANCHOR_MINUTES, rng)
        seconds = np.arange(60.0 * WARM_UP, 60.0 * ANCHOR_MINUTES, 60.0)
        before, after = (
            take_snapshots(simulate(deployment, one, PlacementRule(DEFAULT), rng), seconds) for one in (first, second)
        )
        rows: Rows = []
        for name, law in LAWS.items():
            draws = np.random.default_rng([self.seed, 1])
            times = draw_response_model(law, deployment, before, draws).response_ms(after, draws)
            for service in ANCHORS:
                own = times[:, deployment.rows_of(service)]
                low, high = np.quantile(own, QUANTILES).tolist()
                found = {"p10": low, "p90": high, "cv": float(own.std() / own.mean())}
                rows.append({"law": name, "seed": self.seed, "service": service} | found)
        return rows


@lru_cache(maxsize=1)
def _hour(data: Path | None) -> Arrivals:
    return read_hour(data, False, np.random.default_rng(0))


@dataclass(frozen=True)
class SchedulerCell(GroupedCell):
    """One scheduler of the time-varying simulator under one law: a row per test sequence and way to place."""

    trial: SchedulerTrial
    law: str
    scheduler: str  # registered name, or `trials.POLICY`

    @property
    def name(self) -> str:
        return f"schedulers/{self.law}-{self.trial.seed}/{self.scheduler}"

    def measure(self) -> Rows:
        """Rewards and waits, response times under the law, and how many workloads PISM places elsewhere."""
        return compare_ways(self.trial, self.law, self.scheduler)
