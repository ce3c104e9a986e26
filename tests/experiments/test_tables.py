"""Bootstrap intervals hold the truth as often as they say; tables hold the rows' numbers, best first, within width."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tvwrl.benchmark import ranking
from tvwrl.experiments.episode_rows import GAPS, read_rows, with_gaps
from tvwrl.experiments.plots import _cost
from tvwrl.experiments.results import page as results
from tvwrl.experiments.statistics import bootstrap_interval, interquartile_mean, paired_bootstrap, share_closed
from tvwrl.experiments.tables import best_first, by_load, comparison_table, terminal_table
from tvwrl.schedulers import KNOWLEDGE
from tvwrl.schedulers.knowledge import CURRENT_LOAD, FUTURE, PEAKS
from tvwrl.types import InputError


def make_rows(
    rewards: dict[str, list[float]], resources: tuple[str, ...] = ("cpu", "mem"), load: float = 0.5
) -> pl.DataFrame:
    """Rows of schedulers with the given reward per sequence; wait NaN in sequence 0, decision time null."""
    return pl.DataFrame(
        [
            {"scheduler": name, "load": load, "sequence": i}
            | {f"utilisation_{r}": 0.25 for r in resources}
            | {f"fragmentation_{r}": 0.75 for r in resources}
            | {
                "overshoot_pct": 1.5,
                "machines_used": 4 + i,
                "peak_machines": 3,
                "machine_slots": 60,
                "wait_mean": i or float("nan"),
            }
            | {"wait_p95": 2.0, "unplaced": 0, "contention": 9.0, "reward": reward, "slots": 100}
            | {"offered_load": 0.45, "decision_ms": None}
            for name, values in rewards.items()
            for i, reward in enumerate(values)
        ],
        schema_overrides={"decision_ms": pl.Float64},
    )


def test_interval_holds_the_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(300):
        low, high = bootstrap_interval(rng.normal(5.0, 2.0, size=30), rng, resamples=1000)
        held += low <= 5.0 <= high
    # The percentile bootstrap of 30 values holds it in about 93 % of cases; 300 trials scatter by 1.5 %.
    assert 0.88 <= held / 300 <= 0.98


def test_interval_by_hand() -> None:
    # Of two values 0 and 1 a resample has mean 0, 1/2 or 1 with probability 1/4, 1/2, 1/4.
    assert bootstrap_interval(np.array([0.0, 1.0])) == (0.0, 1.0)
    assert bootstrap_interval(np.array([3.0, np.nan, 3.0])) == (3.0, 3.0)
    assert np.isnan(bootstrap_interval(np.array([3.0, np.nan]))).all()


def test_interval_in_blocks_has_all_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).normal(size=40)
    whole = bootstrap_interval(values, np.random.default_rng(2))
    monkeypatch.setattr("tvwrl.experiments.statistics.BLOCK", 40 * 3000)
    assert bootstrap_interval(values, np.random.default_rng(2)) == whole


def test_pairing_narrows_the_interval_where_sequences_are_shared() -> None:
    rng = np.random.default_rng(3)
    hard = rng.normal(0, 10, size=30)
    a, b = hard + rng.normal(1, 0.5, size=30), hard + rng.normal(0, 0.5, size=30)
    mean, low, high = paired_bootstrap(a, b, rng)
    assert mean == pytest.approx((a - b).mean())
    assert 0 < low < mean < high
    (low_a, high_a), (low_b, high_b) = bootstrap_interval(a, rng), bootstrap_interval(b, rng)
    assert high - low < 0.2 * np.hypot(high_a - low_a, high_b - low_b)
    with pytest.raises(InputError, match="paired samples"):
        paired_bootstrap(a, b[:-1], rng)


def unpadded(text: str) -> str:
    """Without what makes columns even."""
    return re.sub(" +", " ", text)


def left_out(rows: pl.DataFrame, missing: dict[tuple[str, int], int]) -> pl.DataFrame:
    """The rows with unplaced workloads in some sequences; their measures are as an older version wrote them."""
    count = [missing.get(key, 0) for key in rows.select("scheduler", "sequence").rows()]
    return rows.with_columns(unplaced=pl.Series(count))


def test_a_scheduler_that_left_workloads_unplaced_has_no_means_and_comes_last() -> None:
    rewards = {"idle": [0.0, 0.0], "once": [-1.0, -2.0], "spread": [-3000.0, -3000.0], "tetris": [-1000.0, -2000.0]}
    rows = left_out(make_rows(rewards), {("idle", 0): 20, ("idle", 1): 20, ("once", 1): 1})
    table = unpadded(comparison_table(rows))
    order = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")][2:6]
    assert order == ["tetris", "spread", "once", "idle"]
    assert "| once | - (1 of 2 sequences incomplete, 1 workload not placed) | - | - |" in table
    assert "Reward of `tetris` minus that of each other" in table
    assert "| idle | - (2 of 2 sequences incomplete, 40 workloads not placed) | | | | |" in table
    assert "No reward of `once` to compare: 1 of 2 sequences" in comparison_table(rows, reference="once")
    shown = terminal_table(rows)
    assert "No means for once: 1 of 2 sequences incomplete, 1 workload not placed." in shown
    assert [line.split()[0] for line in shown.splitlines()[4:8]] == order
    assert "nan" not in (table + shown).lower()


def test_rows_of_older_runs_load_with_a_reward_for_incomplete_episodes_or_without_the_count(tmp_path: Path) -> None:
    rows = left_out(make_rows({"idle": [0.0, 0.0], "spread": [-3000.0, -3000.0]}), {("idle", 1): 20})
    rows.write_csv(tmp_path / "rows.csv")
    found = read_rows(tmp_path)
    assert found["reward"].to_list() == pytest.approx([0.0, float("nan"), -3000.0, -3000.0], nan_ok=True)
    assert found["slots"].to_list() == [100] * 4
    rows.drop("unplaced").write_csv(tmp_path / "rows.csv")
    assert read_rows(tmp_path)["reward"].to_list() == [0.0, 0.0, -3000.0, -3000.0]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.floats(-1e6, 0.0), st.sampled_from([0, 0, 0, 1, 7])), min_size=3, max_size=3),
        min_size=2,
        max_size=5,
    )
)
def test_no_schedule_with_an_unplaced_workload_ranks_above_a_complete_one(
    played: list[list[tuple[float, int]]],
) -> None:
    """In the tables, the plots and the benchmark's page, whatever it would have earned."""
    names = {f"rule-{i}": sequences for i, sequences in enumerate(played)}
    rows = make_rows({name: [reward for reward, _ in of] for name, of in names.items()})
    rows = left_out(rows, {(name, i): left for name, of in names.items() for i, (_, left) in enumerate(of)})
    complete = {name for name, of in names.items() if not any(left for _, left in of)}
    group = by_load(rows)[0.5]
    orders = {
        "tables": best_first(group),
        "plots": sorted(names, key=lambda name: _cost([group], name)),
        "page": _on_the_page(rows),
        "results": _in_results(rows),
    }
    for order in orders.values():
        assert set(order[: len(complete)]) == complete


def _on_the_page(rows: pl.DataFrame) -> list[str]:
    facts = {"task": "a", "tuned": False, "ours": False, "note": "", "knowledge": CURRENT_LOAD.group}
    every = [row | facts | {"played": row["scheduler"], "decision_ms": 1.0} for row in rows.rows(named=True)]
    lines = ranking.summaries(every, ["a"])["a"]
    return [line.scheduler for line in sorted(lines, key=lambda line: line.rank)]


def _in_results(rows: pl.DataFrame) -> list[str]:
    gaps = [pl.lit(1.0).alias(gap) for gap in GAPS]
    named = rows.with_columns(*gaps, group=pl.lit("a"), column=pl.col("scheduler"), seed=0)
    measures = results.measure(named)["a"]
    return sorted(measures, key=lambda name: results._cost(measures[name]))


def test_comparison_table_content() -> None:
    rows = make_rows({"worse": [-3000.0, -3000.0], "better": [-1000.0, -2000.0]})
    lines = unpadded(comparison_table(rows, knowledge={"worse": CURRENT_LOAD, "absent": FUTURE})).splitlines()
    assert lines[0] == "### Load 0.5 (offered: 0.45), 2 sequences"
    assert lines[4].startswith("| *current load and history* | |")
    assert lines[5].startswith("| worse | -3.00 [-3.00, -3.00] | -3.00 [-3.00, -3.00] |")
    assert lines[6].startswith("| *knowledge not stated* | |")
    cells = [cell.strip() for cell in lines[7].split("|")[1:-1]]
    assert cells == [
        "better",
        *["-1.50 [-2.00, -1.00]"] * 2,  # a quarter of two sequences, rounded down, is none: the IQM is the mean
        *["0.250 [0.250, 0.250]"] * 2,
        *["0.750 [0.750, 0.750]"] * 2,
        "1.500 [1.500, 1.500]",
        "4.50 [4.00, 5.00]",
        "3.00 [3.00, 3.00]",
        "1.00",  # the wait of sequence 0 is NaN: one value, no interval
        "0.00 [0.00, 0.00]",
        "-",  # decision time unknown
        "-",  # neither best-fit-peak nor clairvoyant is there to be closed in on
    ]
    assert "| worse | +1.50 | [1.00, 2.00] | +1.50 | [1.00, 2.00] | 2 of 2 |" in lines
    assert f"- `worse`: {CURRENT_LOAD.note}" in lines
    assert not any("absent" in line for line in lines)


def test_reference_and_sequences_that_only_one_has() -> None:
    rows = pl.concat(
        [
            make_rows({"a": [-1000.0, -2000.0, -3000.0], "b": [-2000.0, -1000.0]}),
            make_rows({"a": [-5000.0], "b": [-6000.0]}, load=0.3),
        ]
    )
    text = unpadded(comparison_table(rows, reference="a"))
    assert text.index("Load 0.3") < text.index("Load 0.5")
    assert "3 sequences (fewer: b 2)" in text
    assert "| b | +0.00 | [-1.00, 1.00] | +0.00 | [-1.00, 1.00] | 1 of 2 |" in text
    assert "| b | +1.00 | | +1.00 | | 1 of 1 |" in text  # one sequence: no interval
    with pytest.raises(InputError, match=r"reference scheduler 'c' has no rows at load 0\.3"):
        comparison_table(rows, reference="c")


def test_rows_that_cannot_be_compared_are_refused() -> None:
    rows = make_rows({"a": [-1.0, -2.0]})
    with pytest.raises(InputError, match="lack the columns \\['reward'\\]"):
        comparison_table(rows.drop("reward"))
    with pytest.raises(InputError, match=r"scheduler 'a', load 0\.5: a sequence occurs twice"):
        terminal_table(pl.concat([rows, rows]))


@pytest.mark.parametrize("width", [None, 80, 120])
@pytest.mark.parametrize("resources", [("cpu",), ("cpu", "mem"), ("cpu", "memory", "network", "disk", "gpu", "tpu")])
def test_terminal_table_keeps_its_width(resources: tuple[str, ...], width: int | None) -> None:
    rows = make_rows({"x" * 60: [-3e9, -1e9], "better": [-1000.0, -2000.0]}, resources)
    lines = terminal_table(rows, width=width).splitlines()
    assert max(map(len, lines)) <= (width or 110)
    assert len({len(line) for line in lines[1:6]}) == 1  # no row is broken
    assert lines[1].split()[0] == "reward,"
    assert lines[2].split()[:2] == ["scheduler", "thousands"]
    assert lines[4].split()[:3] == ["better", "-1.50", "±0.50"]
    assert lines[5].startswith("x" * 16 + "…" + "x" * 16 + " ")
    assert not any("\x1b" in line for line in lines)


def test_the_terminal_says_what_each_column_that_is_shown_means() -> None:
    text = terminal_table(make_rows({"a": [-1000.0, -2000.0]}), width=120)
    assert "\novershoot %: demand above capacity" in text
    assert "\nused cpu / used mem: usage as a share" in text
    assert "gap closed" not in text  # neither end is there
    narrow = terminal_table(make_rows({"a" * 33: [-1e9, -2e9]}), width=60)
    assert "wait, slots:" not in narrow


def test_tables_are_reproducible() -> None:
    rows = make_rows({"a": list(np.random.default_rng(0).normal(-1e5, 1e4, 10))})
    assert comparison_table(rows, seed=4) == comparison_table(rows, seed=4)
    assert comparison_table(rows, seed=4) != comparison_table(rows, seed=5)


def test_interquartile_mean_by_hand() -> None:
    # Of 9, 1, 2, 3, -50 a quarter is one at each end: (1 + 2 + 3) / 3. Of three it is none.
    assert interquartile_mean(np.array([[9.0, 1.0, 2.0, 3.0, -50.0]])).tolist() == [2.0]
    assert interquartile_mean(np.array([[0.0, 3.0, 9.0]])).tolist() == [4.0]


def test_paired_interquartile_means() -> None:
    a, b = np.array([1.0, 2.0, 3.0, 100.0]), np.array([0.0, 1.0, 2.0, 3.0])
    found, low, high = paired_bootstrap(a, b, np.random.default_rng(0), statistic=interquartile_mean)
    assert found == 2.5 - 1.5
    assert 1 <= low <= found <= high


def test_share_of_the_gap_that_is_closed() -> None:
    # From -4 to -2 on average: -3.5 is a quarter of the way, -2 all, -6 the whole way back.
    rewards = {"best-fit-peak": [-5000.0, -3000.0], "clairvoyant": [-2000.0, -2000.0]}
    rewards |= {"a": [-4000.0, -3000.0], "b": [-8000.0, -4000.0]}
    lines = unpadded(
        comparison_table(make_rows(rewards), knowledge=KNOWLEDGE | {"a": CURRENT_LOAD, "b": PEAKS})
    ).splitlines()
    shown = {line.split()[1]: line.rsplit("|", 2)[1].split()[:1] for line in lines[4:13] if "[" in line}
    assert shown == {"a": ["25"], "best-fit-peak": ["0"], "b": ["-100"], "clairvoyant": ["100"]}
    assert np.isnan(share_closed(np.array([[[-1.0, -1.0, 0.0]]]))).all()  # no gap: nothing to close


def test_tables_are_grouped_by_knowledge() -> None:
    rows = make_rows({"late": [-9000.0] * 2, "clairvoyant": [-1.0] * 2, "tetris": [-2.0] * 2, "spread": [-3.0] * 2})
    text = terminal_table(rows, KNOWLEDGE | {"late": CURRENT_LOAD})
    lines = text.split("\n\n")[0].splitlines()
    firsts = [line.split()[0] for line in lines[4:] if not line.startswith("--")]
    assert firsts == ["spread", "late", "tetris", "clairvoyant"]
    groups = [line[3:].strip() for line in lines if line.startswith("-- ")]
    assert groups == ["current load and history", "true lifetime peaks (a privilege)", "the whole future"]
    assert max(map(len, text.splitlines())) <= 110


def test_gaps_by_hand(tmp_path: Path) -> None:
    rows = make_rows({"a": [-1.0, -2.0], "b": [-3.0, -4.0]})  # peak 3, 60 machine-slots
    bounds = pl.DataFrame(
        {
            "load": [0.5, 0.5],
            "sequence": [1, 0],
            "lower_bound_peak_machines": [3, 2],
            "lower_bound_machine_slots": [48, 60],
            "lower_bound_machine_slots_waiting": [40, 48],
        }
    )
    gaps = with_gaps(rows, bounds)
    assert gaps["peak_gap_pct"].to_list() == [50.0, 0.0] * 2
    assert gaps["slots_gap_pct"].to_list() == [0.0, 25.0] * 2
    assert gaps["slots_gap_waiting_pct"].to_list() == [25.0, 50.0] * 2
    assert gaps["scheduler"].to_list() == rows["scheduler"].to_list()
    assert "slots above %: machines used, summed over slots" in terminal_table(gaps)
    assert "12.5 [0.0, 25.0]" in unpadded(comparison_table(gaps))
    rows.write_csv(tmp_path / "rows.csv")
    assert "peak_gap_pct" not in read_rows(tmp_path).columns
    bounds.write_csv(tmp_path / "bounds.csv")
    assert read_rows(tmp_path)["peak_gap_pct"].to_list() == gaps["peak_gap_pct"].to_list()
    assert "no schedule earns more" not in terminal_table(gaps)
    above = with_gaps(rows, bounds.with_columns(reward_bound=pl.Series([-500.0, -100.0])))
    for text in (terminal_table(above), comparison_table(above)):
        assert "2 sequences; no schedule earns more than -0.30" in text
    with pytest.raises(InputError, match=r"bounds lack load 0\.5, sequence 1"):
        with_gaps(rows, bounds.filter(pl.col("sequence") == 0))


def test_terminal_table_shows_which_rule_moves_and_which_names_differ() -> None:
    tuned = "expected-cost + greedy-evacuate(threshold=20000,overshoot=0.5,single=3)"
    long = "expected-cost(opening=200)-backfill + greedy-evacuate(threshold=5000)"
    rows = make_rows({tuned: [-1.0], long: [-2.0], "expected-cost": [-3.0]})
    table = terminal_table(rows)
    assert len({line.split("  ")[0] for line in table.splitlines()[4:7]}) == 3
    alone = terminal_table(make_rows({long: [-2.0], "expected-cost": [-3.0]}))
    assert "+ greedy-evacuate(…)" in alone
