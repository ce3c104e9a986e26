"""Which configuration is recommended: by hand, never what a monotone world forbids, and what bad input gets."""

import json

import numpy as np
import pytest

import tvwrl
from tests.lrasched.test_outlook import SHARED, history, profiles
from tvwrl.lrasched.advice import Asked, Prices, advise
from tvwrl.lrasched.history import not_worse
from tvwrl.lrasched.outlook import PerformanceModel
from tvwrl.lrasched.profiles import Configuration
from tvwrl.lrasched.sizing import SizingSettings, size_application
from tvwrl.lrasched.target import Target
from tvwrl.lrasched.testbed import configurations, draw_applications, profile
from tvwrl.types import InputError


@pytest.fixture(scope="module")
def model():
    return PerformanceModel(profiles(history(60)), SHARED)


def asked(goal="0.6", **others):
    return Asked(Target.parse(goal), **others)


def tables(folder, rows, name="history.csv"):
    file = folder / name
    head = "application,configuration,cpu,mem,collocation,p99\n"
    numbers = {one.name: f"{one.cpu},{one.mem},{one.collocation}" for one in SHARED}
    lines = [f"{a},{c},{numbers[c]},{value}\n" for a, c, value in rows]
    file.write_text(head + "".join(lines))
    return file


def latencies(folder, count=30, name="history.csv"):
    """Milliseconds of applications, the less the better they perform."""
    grid = 50 * (1.02 - history(count))
    rows = [(f"a{i}", one.name, grid[i, k]) for i in range(count) for k, one in enumerate(SHARED)]
    return tables(folder, rows, name)


def test_the_cheapest_that_is_sure_enough_then_the_largest_degree(model):
    found = advise(model, "new", {"s": 0.5, "l": 0.9}, asked("0.5", sure=0.9))
    sure = found.probability >= 0.9
    assert found.reached
    assert sure[found.chosen]
    same = [i for i, one in enumerate(SHARED) if one.size == found.configuration.size]
    assert found.configuration.collocation == max(SHARED[i].collocation for i in same if sure[i])
    assert found.cost[found.chosen] == found.cost[sure].min()


def test_if_none_is_sure_enough_ties_go_to_the_cheapest_and_the_smallest_degree(model):
    """A new application, measured 0.1 at a small size and 0.3 at the largest, wants 0.9: two on a machine are no better
    than one."""
    found = advise(model, "new", {"s": 0.1, "l": 0.3}, asked("0.9"))
    assert not found.reached
    assert found.configuration.collocation == 1


def test_if_none_has_a_chance_the_best_one_is_named_and_not_the_cheapest(model):
    found = advise(model, "new", {"s": 0.1, "m": 0.2}, asked("7"))
    assert (found.reached, found.configuration.name) == (False, "l")
    latency = PerformanceModel(profiles(1 - history(60)), SHARED, higher_is_better=False)
    assert advise(latency, "new", {"s": 0.9}, asked("<= -7")).configuration.name == "l"


def test_the_same_application_under_two_names_is_noticed():
    grid = history(20)
    twice = PerformanceModel(profiles(np.vstack([grid, grid[:3]])), SHARED)
    assert any(
        "3 earlier applications were measured exactly as another" in n for n in advise(twice, "new", {}, asked()).notes
    )


def test_what_was_measured_counts_as_measured(model):
    names = [one.name for one in SHARED]
    found = advise(model, "new", {"m": 0.62}, asked("0.6"))
    assert found.probability[names.index("l")] >= found.probability[names.index("m")] > 0.5
    missed = advise(model, "new", {"m": 0.58}, asked("0.6"))
    assert missed.probability[names.index("m")] == missed.probability[names.index("s")] == 0.0


def test_few_applications_cannot_make_sure_but_a_measurement_can():
    few = PerformanceModel(profiles(history(3)), SHARED)
    found = advise(few, "new", {"s": 0.4}, asked("0.05", sure=0.9))
    assert "3 earlier applications can show a probability of 0.75 at most" in " ".join(found.notes)
    assert advise(few, "new", {"l": 0.9}, asked("0.6", sure=0.9)).configuration.name == "l"


def test_a_degree_that_has_no_room_on_a_machine_is_never_recommended(model):
    found = advise(model, "new", {"l4": 0.95}, asked("0.5", machine=(8.0, 8.0)))
    assert found.configuration.name != "l4"
    assert found.possible.tolist() == [True, True, True, True, True, False]
    with pytest.raises(InputError, match="no configuration fits into it"):
        advise(model, "new", {}, asked("0.5", machine=(0.5, 8.0)))


def test_prices_decide_what_is_cheap(model):
    dear_cpu = advise(model, "new", {"m": 0.7, "w": 0.7}, asked("0.6", prices=Prices(10.0, 0.1, "EUR")))
    dear_memory = advise(model, "new", {"m": 0.7, "w": 0.7}, asked("0.6", prices=Prices(0.1, 10.0)))
    assert (dear_cpu.configuration.name, dear_memory.configuration.name) == ("w", "m")


def test_the_next_measurement_helps(model):
    found = advise(model, "new", {"s": 0.3}, asked("0.6"))
    assert found.next_measurement is not None
    assert found.next_measurement.configuration.name != "s"
    sure = advise(model, "new", {one.name: 0.9 for one in SHARED}, asked("0.6"))
    assert sure.next_measurement is None


def forbidden(advice):
    """Whether a monotone world forbids a recommendation: something no better missed the goal... or it was measured."""
    better, names = not_worse(advice.configurations), [one.name for one in advice.configurations]
    met = {name: bool(advice.asked.target.met(np.array(value))) for name, value in advice.measured.items()}
    for name, fine in met.items():
        column = names.index(name)
        above = any(met[other] and better[column, names.index(other)] for other in met)
        if not fine and not above and advice.reached and better[column, advice.chosen]:
            return True
    if advice.reached:
        return False
    twins = better[:, advice.chosen] & advice.possible & (advice.cost <= advice.cost[advice.chosen])
    return bool((advice.probability[twins] > advice.probability[advice.chosen] + 1e-9).any())


def drawn_case(seed):
    """A history of 5 to 25 applications on a grid of sizes and degrees, one that was measured 1 to 4 times, a goal."""
    rng = np.random.default_rng(seed)
    cpus, mems = np.sort(rng.uniform(0.5, 16, 3)), np.sort(rng.uniform(0.5, 64, 2))
    offered = [
        Configuration(f"{i}-{j}-{d}", c, m, d) for i, c in enumerate(cpus) for j, m in enumerate(mems) for d in (1, 2)
    ]
    count = int(rng.integers(5, 26))
    grid = history(count + 1, seed, offered, gaps=rng.choice([0.0, 0.2]))
    keep = ~np.isnan(grid[:-1]).all(axis=0)
    offered, grid = [one for one, there in zip(offered, keep, strict=True) if there], grid[:, keep]
    which = rng.choice(len(offered), int(rng.integers(1, 5)), replace=False)
    measured = {offered[k].name: float(np.nan_to_num(grid[-1, k], nan=0.5)) for k in which}
    known = grid[:-1][~np.isnan(grid[:-1]).all(axis=1)]
    return profiles(known, offered), offered, measured, asked(str(rng.uniform(0.1, 0.95)))


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_recommended_that_a_monotone_world_forbids(seed):
    past, offered, measured, wanted = drawn_case(seed)
    found = advise(PerformanceModel(past, offered), "new", measured, wanted)
    assert not forbidden(found)
    better = not_worse(offered)
    for i, j in zip(*np.nonzero(better), strict=True):
        assert found.probability[i] >= found.probability[j] - 1e-9


def test_goals_are_met_as_often_as_is_said():
    earlier, offered = draw_applications(80, 3), configurations((1,))
    model = PerformanceModel(profile(earlier, offered, 3), offered)
    rng, said, met = np.random.default_rng(0), [], []
    for one in draw_applications(60, 4):
        measured = {c.name: one.measure(c, rng) for c in (offered[5], offered[14])}
        found = advise(model, one.name, measured, asked("0.9", sure=0.8))
        if found.reached:
            said.append(found.probability[found.chosen])
            met.append(one.performance(found.configuration) >= 0.9)
    assert len(met) > 20
    assert np.mean(met) > np.mean(said) - 0.1


@pytest.mark.parametrize(
    ("measured", "message"),
    [
        ({"xl": 0.5}, "unknown configuration 'xl'"),
        ({"s": float("nan")}, "performance in .* is nan"),
        ({"s": 300.0}, "is it in another unit"),
    ],
)
def test_measurements_that_cannot_be_used(model, measured, message):
    with pytest.raises(InputError, match=message):
        advise(model, "new", measured, asked())


def test_what_is_unlike_all_is_named(model):
    assert any("unlike all of them" in note for note in advise(model, "new", {"l4": 0.999}, asked()).notes)
    assert any(
        "No earlier application reached this goal" in note for note in advise(model, "new", {}, asked("0.9999")).notes
    )


def test_a_history_against_the_order_is_named():
    upside_down = PerformanceModel(profiles(history(20)[:, ::-1]), SHARED)
    assert any("--no-monotone" in note for note in advise(upside_down, "new", {}, asked()).notes)


def test_milliseconds_from_tables(tmp_path):
    file = latencies(tmp_path)
    new = tables(tmp_path, [("new", "s", 30.0), ("new", "l", 6.0)], "new.csv")
    settings = {"profiles": file, "goal": "p99 <= 20 ms", "out": tmp_path / "out"}
    text = size_application(SizingSettings(**settings, measured=new, machine_cpu=16, machine_mem=32))
    assert "Goal: p99 <= 20 ms" in text
    written = json.loads((tmp_path / "out" / "recommendation.json").read_text())
    assert written["reached"]
    assert written["probability"] >= 0.9
    assert len(written["curve"]) == len(SHARED)
    assert (tmp_path / "out" / "curve.png").stat().st_size > 1000


def test_an_application_of_the_history_is_asked_about(tmp_path):
    """Results of production go into the same table."""
    file = latencies(tmp_path)
    rest = tables(tmp_path, [("a3", "s", 31.0)], "more.csv").read_text().partition("\n")[2]
    file.write_text(file.read_text() + rest)
    found = tvwrl.recommend_size(file, None, "p99 <= 20 ms", application="a3")
    assert len(found.advice.measured) == len(SHARED)
    assert "1 was measured several times" in str(found)
    with pytest.raises(InputError, match="has no row of it"):
        tvwrl.recommend_size(file, None, "p99 <= 20 ms", application="unheard of")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goal": "fast"}, "must be like"),
        ({"goal": "p99 <= 20 ms", "sure": 1.0}, "sure is 1"),
        ({"goal": "p99 <= 20 ms", "cpu_price": 1.0}, "cpu_price and mem_price belong together"),
        ({"goal": "p99 <= 20 ms", "machine_cpu": 1.0}, "machine_cpu and machine_mem belong together"),
        ({"goal": "latency <= 20 ms"}, "no column 'latency'"),
        ({"goal": "p99 <= 20 ms", "currency": "EUR"}, "has no effect without"),
    ],
)
def test_options_that_cannot_be_used(tmp_path, options, message):
    file = latencies(tmp_path)
    with pytest.raises(InputError, match=message):
        size_application(SizingSettings(profiles=file, application="a1", out=tmp_path / "out", **options))


@pytest.mark.parametrize(("value", "message"), [("nan", "p99 is"), ("", "p99 is"), ("fast", "p99 is 'fast'")])
def test_values_that_are_no_numbers_are_named_by_row(tmp_path, value, message):
    file = latencies(tmp_path, 3)
    file.write_text(file.read_text() + f"b,s,1,1,1,{value}\n")
    with pytest.raises(InputError, match=rf"history.csv: row {3 * len(SHARED) + 1}: {message}"):
        tvwrl.recommend_size(file, {"s": 20.0}, "p99 <= 20 ms")


def test_contradictory_measurements_make_nothing_sure_and_are_named(model):
    """The smaller size met the goal, the larger one missed it."""
    found = advise(model, "new", {"s": 0.7, "l": 0.5}, asked("0.6"))
    assert not found.reached
    assert found.probability.max() == 0.0
    assert any(note.startswith("s met the goal, but l") for note in found.notes)


def test_many_applications_and_configurations_are_advised():
    offered = configurations()
    past = profile(draw_applications(200, 0), offered, 0)
    found = advise(PerformanceModel(past, offered), "new", {offered[5].name: 0.5, offered[12].name: 0.9}, asked("0.9"))
    assert len(found.rows()) == len(offered)
    assert found.configuration in offered


def test_units_and_directions_are_noticed(model, tmp_path):
    """Goals that all or none reach, a history in two units, a direction that is the other one's."""
    easy = advise(model, "new", {"s": 0.7}, asked("0.000001"))
    assert any(note.startswith("Every earlier application reached") for note in easy.notes)
    hard = advise(model, "new", {"s": 0.7}, asked("900"))
    assert any("is the goal in the unit of the measurements?" in note for note in hard.notes)
    mixed = history(30, 1)
    mixed[:3] *= 1e-3
    other = advise(PerformanceModel(profiles(mixed), SHARED), "new", {"s": 0.5}, asked("0.6"))
    assert any(note.startswith("a0, a1, a2: more than 100 times") for note in other.notes)
    with pytest.raises(InputError, match="the history is of performance that is to be at least a goal"):
        advise(model, "new", {}, Asked(Target.parse("p99 <= 20 ms")))
    with pytest.raises(InputError, match="write out the number, k is not taken"):
        Target.parse("throughput >= 10k req/s")


def test_a_measurement_beyond_a_history_of_seconds_is_no_share():
    """All earlier latencies are below 1 s; the new one's are not capped there."""
    past = profiles(1.0 / (1.0 + 9.0 * history(20, 2)), higher=False)
    found = advise(PerformanceModel(past, SHARED, False), "new", {"s": 5.0}, Asked(Target.parse("p99 <= 2 s")))
    assert found.outlook.expected.max() > 2.0


def test_two_configurations_with_the_same_numbers_are_refused():
    twins = [Configuration("a", 1, 1), Configuration("b", 1, 1)]
    with pytest.raises(InputError, match="have the same cpu, mem and collocation"):
        tvwrl.recommend_size(profiles(history(5, offered=twins), twins), {"a": 0.5}, configurations=twins)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("p99 <= 20 ms", "p99 <= 20 ms"),
        ("p99<=20ms", "p99 <= 20 ms"),
        ("throughput >= 900 requests/s", "throughput >= 900 requests/s"),
        ("0.8", "performance >= 0.8"),
        ("<= 1e-3", "performance <= 0.001"),
    ],
)
def test_goals_are_read(text, said):
    assert str(Target.parse(text)) == said


@pytest.mark.parametrize("text", ["", "p99", "p99 <=", "p99 == 3", "nan", "p99 <= inf", "p99 <= 1.2.3"])
def test_what_is_no_goal_is_refused(text):
    with pytest.raises(InputError, match="must be like"):
        Target.parse(text)


@pytest.mark.parametrize("gaps", [0.0, 0.4])
def test_the_order_of_a_file_changes_nothing(tmp_path, gaps):
    """Rows of the history shuffled: the same recommendation, intervals and probabilities."""
    grid, rng = 20.0 / history(30, 5, gaps=gaps), np.random.default_rng(0)
    rows = [
        (f"a{i}", one.name, one.cpu, one.mem, one.collocation, grid[i, c])
        for i in range(len(grid))
        for c, one in enumerate(SHARED)
        if not np.isnan(grid[i, c])
    ]
    found = []
    for order in (np.arange(len(rows)), rng.permutation(len(rows))):
        text = "application,configuration,cpu,mem,collocation,p99\n"
        file = tmp_path / f"{order[0]}.csv"
        file.write_text(text + "".join(",".join(map(str, rows[k])) + "\n" for k in order))
        found.append(tvwrl.recommend_size(file, {"s": 60.0, "w": 45.0}, "p99 <= 30 ms").rows())
    assert found[0] == found[1]
