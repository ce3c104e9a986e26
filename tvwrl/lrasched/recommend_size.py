"""`tvwrl.recommend_size`: how much a new application needs, from a few measurements of it and many of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvwrl.checks import at_least, one_of
from tvwrl.lrasched.explanation import explain, plot_recommendation
from tvwrl.lrasched.predictors import PREDICTORS
from tvwrl.lrasched.profiles import Configuration, Profiles, read_configurations, read_profiles
from tvwrl.lrasched.recommendation import Recommendation
from tvwrl.lrasched.recommender import Recommender
from tvwrl.runs import provenance, whole_file, whole_folder, write_csv, write_json
from tvwrl.types import InputError

NEW = "the new application"  # what it is called if nobody says


@dataclass(frozen=True)
class Sizing:
    """A recommendation and what it was learnt from; printing it explains the decision."""

    recommendation: Recommendation
    source: str  # what it was learnt from, in a few words
    predictor: str
    note: str = ""  # what was left out, and why

    @property
    def configuration(self) -> Configuration:
        """The recommended one: name, `cpu` (cores), `mem` (GiB) and `collocation` (replicas on a machine)."""
        return self.recommendation.configuration

    @property
    def reached(self) -> bool:
        """Whether it is expected to reach the goal with its margin."""
        return self.recommendation.reached

    def rows(self) -> list[dict[str, Any]]:
        """The curves that it rests on: a row per decision (size, then degree) and configuration."""
        return self.recommendation.rows()

    def write(self, folder: str | Path) -> Path:
        """Write recommendation.json, curve.csv and curve.png to a new `folder`; returns it.

        Raises InputError if the folder is a file or not empty.
        """
        found, folder = self.recommendation, Path(folder)
        facts = {"source": self.source, "predictor": self.predictor}
        with whole_folder(folder) as partial:
            write_json(partial / "recommendation.json", found.to_dict() | facts | provenance())
            write_csv(partial / "curve.csv", found.rows())
            with whole_file(partial / "curve.png") as picture:
                plot_recommendation(found, picture, f"{found.application} ({self.source})")
        return folder

    def __str__(self) -> str:
        return self.note + explain(self.recommendation, self.source)


def recommend_size(
    profiles: Profiles | str | Path,
    measured: Mapping[str, float] | str | Path,
    goal: float = 0.8,
    margin: float = 0.02,
    *,
    configurations: Sequence[Configuration] | str | Path | None = None,
    higher_is_better: bool = True,
    predictor: str = "factorization-machine",
    seed: int = 0,
) -> Sizing:
    """Recommend the smallest size of replicas that reaches a goal, then the most replicas that may share a machine.

    `profiles`: earlier applications, as `Profiles` or a table (CSV or Parquet) of columns application, configuration
        and performance (0 to 1)
    `measured`: the new application: configuration -> performance (0 to 1), or such a table; two sizes at the lowest
        degree of collocation at least, then further degrees of the chosen size
    `goal`, `margin`: the performance to reach, and a margin beyond it against errors of prediction, 0 to 1
    `configurations`: objects of `Configuration`, or a table of columns configuration, cpu (cores), mem (GiB) and
        optionally collocation; default: these columns of the table of profiles
    `higher_is_better`: False where performance is a latency and the goal an upper limit; for tables only
    `predictor`: factorization-machine (the paper's), matrix-factorization or means
    `seed`: of the predictor, >= 0

    Raises InputError for tables that cannot be read (with file, row and field), fewer than two earlier applications,
    an unknown configuration, and values out of range.

    >>> found = recommend_size("profiles.csv", {"1c-2g": 0.55, "4c-4g": 0.97}, goal=0.8)  # doctest: +SKIP
    >>> found.configuration.cpu, found.configuration.mem, found.configuration.collocation  # doctest: +SKIP
    """
    one_of(PREDICTORS, predictor=predictor)
    at_least(0, seed=seed)
    offered = _offered(profiles, configurations)
    names = [one.name for one in offered]
    history = profiles if isinstance(profiles, Profiles) else read_profiles(Path(profiles), names, higher_is_better)
    application, known = _new(measured, names, history.higher_is_better)
    recommender = Recommender(history, offered, PREDICTORS[predictor], seed)
    where = "the profiles" if isinstance(profiles, Profiles) else Path(profiles).name
    note = ""
    if recommender.left_out:
        left = ", ".join(recommender.left_out)
        note = f"Left out, because no application of {where} was measured in: {left}.\n\n"
    found = recommender.recommend(application, known, goal, margin)
    source = f"learnt from {len(history.applications)} applications of {where}"
    return Sizing(found, source, predictor, note)


def _offered(profiles: Any, configurations: Any) -> tuple[Configuration, ...]:
    """The configurations to choose from."""
    given = profiles if configurations is None else configurations
    if isinstance(given, str | Path):
        return read_configurations(Path(given))
    if isinstance(given, Profiles) or not all(isinstance(one, Configuration) for one in given):
        raise InputError("configurations is needed in addition to Profiles: Configuration objects, or a table of them")
    return tuple(given)


def _new(measured: Any, names: Sequence[str], higher_is_better: bool) -> tuple[str, dict[str, float]]:
    """The name of the new application, and its measurements."""
    if isinstance(measured, Mapping):
        return NEW, dict(measured)
    new = read_profiles(Path(measured), names, higher_is_better)
    if len(new.applications) > 1:
        raise InputError(f"{measured}: holds {len(new.applications)} applications: must be one, the new one")
    pairs = zip(new.configuration, new.performance, strict=True)
    return new.applications[0], {names[c]: float(y) for c, y in pairs}
