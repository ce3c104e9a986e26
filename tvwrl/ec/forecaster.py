"""How good equivalence classes are: what a forecaster gains when it is trained per class instead of on all workloads.

The forecaster is LSTNet (Lai et al. 2018, "Modeling Long- and Short-Term Temporal Patterns with Deep Neural Networks").
Letters: n workloads, D resources, W slots of the input window, B windows in a batch, P forecasts.
Imports torch at once: import this module late.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tvwrl.types import Float, InputError, Int

Progress = Callable[[int, int], None]  # models trained so far, models in all

MIN_FORECASTS = 16  # a workload is judged by no fewer: the correlation of a handful of points is noise
MIN_WINDOW = 8  # slots; what is shorter shows no dynamics
MIN_TRAINING = 2  # workloads of a class in the training part of a fold
MIN_CORRELATION = 0.05  # least |denominator| of G: the percentage of a correlation near 0 says nothing
FLAT = 1e-6  # a standard deviation below this, relative to the largest value, is rounding


@dataclass(frozen=True)
class ForecastSettings:
    """Hyper-parameters of the forecaster; every model, of a class or of all, is trained with the same."""

    window: int = 48
    """Slots that a forecast sees (48 of 1800 s are a day); fewer if less than half of the workloads last that long."""
    horizon: int = 4
    """Slots ahead that are forecast."""
    steps: int = 300
    """Gradient steps of a model, the same for a class as for all workloads."""
    batch: int = 128
    """Windows per gradient step."""
    learning_rate: float = 1e-2
    """Largest step size of AdamW; rises and falls in one cycle."""
    filters: int = 32
    """Filters of the convolution."""
    kernel: int = 6
    """Slots that a filter spans (LSTNet: 6)."""
    stride: int = 3
    """Slots from one application of the filters to the next (LSTNet: 1); saves more than half of the time."""
    recurrent: int = 32
    """Hidden units of the GRU."""
    skip_recurrent: int = 4
    """Hidden units of the GRU that skips a day."""
    dropout: float = 0.1
    """Share of recurrent outputs dropped in training."""
    folds: int = 3
    """Parts of the workloads; each part is held out once."""
    min_class: int = 5
    """A class with fewer workloads that are long enough gets no model and has no gain."""
    max_forecasts: int = 300
    """Forecasts by which a held-out workload is judged at most, spread evenly over its life."""
    seed: int = 0
    """Seed of folds, weights and batches."""
    threads: int = 1
    """CPU threads of torch; the networks are small, and numbers may differ in the last digits with another number."""

    def __post_init__(self) -> None:
        floors = {"window": MIN_WINDOW, "folds": 2, "max_forecasts": MIN_FORECASTS, "kernel": self.stride, "seed": 0}
        for field in dataclasses.fields(self):
            value, least = getattr(self, field.name), floors.get(field.name, 1)
            if field.type == "int" and value < least:
                raise InputError(f"{field.name} is {value}: must be at least {least}")
        if not self.learning_rate > 0:
            raise InputError(f"learning_rate is {self.learning_rate}: must be > 0")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout is {self.dropout}: must be in [0, 1)")


class LSTNet(nn.Module):
    """Convolution over time, a GRU, a GRU that skips a period, a dense layer, plus a linear autoregressive part.

    Paper: one weight per lag in the autoregressive part, for all variables; inputs scaled over the whole data set.
    Here: weights per resource, as cpu and memory differ in kind; each window is standardised and the forecast scaled
    back, so that level and size of a workload, which a scheduler knows, are not what the network learns.
    """

    def __init__(self, resources: int, window: int, period: int, settings: ForecastSettings) -> None:
        super().__init__()
        kernel = min(settings.kernel, window)
        stride = min(settings.stride, kernel)
        self.skip = max(1, period // stride)  # in steps of the convolution, <= its length
        self.padding = kernel - stride
        self.convolution = nn.Conv1d(resources, settings.filters, kernel, stride=stride)
        self.recurrent = nn.GRU(settings.filters, settings.recurrent)
        self.skip_recurrent = nn.GRU(settings.filters, settings.skip_recurrent)
        self.dropout = nn.Dropout(settings.dropout)
        self.dense = nn.Linear(settings.recurrent + self.skip * settings.skip_recurrent, resources)
        self.autoregressive = nn.Parameter(torch.zeros(window, resources))
        nn.init.zeros_(self.dense.weight)  # begins with the window's mean, which is no bad forecast
        nn.init.zeros_(self.dense.bias)

    def forward(self, seen: Tensor) -> Tensor:
        """(B, D) usage `horizon` slots after the windows `seen` (B, W, D), both in the series' units."""
        mean = seen.mean(dim=1)
        scale = seen.std(dim=1, correction=0).clamp_min(1e-3)
        window = (seen - mean[:, None]) / scale[:, None]
        forecast = self.nonlinear(window) + (window * self.autoregressive).sum(dim=1)
        return mean + scale * forecast

    def nonlinear(self, window: Tensor) -> Tensor:
        """(B, D) the part of the two recurrent networks, for standardised windows (B, W, D)."""
        padded = nn.functional.pad(window.transpose(1, 2), (self.padding, 0))
        features = torch.relu(self.convolution(padded))  # (B, filters, steps)
        count, filters, steps = features.shape
        last = self.recurrent(features.permute(2, 0, 1))[1][0]
        periods = steps // self.skip
        phases = features[:, :, steps - periods * self.skip :].reshape(count, filters, periods, self.skip)
        phases = phases.permute(2, 0, 3, 1).reshape(periods, count * self.skip, filters)
        skipped = self.skip_recurrent(phases)[1][0].reshape(count, -1)
        forecast: Tensor = self.dense(self.dropout(torch.cat([last, skipped], dim=1)))
        return forecast


class Windows:
    """Series in standard units (each with mean 0 and standard deviation 1 per resource) and where their windows lie.

    Standard units weigh the errors of all workloads alike, as a correlation does. The network standardises each window
    anyhow, so that nothing of the future reaches a forecast but what "flat" means: below 1/1000 of the series' own.
    """

    def __init__(self, series: Sequence[Float], slots_per_day: int, settings: ForecastSettings) -> None:
        _check_series(series)
        if slots_per_day < 1:
            raise InputError(f"slots_per_day is {slots_per_day}: must be at least 1")
        self.length = np.array([len(one) for one in series], dtype=np.int64)  # (n,) slots
        self.first = np.cumsum(self.length) - self.length  # (n,) row of a workload's first slot
        self.horizon, self.slots_per_day = settings.horizon, slots_per_day
        room = self.length - settings.horizon - MIN_FORECASTS + 1  # (n,) longest window that leaves enough forecasts
        self.window = min(settings.window, int(np.sort(room)[len(room) // 2]))
        usable = np.flatnonzero(room >= self.window)
        if self.window < MIN_WINDOW or len(usable) < 2:
            needed = MIN_WINDOW + settings.horizon + MIN_FORECASTS - 1
            raise InputError(
                f"series are too short to judge classes: half of the {len(series)} workloads, and no fewer than 2, "
                f"must have at least {needed} slots: window {MIN_WINDOW}, horizon {settings.horizon}, "
                f"{MIN_FORECASTS} forecasts"
            )
        self.usable: Int = usable  # workloads with enough windows
        mean = np.array([one.mean(axis=0) for one in series])
        spread = np.array([one.std(axis=0) for one in series])
        self.varies = spread > FLAT * np.array([one.max(axis=0) for one in series])  # (n, D)
        scale = np.where(self.varies, spread, np.inf)
        standard = [(one - mean[i]) / scale[i] for i, one in enumerate(series)]
        self.values = torch.from_numpy(np.concatenate(standard).astype(np.float32))  # (rows, D)
        self.period = min(slots_per_day, self.window)
        if slots_per_day > self.window:
            self.period = max(part for part in range(1, self.window + 1) if slots_per_day % part == 0)

    def at(self, last: Int) -> Tensor:
        """(B, W, D) windows whose last slots are the rows `last` (B,)."""
        rows: Tensor = self.values[torch.from_numpy(last[:, None] + np.arange(1 - self.window, 1))]
        return rows

    def value(self, rows: Int) -> Float:
        """(P, D) usage at `rows`."""
        found: Float = self.values.numpy()[rows].astype(np.float64)
        return found

    def draw(self, workloads: Int, batch: int, rng: np.random.Generator) -> tuple[Int, Int]:
        """(B,) workloads, each as likely as another however long, and (B,) rows of the last slots of their windows."""
        chosen = rng.choice(workloads, batch)
        starts = self.length[chosen] - self.window - self.horizon + 1
        return chosen, self.first[chosen] + rng.integers(starts) + self.window - 1

    def judged(self, workload: int, most: int) -> Int:
        """(P,) rows of the last slots of the windows by which a workload is judged, at most `most`."""
        slots = np.arange(self.window - 1, self.length[workload] - self.horizon)
        if len(slots) > most:
            slots = slots[np.linspace(0, len(slots) - 1, most).astype(np.int64)]
        rows: Int = self.first[workload] + slots
        return rows


@dataclass(frozen=True, eq=False)
class AgnosticForecast:
    """What needs no labels: folds, and how well one model of all workloads and two plain rules forecast.

    Made once by `agnostic_forecast` and handed to `prediction_gain` for each labelling of the same workloads.
    Correlations are (n, D), NaN where there is none: see `correlations`.
    """

    settings: ForecastSettings
    windows: Windows
    fold: Int  # (n,) the fold in which a workload is held out, -1 = too short to be judged
    correlation: Float  # (n, D) of the model trained on all workloads of the other folds
    last_value: Float  # (n, D) of the forecast that usage stays what it is
    seasonal: Float  # (n, D) of the forecast that usage is that of the same slot a day before
    seconds: float


@dataclass(frozen=True)
class ClassGain:
    """What a class gains; correlations are means over held-out workloads of the class and resources, NaN if none."""

    label: int
    size: int  # workloads, |e|
    judged: int  # workloads among them that were long enough
    correlation: float  # of the class' own model
    agnostic: float  # of the model of all workloads
    gain: float  # G(e), percent; 0 where it has no model
    note: str = ""  # why it has no gain, "" if it has


@dataclass(frozen=True)
class GainReport:
    """How good a labelling is. Correlations are means over all held-out workloads and resources, NaN if none."""

    classes: tuple[ClassGain, ...]  # in rising label
    effective_gain: float  # EG, percent
    fraction: float  # f, share of workloads in classes with positive gain
    correlation: float  # of the class models; a class without one is forecast by the model of all
    agnostic: float
    last_value: float
    seasonal: float
    window: int  # slots that a forecast saw
    horizon: int  # slots
    seconds: float  # of the class models
    agnostic_seconds: float  # of the model of all, trained once for all labellings

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings and lists, for JSON; a correlation that does not exist is None."""
        content = dataclasses.asdict(self)
        content["classes"] = [_without_nan(row) for row in content["classes"]]
        return _without_nan(content)


def percentage_gain(correlation: float, agnostic: float) -> float:
    """G(e), percent: by how much the correlation of a class' own model exceeds that of the model of all workloads.

    Paper: a percentage of the agnostic correlation. Here: of at least MIN_CORRELATION, or G has no bound.
    """
    return 100.0 * (correlation - agnostic) / max(abs(agnostic), MIN_CORRELATION)


def effective_gain(gains: Sequence[float], sizes: Sequence[int]) -> float:
    """EG = 1/n * sum_e max(0, G(e)) * |e|, percent: the paper's effective prediction gain."""
    return sum(max(0.0, gain) * size for gain, size in zip(gains, sizes, strict=True)) / sum(sizes)


def gaining_fraction(gains: Sequence[float], sizes: Sequence[int]) -> float:
    """f: the share of workloads in classes with positive gain."""
    return sum(size for gain, size in zip(gains, sizes, strict=True) if gain > 0) / sum(sizes)


def correlations(actual: Float, forecast: Float) -> Float:
    """(D,) Pearson correlation over time of (P, D) usage and forecast of one workload (LSTNet's CORR).

    NaN where usage was constant, of which nothing can be forecast; 0 where only the forecast was.
    """
    actual, forecast = actual - actual.mean(axis=0), forecast - forecast.mean(axis=0)
    spread, forecast_spread = actual.std(axis=0), forecast.std(axis=0)
    product = np.where(forecast_spread > FLAT, spread * forecast_spread, np.inf)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Float = np.where(spread > FLAT, (actual * forecast).mean(axis=0) / product, np.nan)
    return found


def agnostic_forecast(
    series: Sequence[Float],
    slots_per_day: int,
    settings: ForecastSettings | None = None,
    progress: Progress | None = None,
) -> AgnosticForecast:
    """Train the model of all workloads, once per fold, and judge it and the plain rules on the workloads held out.

    `series`: n arrays (length, D) of usage without gaps, units >= 0. Raises InputError if they cannot be used.
    """
    settings = settings or ForecastSettings()
    began = time.perf_counter()
    windows = Windows(series, slots_per_day, settings)
    fold = _folds(series, windows.usable, settings)
    correlation, last_value, seasonal = (np.full(windows.varies.shape, np.nan) for _ in range(3))
    for number in range(fold.max() + 1):
        model = _train(windows, np.flatnonzero((fold >= 0) & (fold != number)), settings, number)
        held_out = np.flatnonzero(fold == number)
        correlation[held_out] = _judge(model, windows, held_out, settings)
        if progress:
            progress(number + 1, int(fold.max()) + 1)
    for i in windows.usable:
        last_value[i], seasonal[i] = _plain_rules(windows, int(i), settings)
    seconds = time.perf_counter() - began
    return AgnosticForecast(settings, windows, fold, correlation, last_value, seasonal, seconds)


def prediction_gain(
    series: Sequence[Float],
    labels: Int,
    slots_per_day: int,
    settings: ForecastSettings | None = None,
    progress: Progress | None = None,
    agnostic: AgnosticForecast | None = None,
) -> GainReport:
    """How much better usage is forecast by a model per class than by one model of all workloads, out of sample.

    `series`: n arrays (length, D) of usage without gaps, units >= 0; `labels` (n,) >= 1. Whole workloads are held out,
    each in one fold; folds depend on no label. All models have the same capacity, first weights and number of gradient
    steps. `agnostic`: what `agnostic_forecast` made of the same series and settings, to train it only once. A class
    with fewer than `min_class` workloads that are long enough has G = 0 and a note; held-out workloads of a class with
    fewer than MIN_TRAINING in the other folds count with the correlation of the model of all.
    """
    settings = settings or (agnostic.settings if agnostic else ForecastSettings())
    labels = _check_labels(labels, len(series))
    if agnostic is None:
        agnostic = agnostic_forecast(series, slots_per_day, settings)
    elif not _made_of(agnostic, Windows(series, slots_per_day, settings), settings):
        raise InputError("the agnostic forecast was made of other series or settings: make it anew")
    began = time.perf_counter()
    correlation, kinds = agnostic.correlation.copy(), np.unique(labels)
    rows = []
    for done, label in enumerate(kinds):
        members = labels == label
        if (members & (agnostic.fold >= 0)).sum() >= settings.min_class:
            correlation[members] = _class_correlations(agnostic, members)[members]
        rows.append(_class_gain(int(label), members, correlation, agnostic))
        if progress:
            progress(done + 1, len(kinds))
    return _report(rows, correlation, agnostic, time.perf_counter() - began)


def _report(rows: Sequence[ClassGain], correlation: Float, agnostic: AgnosticForecast, seconds: float) -> GainReport:
    """The rows of all classes summed up; `correlation` (n, D) of the class models."""
    gains, sizes = [row.gain for row in rows], [row.size for row in rows]
    return GainReport(
        classes=tuple(rows),
        effective_gain=effective_gain(gains, sizes),
        fraction=gaining_fraction(gains, sizes),
        correlation=_mean(correlation),
        agnostic=_mean(agnostic.correlation),
        last_value=_mean(agnostic.last_value),
        seasonal=_mean(agnostic.seasonal),
        window=agnostic.windows.window,
        horizon=agnostic.settings.horizon,
        seconds=seconds,
        agnostic_seconds=agnostic.seconds,
    )


def _class_correlations(agnostic: AgnosticForecast, members: npt.NDArray[np.bool_]) -> Float:
    """(n, D) correlations as of the agnostic forecast, those of the class `members` (n,) by models of its own."""
    correlation = agnostic.correlation.copy()
    for number in range(agnostic.fold.max() + 1):
        held_out = np.flatnonzero(members & (agnostic.fold == number))
        training = np.flatnonzero(members & (agnostic.fold >= 0) & (agnostic.fold != number))
        if len(held_out) and len(training) >= MIN_TRAINING:
            model = _train(agnostic.windows, training, agnostic.settings, number)
            correlation[held_out] = _judge(model, agnostic.windows, held_out, agnostic.settings)
    return correlation


def _class_gain(
    label: int, members: npt.NDArray[np.bool_], correlation: Float, agnostic: AgnosticForecast
) -> ClassGain:
    """The row of a class: `members` (n,), `correlation` (n, D) of the class models."""
    judged, own, of_all = (
        members & (agnostic.fold >= 0),
        _mean(correlation[members]),
        _mean(agnostic.correlation[members]),
    )
    size, count, note, gain = int(members.sum()), int(judged.sum()), "", 0.0
    if count < agnostic.settings.min_class:
        note = f"{count} of {size} workloads are long enough; a model needs {agnostic.settings.min_class}"
    elif np.isnan(own):
        note = "usage is constant"
    else:
        gain = percentage_gain(own, of_all)
    return ClassGain(label, size, count, own, of_all, gain, note)


def _folds(series: Sequence[Float], usable: Int, settings: ForecastSettings) -> Int:
    """(n,) fold of each workload, -1 = not usable: workloads of like level are spread over the folds at random."""
    rng = np.random.default_rng([settings.seed, 0])
    level = np.array([series[i].mean(axis=0) for i in usable])
    order = usable[
        level.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable").sum(axis=1).argsort(kind="stable")
    ]
    count = min(settings.folds, len(usable))
    fold = np.full(len(series), -1, np.int64)
    for start in range(0, len(order), count):
        block = order[start : start + count]
        fold[block] = rng.permutation(count)[: len(block)]
    return fold


def _train(windows: Windows, workloads: Int, settings: ForecastSettings, fold: int) -> LSTNet:
    """A model trained on `workloads`; weights and order of draws depend on the seed and the fold alone."""
    rng = np.random.default_rng([settings.seed, 1, fold])
    with _torch(settings.threads, int(rng.integers(2**31))):
        model = LSTNet(windows.values.shape[1], windows.window, windows.period, settings)
        optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate)
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, settings.learning_rate, total_steps=settings.steps)
        varies = torch.from_numpy(windows.varies)
        for _ in range(settings.steps):
            chosen, last = windows.draw(workloads, settings.batch, rng)
            actual = windows.values[torch.from_numpy(last + windows.horizon)]
            error = (model(windows.at(last)) - actual) * varies[torch.from_numpy(chosen)]
            loss = nn.functional.smooth_l1_loss(error, torch.zeros_like(error))
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            cycle.step()
    return model.eval()


def _judge(model: LSTNet, windows: Windows, workloads: Int, settings: ForecastSettings) -> Float:
    """(workloads, D) correlations of a model on workloads that it was not trained on."""
    rows = [windows.judged(int(i), settings.max_forecasts) for i in workloads]
    with _torch(settings.threads, settings.seed), torch.no_grad():
        last = np.concatenate(rows)
        parts = [model(windows.at(last[start : start + 4096])) for start in range(0, len(last), 4096)]
    forecasts = np.split(torch.cat(parts).double().numpy(), np.cumsum([len(row) for row in rows])[:-1])
    pairs = zip(rows, forecasts, strict=True)
    return np.array([correlations(windows.value(row + windows.horizon), forecast) for row, forecast in pairs])


def _plain_rules(windows: Windows, workload: int, settings: ForecastSettings) -> tuple[Float, Float]:
    """(D,) and (D,) correlations of last-value and daily-seasonal forecasts; of the latter NaN below a day."""
    last = windows.judged(workload, settings.max_forecasts)
    target = last + windows.horizon
    days = -(-windows.horizon // windows.slots_per_day)  # the last such slot that has been seen
    before = target - days * windows.slots_per_day
    seen = before >= windows.first[workload]
    seasonal = np.full(windows.values.shape[1], np.nan)
    if seen.sum() >= MIN_FORECASTS:
        seasonal = correlations(windows.value(target[seen]), windows.value(before[seen]))
    return correlations(windows.value(target), windows.value(last)), seasonal


@contextlib.contextmanager
def _torch(threads: int, seed: int) -> Iterator[None]:
    """torch with a seed and a number of threads, both as they were before once the block is left."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(before)


def _check_series(series: Sequence[Float]) -> None:
    """Refuse series that are not (length, D) with the same D, finite and >= 0."""
    if len(series) == 0:
        raise InputError("no series: a forecaster needs workloads")
    for i, one in enumerate(series):
        if one.ndim != 2 or one.shape[1:] != series[0].shape[1:] or one.size == 0:
            resources = series[0].shape[1] if series[0].ndim == 2 else "resources"
            raise InputError(f"series of workload {i} has shape {one.shape}: must be (slots, {resources}), none 0")
        bad = ~(np.isfinite(one) & (one >= 0))
        if bad.any():
            slot, resource = np.argwhere(bad)[0]
            value = one[slot, resource]
            raise InputError(
                f"workload {i}, slot {slot}, resource {resource}: usage is {value}, must be finite and >= 0"
            )


def _check_labels(labels: Int, count: int) -> Int:
    """(n,) labels as an array of integers; refuse another number of them, or one below 1."""
    checked = np.asarray(labels)
    if checked.shape != (count,):
        raise InputError(f"labels have shape {checked.shape}: must be ({count},), one per series")
    if not np.issubdtype(checked.dtype, np.integer) or (checked < 1).any():
        raise InputError("labels must be integers of at least 1")
    return checked.astype(np.int64)


def _made_of(agnostic: AgnosticForecast, windows: Windows, settings: ForecastSettings) -> bool:
    """Whether the forecast was made of these windows with these settings."""
    same = agnostic.settings == settings and agnostic.windows.slots_per_day == windows.slots_per_day
    same = same and np.array_equal(agnostic.windows.length, windows.length)
    return same and torch.equal(agnostic.windows.values, windows.values)


def _mean(found: Float) -> float:
    """Mean of the correlations that exist, NaN if none does."""
    known = found[np.isfinite(found)]
    return float(known.mean()) if len(known) else float("nan")


def _without_nan(row: dict[str, Any]) -> dict[str, Any]:
    """The same with None for NaN, which JSON does not know."""
    return {name: None if isinstance(value, float) and np.isnan(value) else value for name, value in row.items()}
