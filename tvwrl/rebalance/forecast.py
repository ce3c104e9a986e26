"""What pods will use over the next day: what they, and others of their owner, used on the days before.

Each past day is one way in which the next may go, from the same time of day on. So what rises together is seen to rise
together, which forecasts of single pods do not say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvwrl.rebalance.cluster_state import ClusterState
from tvwrl.rebalance.from_record import plain_name
from tvwrl.types import Float32, InputError, Int
from tvwrl.what_if import Recorded

DAY, HOUR = 86400, 3600  # seconds


@dataclass(frozen=True, eq=False)
class Forecast:
    """What each of N pods may use over the next day, in Y ways of P steps each.

    Parameters
    ----------
    use : Float32
        (N, Y, P, D) cores and GiB, >= 0; NaN nowhere.
    step_seconds : int
        Length of a step.
    seen : Int
        (N,) steps in which the pod itself was seen; 0: all is taken from others of its owner, or from its request.

    Examples
    --------
    >>> foresee(recorded, state).use.mean(axis=(1, 2))  # doctest: +SKIP
    """

    use: Float32
    step_seconds: int
    seen: Int

    @property
    def days(self) -> int:
        """Y."""
        return int(self.use.shape[1])

    def in_steps(self, seconds: int) -> Float32:
        """The largest use in longer steps.

        Parameters
        ----------
        seconds : int
            Their length; what does not divide a day leaves a shorter last one.

        Returns
        -------
        Float32
            (N, Y, P', D)
        """
        ratio = max(seconds // self.step_seconds, 1)
        cuts = np.arange(0, self.use.shape[2], ratio)
        found: Float32 = np.maximum.reduceat(self.use, cuts, axis=2)
        return found

    def at_moments(self, seconds: int) -> Float32:
        """The largest use in longer steps, those of all days one after another.

        Parameters
        ----------
        seconds : int
            Their length, as of `in_steps`.

        Returns
        -------
        Float32
            (N, Y * P', D)

        Examples
        --------
        >>> forecast.at_moments(1800).shape  # doctest: +SKIP
        (674, 336, 2)
        """
        found = self.in_steps(seconds)
        return found.reshape(len(found), found.shape[1] * found.shape[2], found.shape[3])


def foresee(recorded: Recorded, state: ClusterState, longest: int = 7) -> Forecast:
    """Forecast the next day from the days before.

    A pod that did not run at some moment of the past is taken to have used what the others of its owner used then, at
    its own level: times its mean use by theirs, where both were seen; a pod seen for less than an hour is mostly taken
    to be like the others. An owner of which nothing was seen at that moment counts as at its mean over all others; a
    pod without any record, as its request, or as the median pod if it requests less.

    Parameters
    ----------
    recorded : Recorded
        The past, up to the moment at which the cluster was seen.
    state : ClusterState
        The pods, of which those in the record are found by their names.
    longest : int
        Days to look back at most, >= 1.

    Returns
    -------
    Forecast
        In the steps of the record.

    Raises
    ------
    InputError
        A record of less than a day: it does not show how usage changes over the day.

    Examples
    --------
    >>> foresee(recorded, state).days  # doctest: +SKIP
    7
    """
    steps = DAY // recorded.interval
    if recorded.slots < steps:
        hours = recorded.slots * recorded.interval / 3600
        raise InputError(f"{recorded.source}: {hours:.1f} hours of usage: a forecast of the next day needs 24 or more")
    days = min(recorded.slots // steps, longest)
    begin = recorded.slots - days * steps
    used, unit = np.full((len(state), days * steps, 2), np.nan, np.float32), recorded.reference
    row = {name: i for i, name in enumerate(state.pod)}
    owners: dict[str, int] = {}
    owner = np.array([owners.setdefault(name, len(owners)) if name else -1 for name in state.owner], np.int64)
    total = np.zeros((len(owners), days * steps, 2), np.float32)
    count = np.zeros((len(owners), days * steps), np.float32)
    for name, of, start, series in zip(recorded.pod, recorded.owner, recorded.start, recorded.usage, strict=True):
        first, last = max(int(start) - begin, 0), int(start) + len(series) - begin
        if last <= 0:
            continue
        own = series[max(begin - int(start), 0) :] * unit
        if (i := row.get(name, row.get(plain_name(name), -1))) >= 0:
            used[i, first:last] = own
        if (o := owners.get(of, -1)) >= 0:
            total[o, first:last] += own
            count[o, first:last] += 1
    seen = np.isfinite(used[..., 0]).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        course = total / count[..., None]
    for o in range(len(owners)):
        known = count[o] > 0
        course[o] = np.where(known[:, None], course[o], course[o, known].mean(axis=0) if known.any() else np.nan)
    means = np.nansum(used[seen > 0], axis=1) / seen[seen > 0, None]
    typical = np.median(means, axis=0) if len(means) else np.zeros(2)  # of a pod of which nothing is known
    for i in np.flatnonzero(seen < days * steps).tolist():
        there = np.isfinite(used[i, :, 0])
        others = course[owner[i]] if owner[i] >= 0 else np.full_like(used[i], np.nan)
        if not np.isfinite(others).all():
            used[i, ~there] = used[i, there].mean(axis=0) if there.any() else np.maximum(state.request[i], typical)
            continue
        mine, theirs = (one[there].sum(axis=0) for one in (used[i], others))
        ratio = np.divide(mine, theirs, out=np.ones(2), where=theirs > 0)
        trusted = seen[i] / (seen[i] + HOUR / recorded.interval)
        used[i, ~there] = others[~there] * (trusted * ratio + 1.0 - trusted)
    return Forecast(used.reshape(len(state), days, steps, 2), recorded.interval, seen)
