"""What a `--trace` value means, and what a run says about where its trace comes from."""

import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from tvwrl.traces import describe_source, find_trace, open_trace, read_trace, synthetic, trace_hash, write_trace
from tvwrl.traces.catalogue import how_to_open, trace_identity
from tvwrl.types import InputError

CSV = "workload_id,slot,cpu\na,0,0.1\nb,1,0.2\n"


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("TVWRL_DATA", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.csv").write_text(CSV)
    return tmp_path / "data"


@pytest.fixture
def recorded(data):
    return read_trace("my.csv", 300)


@pytest.fixture
def asked(monkeypatch, recorded):
    """The seeds that synthetic populations are asked for."""
    seeds = []

    def synthetic_trace(population="google", workloads=400, seed=0, days=None):
        seeds.append(seed)
        return replace(recorded, name=population, source="synthetic")

    monkeypatch.setitem(sys.modules, "tvwrl.traces.synthetic", SimpleNamespace(synthetic_trace=synthetic_trace))
    return seeds


@pytest.mark.parametrize(
    ("name", "order"),
    [("google", ["google", "google2011", "google2019"]), ("alibaba", ["alibaba", "alibaba2018", "tianchi"])],
)
def test_the_first_prepared_trace_of_a_name_is_taken(data, recorded, asked, name, order):
    assert open_trace(name).source == "synthetic"
    for folder in reversed(order):
        write_trace(replace(recorded, name=f"{folder} recorded"), data / folder)
        assert open_trace(name).name == f"{folder} recorded"
        assert find_trace(name) == data / folder
    assert asked == [0]


def test_a_broken_prepared_trace_is_not_passed_over(data, asked):
    (data / "google").mkdir(parents=True)
    assert open_trace("google").source == "synthetic"
    (data / "google" / "trace.json").write_text("{}")
    with pytest.raises(InputError, match=r"usage\.parquet"):
        open_trace("google")


def test_the_synthetic_population_can_be_asked_for(data, recorded, asked):
    write_trace(replace(recorded, name="google2019"), data / "google2019")
    trace = open_trace("synthetic:google")
    assert (trace.source, trace.name, find_trace("synthetic:google")) == ("synthetic", "google", None)
    assert describe_source(trace, "synthetic:google").startswith("Synthetic population 'google', no recorded usage: 2")
    assert "google2019 (synthetic:google would be generated): 2" in describe_source(open_trace("google"), "google")


def test_a_run_on_the_synthetic_population_opens_it_again_after_the_real_trace_was_prepared(data, recorded, asked):
    identity = trace_identity(open_trace("google"), "google")
    write_trace(replace(recorded, name="google2019"), data / "google2019")
    assert trace_hash(open_trace(*how_to_open(identity))) == identity["hash"]


def test_seed_and_slot_of_a_synthetic_population(asked):
    assert open_trace("alibaba", slot_seconds=300, seed=7).name == "alibaba"
    assert asked == [7]
    with pytest.raises(InputError, match="'alibaba': slot_seconds is 300: must not be given as 60"):
        open_trace("alibaba", slot_seconds=60)


@pytest.mark.parametrize("name", ["alibaba", "google", "synthetic:google-v2"])
def test_the_shipped_populations(data, name, monkeypatch):
    few = partial(synthetic.synthetic_trace, workloads=3, days=1)
    monkeypatch.setattr(synthetic, "synthetic_trace", few)
    trace = open_trace(name)
    assert (trace.source, find_trace(name)) == ("synthetic", None)
    assert trace_hash(trace) == trace_hash(few(name.removeprefix("synthetic:"), seed=0))


def test_any_prepared_name_and_any_path(data, recorded):
    write_trace(replace(recorded, name="mine recorded"), data / "mine")
    assert open_trace("mine").name == "mine recorded"
    assert open_trace(str(data / "mine"), slot_seconds=300).name == "mine recorded"
    assert open_trace("my.csv", slot_seconds=60).slot_seconds == 60
    with pytest.raises(InputError, match="length of a slot is unknown"):
        open_trace("my.csv")


def test_a_name_goes_before_a_local_folder(data, recorded, asked):
    write_trace(replace(recorded, name="local"), "google")
    assert open_trace("google").source == "synthetic"
    assert open_trace("./google").name == "local"


@pytest.mark.parametrize("name", ["gogle", "", "x.csv", "../mine", "a/b", "x" * 5000, "notrace"])
def test_an_unknown_trace(data, recorded, name):
    write_trace(recorded, data / "mine")
    (data / "notrace").mkdir()
    with pytest.raises(InputError) as error:
        open_trace(name)
    meant = {"gogle": "google", "../mine": "mine"}
    said = str(error.value)
    assert said.startswith(f"unknown trace {name!r}: no such file, folder or name; ")
    assert (f"did you mean {meant[name]}" in said) if name in meant else ("did you mean" not in said)
    assert (
        "a trace is a name (alibaba, google, mine, synthetic:alibaba, synthetic:google, synthetic:google-v2), or the"
        in said
    )
    assert said.endswith(f"names are looked up in TVWRL_DATA ({data})")


def test_an_unknown_trace_without_a_data_folder(data):
    with pytest.raises(InputError, match=r"a trace is a name \(alibaba, google, synthetic:"):
        open_trace("x")


def test_the_default_data_folder(monkeypatch, tmp_path, recorded):
    for value in ("", None):
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("TVWRL_DATA", value) if value is not None else monkeypatch.delenv("TVWRL_DATA")
        assert find_trace("google") is None
    write_trace(recorded, tmp_path / ".cache" / "tvwrl" / "google2019")
    assert find_trace("google") == tmp_path / ".cache" / "tvwrl" / "google2019"


def test_one_sentence_says_where_the_trace_is_from(data, recorded, asked):
    assert describe_source(recorded) == "Real trace 'my', recorded usage: 2 workloads, slots of 300 s."
    assert "recorded usage from my.csv: 2 workloads" in describe_source(recorded, "my.csv")
    sentence = describe_source(open_trace("google"), "google")
    assert sentence == (
        f"Synthetic population 'google', no recorded usage (tvwrl prepare makes the real one, in {data}): "
        "2 workloads, slots of 300 s."
    )
    write_trace(replace(recorded, source="synthetic"), data / "made")
    assert describe_source(open_trace("made"), "made").startswith("Synthetic trace 'my', generated usage from")
