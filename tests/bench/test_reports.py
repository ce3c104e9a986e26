"""Tables beside published numbers: orders, statements and cells by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from tvwrl.bench.experiments import EXPERIMENTS, WAITING_WEIGHTS, Experiment
from tvwrl.bench.published import FIGURE_CLAIMS, SIX, Claim
from tvwrl.bench.reports import EVERY_METRIC, _claim, _orders, plot, summarise, write_tables
from tvwrl.experiments.statistics import crossed_estimate as crossed

COLUMNS = {"a": 2.0, "b": 1.0, "c": 1.0}
FLAT = {name: crossed(np.array([[value, value]])) for name, value in COLUMNS.items()}
GROUP = {metric.column: FLAT for metric in SIX}


def published(**values: float) -> Experiment:
    return Experiment("T", lambda seeds: [], {name: {"utilisation_cpu": value} for name, value in values.items()})


def test_orders() -> None:
    assert _orders(published(a=0.3, b=0.2), GROUP) == [
        "- CPU util: the paper's order holds: of 1 pairs of columns 1 stand as in the paper (1 beyond chance), "
        "0 the other way round (0 beyond chance)"
    ]
    # a below b and b below c: one pair the other way round, one equal here; a and c as well.
    assert (
        "does not hold: of 3 pairs of columns 0 stand as in the paper (0 beyond chance), 2 the"
        in _orders(published(a=0.1, b=0.2, c=0.3), GROUP)[0]
    )
    assert _orders(published(a=0.3, b=0.3), GROUP) == []  # the paper has them equal
    assert _orders(published(a=0.3, z=0.2), GROUP) == []  # not measured


def test_statements() -> None:
    def verdict(over: str, under: str, low: float, high: float) -> str:
        (line,) = _claim(Claim("utilisation_cpu", over, under, low, high, "as said"), GROUP)
        return line.rpartition(": ")[2]

    assert verdict("a", "b", 1.5, 2.5) == "holds"
    assert verdict("a", "b", 1.0, float("inf")) == "holds"
    assert verdict("a", "b", 2.5, 3.0) == "holds in direction, not in size"
    assert verdict("a", "b", 5.0, float("inf")) == "holds in direction, not in size"
    assert verdict("a", "b", 1.2, 1.4) == "holds, beyond what was published"
    assert verdict("b", "a", 0.6, 0.8) == "holds, beyond what was published"
    assert verdict("b", "a", 0.1, 0.4) == "holds in direction, not in size"
    assert verdict("a", "b", 0.5, 0.9) == "does not hold"
    assert verdict("b", "c", 1.5, 2.5) == "does not hold"
    assert verdict("b", "c", 1.0, float("inf")) == "does not hold"  # "above 1", and it is 1
    assert verdict("a", "b", 2.0, 2.0) == "holds, it is in our interval"
    assert verdict("a", "b", 2.4, 2.4) == "holds in direction, not in size"
    assert verdict("a", "b", 1.6, 1.6) == "holds, beyond what was published"
    assert _claim(Claim("utilisation_cpu", "a", "absent", 1, 2, ""), GROUP) == []
    zero = {"utilisation_cpu": {name: crossed(np.zeros((1, 2))) for name in "ab"}}
    assert _claim(Claim("utilisation_cpu", "a", "b", 1, 2, ""), zero)[0].endswith("cannot be said, both are 0")


def test_the_claim_about_waiting_is_judged_in_calm_and_in_bursts() -> None:
    """Waits of 4, 2 and 1 slots, 5, 6 and 7 machines, overshoot that falls: in bursts all stay as they are."""
    measures = {"wait_mean": (4.0, 2.0, 1.0), "machines_used": (5.0, 6.0, 7.0), "overshoot_pct": (0.3, 0.2, 0.1)}
    metrics = [metric.column for metric in EVERY_METRIC]
    rows = [
        {"group": group, "column": f"K_w = {weight:g}", "seed": 0, "sequence": sequence}
        | dict.fromkeys(metrics, 1.0)
        | {name: values[place] for name, values in measures.items() if group == "calm"}
        for group in ("calm", "burst")
        for place, weight in enumerate(WAITING_WEIGHTS)
        for sequence in (0, 1)
    ]
    calm, burst = write_tables(EXPERIMENTS["sensitivity-kw"], summarise(pl.DataFrame(rows))).split("### ")[1:]
    assert '- Wait, slots, K_w = 50 / K_w = 500: 2.00 [2.00, 2.00]; paper above 1 ("shorter' in calm
    for title, said in (("Wait, slots", "holds"), ("Machines used", "holds"), ("Overshoot, %", "does not hold")):
        lines = [line for line in calm.splitlines() if line.startswith(f"- {title}, K_w")]
        assert [line.rpartition(": ")[2] for line in lines] == [said, said]
    assert burst.count("paper above 1") == 6


def test_chance_may_decide_where_the_interval_of_the_ratio_holds_1() -> None:
    """Of two sequences one says 3 and one 1/3: the ratio of the means is 1.1 / 0.9, between 1/3 and 3 when drawn."""
    group = {
        "utilisation_cpu": {
            "a": crossed(np.array([[1.5, 0.7]])),
            "b": crossed(np.array([[0.5, 1.3]])),
        }
    }

    def said(low: float, high: float) -> str:
        return _claim(Claim("utilisation_cpu", "a", "b", low, high, ""), group)[0].rpartition(": ")[2]

    assert said(1.0, float("inf")) == "holds, but chance may decide"
    assert said(1.5, 2.0) == "holds in direction, not in size, but chance may decide"
    assert said(0.5, 0.9) == "does not hold, but chance may decide"
    assert said(0.9, 0.9) == "holds, it is in our interval, but chance may decide"
    touching = {
        "utilisation_cpu": {
            "a": crossed(np.array([[1.5, 1.0]])),
            "b": crossed(np.array([[1.0, 1.0]])),
        }
    }
    (line,) = _claim(Claim("utilisation_cpu", "a", "b", 1.0, float("inf"), ""), touching)
    assert line.endswith('1.25 [1.00, 1.50]; paper above 1 (""): holds, but chance may decide')
    surely = {
        "utilisation_cpu": {
            "a": crossed(np.array([[1.5, 1.4]])),
            "b": crossed(np.array([[0.5, 1.3]])),
        }
    }
    assert _claim(Claim("utilisation_cpu", "a", "b", 1.0, float("inf"), ""), surely)[0].endswith(": holds")


def test_overshoot_is_huge_from_five_times_on() -> None:
    (claim,) = (claim for claim in FIGURE_CLAIMS if claim.metric == "overshoot_pct")
    for times, verdict in ((6.0, "holds"), (4.0, "holds in direction, not in size"), (0.5, "does not hold")):
        group = {
            "overshoot_pct": {
                claim.over: crossed(np.full((1, 2), times)),
                claim.under: crossed(np.ones((1, 2))),
            }
        }
        (line,) = _claim(claim, group)
        assert "paper at least 5" in line
        assert line.endswith(f": {verdict}")


def make_rows(columns: list[str]) -> pl.DataFrame:
    names = [metric.column for metric in EVERY_METRIC]
    return pl.DataFrame(
        [
            {"group": "load 0.5", "column": column, "seed": seed, "sequence": sequence}
            | dict.fromkeys(names, 0.1 * place + 0.01 * sequence)
            for place, column in enumerate(columns)
            for seed in (0, 1)
            for sequence in (0, 1, 2)
        ]
    )


def test_table_and_plot(tmp_path: Path) -> None:
    experiment = EXPERIMENTS["table3-ku"]
    groups = summarise(make_rows(["K_u = 0", "K_u = 1", "K_u = 2", "K_u = 3"]))
    text = write_tables(experiment, groups)
    line = next(line for line in text.splitlines() if line.startswith("| CPU util"))
    assert [cell.strip() for cell in line.split("|")[2:4]] == [
        "0.010 [0.000, 0.020] (0.103)",
        "0.110 [0.100, 0.120] (0.117)",
    ]
    assert "- CPU util: the paper's order holds: of 6 pairs of columns 6 stand as in the paper (6 beyond" in text
    assert "- CPU frag: the paper's order does not hold: of 6 pairs of columns 0 stand" in text
    assert experiment.note in text
    plot(experiment, groups, tmp_path / "plots" / "all.png")
    assert (tmp_path / "plots" / "all.png").read_bytes().startswith(b"\x89PNG")
