"""How well levels of services and scores of machines are predicted: Table 4, Figures 16 to 18, levels (simulated)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from tvwrl.bench.figures import write_figure
from tvwrl.command_line import Names, Numbers
from tvwrl.experiments.plots import plot_lines
from tvwrl.experiments.statistics import interval_name, paired_bootstrap
from tvwrl.experiments.statistics import mean_with_range as told
from tvwrl.interference.accuracy import accuracy
from tvwrl.interference.levels import Levels
from tvwrl.interference.observations import Observations
from tvwrl.interference.predictor import LevelPredictor, MiddleLevel, Predictor, UtilisationPredictor, UtilisationTree
from tvwrl.interference.score import mean_levels
from tvwrl.interference.testbed.laws import LAWS
from tvwrl.interference.testbed.two_days import TwoDays, observe_days
from tvwrl.interference.weights import WEIGHTINGS, service_weights
from tvwrl.markdown import markdown_table
from tvwrl.types import Float, InputError

K, OTHERS = 10, (2, 5, 20)  # levels: the paper's, and what `levels` compares them with
COMPOSITION, COUNTS, CLASSES, LINEAR, TREE, MIDDLE = (
    "composition",
    "composition, counts alone",
    "composition, classes",
    "utilisation, linear",
    "utilisation, tree",
    "always the middle",
)
PREDICTORS: dict[str, Callable[[], Predictor]] = {
    COMPOSITION: LevelPredictor,
    COUNTS: lambda: LevelPredictor(counts_alone=True),
    CLASSES: lambda: LevelPredictor(classify=True),
    LINEAR: UtilisationPredictor,
    TREE: UtilisationTree,
    MIDDLE: MiddleLevel,
}
PUBLISHED = {COMPOSITION: 75.2, LINEAR: 58.3}  # percent within 2 levels, mean of 150 services (Figure 17)
PUBLISHED_CHECKOUT = {"within": 87.2, "read_as_low": 0.04, "read_as_high": 0.006}  # percent (6.3.1)
CHECKOUT = "checkout"
NAMES = {
    "table4": "Table 4, BUSY and IDLE of checkout",
    "fig16": "Figure 16, predicted by observed level of checkout",
    "fig17": "Figure 17, levels of all services within 2",
    "fig18": "Figure 18, scores of machines by weighting",
    "levels": "k = 2, 5, 10, 20 levels, which the paper has no figure of",
}


@dataclass(frozen=True)
class PredictionSettings:
    """How well interference is predicted: one simulated day to learn from, the next to predict."""

    seeds: Numbers = (0, 1, 2)
    """Of sites, arrivals and noise; means and intervals are over them."""
    laws: Names = tuple(LAWS)
    """How batch work slows services; control: by its total CPU alone."""
    data: Path | None = None
    """Folder with spar_sample_tasks.csv.gz and ali18_usage_tasks.csv.gz; default: made-up batch tasks."""
    machines: int = 40
    """Simulated machines."""
    services: int = 150
    """Simulated services, 20 instances on a machine."""
    hours: int = 24
    """Length of a day."""
    truth: bool = False
    """The scorer is told true categories instead of classified ones."""
    report_seconds: int = 300
    """Between two records of a service instance."""

    def check(self) -> None:
        """Raise InputError for values out of range."""
        if not self.seeds or min(self.seeds) < 0 or len(set(self.seeds)) != len(self.seeds):
            raise InputError(f"seeds is {', '.join(map(str, self.seeds))}: must be different numbers >= 0")
        if unknown := [law for law in self.laws if law not in LAWS]:
            raise InputError(f"unknown law '{unknown[0]}'; valid: {', '.join(LAWS)}")
        if not self.laws:
            raise InputError("the list of laws is empty")
        self.days(0)

    def days(self, seed: int) -> TwoDays:
        """The simulation of a seed."""
        size = (self.machines, self.services, self.hours)
        return TwoDays(seed, self.data, *size, self.truth, self.report_seconds)

    def reproduce(self, name: str, out: Path) -> str:
        """Markdown of one of `NAMES`, which is written to a folder of that name in `out` too."""
        self.check()
        make = {"table4": _table4, "fig16": _fig16, "fig17": _fig17, "fig18": _fig18, "levels": _levels}[name]
        text, rows, plots = make(self, judge(self))
        write_figure(out / name, text, rows, plots, asdict(self))
        return text


Rows = list[dict[str, Any]]
Made = tuple[str, Rows, dict[str, Callable[[Path], None]]]


@lru_cache(maxsize=2)
def judge(settings: PredictionSettings) -> Rows:
    """Rows of every trial: `of` a service, all services, a machine, or checkout's pairs of levels."""
    rows: Rows = []
    for seed in tqdm(settings.seeds, desc="simulating and predicting", disable=None, leave=False):
        for law in settings.laws:
            train, test = observe_days(settings.days(seed), law, list(LAWS).index(law))
            about = {"law": law, "seed": seed}
            rows += [about | row for row in _judge(train, test)]
    return rows


def _judge(train: Observations, test: Observations) -> Rows:
    rows: Rows = []
    levels = Levels.of(train, K, skip_rare=True)
    observed = levels.level(test.service, test.response_ms).astype(np.float64)
    for name, make in PREDICTORS.items():
        guess = make().fit(train, levels).predict(test)
        for s in np.unique(test.service[observed > 0]):
            own = (test.service == s) & (observed > 0)
            found = accuracy(np.rint(guess[own]), observed[own], K)
            rows.append({"of": "service", "service": test.services[s], "predictor": name, "k": K} | found)
        rows.append(_all(guess, observed, name, K))
        if name == COMPOSITION:
            rows += _pairs(test, guess, observed)
        if name in (COMPOSITION, LINEAR, TREE):
            rows += _machines(train, test, levels, guess, name)
    for k in OTHERS:
        levels = Levels.of(train, k, skip_rare=True)
        observed = levels.level(test.service, test.response_ms).astype(np.float64)
        for name in (COMPOSITION, TREE, MIDDLE):
            rows.append(_all(PREDICTORS[name]().fit(train, levels).predict(test), observed, name, k))
    return rows


def _all(guess: Float, observed: Float, name: str, k: int) -> dict[str, Any]:
    """Accuracy over the records of all services together."""
    known = observed > 0
    return {"of": "all", "predictor": name, "k": k} | accuracy(np.rint(guess[known]), observed[known], k)


def _machines(train: Observations, test: Observations, levels: Levels, guess: Float, name: str) -> Rows:
    """Scores of machines by weighting. BUSY: above 5.5."""
    rows = []
    for weighting in WEIGHTINGS:
        predicted, observed = mean_levels(test, guess, levels, service_weights(weighting, train))
        found = accuracy(predicted, observed, K)
        correlation = float(np.corrcoef(predicted, observed)[0, 1])
        rows.append({"of": "machine", "weighting": weighting, "predictor": name, "correlation": correlation} | found)
    return rows


def _pairs(test: Observations, guess: Float, observed: Float) -> Rows:
    """How often checkout's level a was predicted as b."""
    if CHECKOUT not in test.services:
        return []
    own = (test.service == test.services.index(CHECKOUT)) & (observed > 0)
    pairs, counts = np.unique(np.stack([observed[own], np.rint(guess[own])]), axis=1, return_counts=True)
    return [
        {"of": "pair", "observed": int(a), "predicted": int(b), "records": int(n)}
        for (a, b), n in zip(pairs.T, counts, strict=True)
    ]


def _pick(rows: Rows, **what: Any) -> Rows:
    return [row for row in rows if all(row.get(field) == value for field, value in what.items())]


def _by_seed(rows: Rows, field: str, settings: PredictionSettings) -> Float:
    """(seeds,) means of a field; NaN where no row has a number."""
    found = []
    for seed in settings.seeds:
        values = np.array([row[field] for row in rows if row["seed"] == seed], dtype=np.float64)
        found.append(values[~np.isnan(values)].mean() if (~np.isnan(values)).any() else np.nan)
    return np.array(found)


def _setting(settings: PredictionSettings) -> str:
    tasks = "made-up tasks" if settings.data is None else "an hour of Alibaba v2018's tasks"
    known = "known" if settings.data is None or settings.truth else "as the classifier takes them for"
    return (
        f"Simulated: {settings.machines} machines, {settings.services} services, {settings.hours} h to learn from and "
        f"the next {settings.hours} h to predict, a record per service instance every {settings.report_seconds} s; "
        f"batch work replays {tasks}, in categories {known}. Means over {len(settings.seeds)} seeds "
        f"[{interval_name(len(settings.seeds))}]; percent. No predictor sees the law that made the response times."
    )


def _table4(settings: PredictionSettings, rows: Rows) -> Made:
    fields = ("precision", "recall", "f1")
    own = _pick(rows, of="service", service=CHECKOUT)
    body = []
    for law in settings.laws:
        for name in (COMPOSITION, LINEAR, TREE):
            part = _pick(own, law=law, predictor=name)
            cells = [told(_by_seed(part, f"{half}_{field}", settings)) for half in ("busy", "idle") for field in fields]
            severe = [told(_by_seed(part, field, settings), 2) for field in ("read_as_low", "read_as_high")]
            body.append([f"{law}: {name}", *cells, *severe])
    paper = ["paper (its cluster)", "", "", "> 90", "", "", "> 90", "0.04", "0.006"]
    head = ("law: predictor (simulated)", *(f"{half} {field}" for half in ("BUSY", "IDLE") for field in fields),
            "high read as low", "low as high")  # fmt: skip
    text = (
        f"# Table 4: BUSY and IDLE of checkout (simulated)\n\n{_setting(settings)} The text of the paper gives no "
        f"precision and recall.\n\n{markdown_table(head, [paper, *body])}\n"
    )
    return text, own, {}


def _fig16(settings: PredictionSettings, rows: Rows) -> Made:
    pairs, own = _pick(rows, of="pair"), _pick(rows, of="service", service=CHECKOUT, predictor=COMPOSITION)
    body = []
    for law in settings.laws:
        values = [told(_by_seed(_pick(own, law=law), field, settings), 2) for field in PUBLISHED_CHECKOUT]
        body.append([law, *values])
    paper = ["paper (its cluster)", *(f"{value:g}" for value in PUBLISHED_CHECKOUT.values())]
    head = ("law (simulated)", "within 2", "high read as low", "low read as high")
    parts = [f"# Figure 16: predicted level of checkout (simulated)\n\n{_setting(settings)}\n"]
    parts.append(markdown_table(head, [paper, *body]) + "\n")
    for law in settings.laws:
        grid = np.zeros((K, K))
        for row in _pick(pairs, law=law):
            grid[row["observed"] - 1, row["predicted"] - 1] += row["records"]
        share = 100 * grid / np.maximum(grid.sum(axis=1, keepdims=True), 1)
        cells = [[str(level + 1), *(f"{value:.0f}" for value in share[level])] for level in range(K)]
        parts.append(
            f"Law {law}: percent of records of an observed level, by predicted level.\n\n"
            + markdown_table(("observed (simulated)", *(str(level + 1) for level in range(K))), cells) + "\n"
        )  # fmt: skip
    return "\n".join(parts), pairs + own, {}


def _fig17(settings: PredictionSettings, rows: Rows) -> Made:
    own = _pick(rows, of="service")
    body, lines = [], {}
    for name in PREDICTORS:
        shares = [_by_seed(_pick(own, law=law, predictor=name), "within", settings) for law in settings.laws]
        lines[name] = np.array(shares)
        body.append([name, f"{PUBLISHED[name]:g}" if name in PUBLISHED else "", *(told(row) for row in shares)])
    note = []
    for i, law in enumerate(settings.laws):
        pair = [paired_bootstrap(lines[COMPOSITION][i], lines[name][i]) for name in (LINEAR, TREE)]
        gaps = [f"{d:+.1f} [{low:+.1f}, {high:+.1f}]" for d, low, high in pair]
        note.append(f"{law} {gaps[0]} to {LINEAR}, {gaps[1]} to {TREE}")
    head = ("predictor (simulated)", "paper", *settings.laws)
    text = (
        f"# Figure 17: services' levels predicted within 2 (simulated)\n\n{_setting(settings)} Each service counts "
        f"alike; the paper's figures are of 150 services of its cluster.\n\n{markdown_table(head, body)}\n\n"
        f"Composition less utilisation, paired by seed: {'; '.join(note)}. Under the control law there is nothing "
        "in the composition that the CPU does not tell.\n"
    )
    label = "records within 2 levels, % (simulated)"
    return text, own, {"plot": lambda f: plot_lines(f, settings.laws, lines, "law", label, joined=False)}


def _fig18(settings: PredictionSettings, rows: Rows) -> Made:
    own = _pick(rows, of="machine")
    fields = ("within", "busy_precision", "busy_recall", "busy_f1", "read_as_low")
    body, lines = [], {}
    for law in settings.laws:
        for weighting in WEIGHTINGS:
            for name in (COMPOSITION, TREE):
                part = _pick(own, law=law, weighting=weighting, predictor=name)
                cells = [told(_by_seed(part, field, settings)) for field in fields]
                body.append([f"{law}: {weighting}, {name}", *cells, told(_by_seed(part, "correlation", settings), 3)])
    for weighting in WEIGHTINGS:
        chosen = [_pick(own, law=law, weighting=weighting, predictor=COMPOSITION) for law in settings.laws]
        lines[weighting] = np.array([_by_seed(part, "correlation", settings) for part in chosen])
    head = ("law: weighting, predictor (simulated)", "within 2", "BUSY precision", "BUSY recall", "BUSY F1",
            "high read as low", "correlation")  # fmt: skip
    text = (
        f"# Figure 18: scores of machines by weighting (simulated)\n\n{_setting(settings)} A machine's score is the "
        "weighted mean of its services' levels; BUSY: above 5.5. Paper, by plots alone: Corr predicts best, Fair and "
        f"CPU-Quota are nearly the same.\n\n{markdown_table(head, body)}\n"
    )
    label = "correlation of predicted and observed score (simulated)"
    return text, own, {"plot": lambda f: plot_lines(f, settings.laws, lines, "law", label, joined=False)}


def _levels(settings: PredictionSettings, rows: Rows) -> Made:
    own = _pick(rows, of="all")
    body = []
    for law in settings.laws:
        for k in sorted((K, *OTHERS)):
            part = [_pick(own, law=law, k=k, predictor=name) for name in (COMPOSITION, TREE, MIDDLE)]
            cells = [told(_by_seed(one, field, settings)) for field in ("exact", "within") for one in part]
            body.append([f"{law}: {k}", *cells, told(_by_seed(part[0], "busy_f1", settings))])
    columns = [f"{what}, {name}" for what in ("exact", "near") for name in (COMPOSITION, TREE, MIDDLE)]
    head = ("law: k (simulated)", *columns, "BUSY F1, composition")
    text = (
        f"# Numbers of levels (simulated)\n\n{_setting(settings)} Near: an error of at most k / 5 levels, 2 of 10. "
        "Paper: k = 2 is accurate but of little use to a scheduler, k = 10 was chosen.\n\n"
        f"{markdown_table(head, body)}\n"
    )
    return text, own, {}
