"""`tvwrl explore`: its files, what it continues, and what bad input gets to hear."""

from pathlib import Path

import pytest

from tvwrl.cli.dispatch import line_of
from tvwrl.experiments.evaluation import PAGE, EvaluationSetup, evaluate
from tvwrl.experiments.exploring import explore_command
from tvwrl.experiments.exploring.explore_command import ExploreSettings, explore
from tvwrl.experiments.exploring.explored import first_look
from tvwrl.schedulers import make_scheduler
from tvwrl.types import InputError

NAMES = ("spread", "best-fit", "expected-cost")


@pytest.fixture(scope="module")
def folder(problem, tmp_path_factory):
    out = tmp_path_factory.mktemp("explore") / "evaluation"
    evaluate(
        EvaluationSetup(problem, (0.3, 0.5), 2, bound_seconds=None), [*map(make_scheduler, NAMES)], out, plots=False
    )
    return out


def test_words_become_settings():
    parsed = line_of(["explore", "runs/a", "--sequences", "3", "--no-what-if", "--format", "svg"]).parsed()
    assert (str(parsed.run), parsed.sequences, parsed.what_if, parsed.format) == ("runs/a", 3, False, "svg")


def test_it_writes_one_file_and_leaves_nothing_else(folder, capsys):
    before = {path.name for path in folder.iterdir()}
    explore(ExploreSettings(folder, sequences=1))
    assert {path.name for path in folder.iterdir()} == before | {PAGE}
    assert capsys.readouterr().out == f"written to {folder / PAGE}\nopen {(folder / PAGE).as_uri()}\n"
    first = (folder / PAGE).read_bytes()
    explore(ExploreSettings(folder, sequences=1, workers=2))
    assert (folder / PAGE).read_bytes() == first  # processes change nothing


def test_what_was_interrupted_continues_with_the_episodes_that_are_there(folder, monkeypatch):
    def stop(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(explore_command, "write_page", stop)
        with pytest.raises(KeyboardInterrupt):
            explore(ExploreSettings(folder, loads=(0.3,)))
    kept = folder / ".explorer" / "cells" / "spread" / "load-0.3" / "sequence-1" / "recording.npz"
    written = kept.stat().st_mtime_ns
    with monkeypatch.context() as patch:
        patch.setattr(explore_command, "write_page", stop)
        with pytest.raises(KeyboardInterrupt):
            explore(ExploreSettings(folder))
    assert kept.stat().st_mtime_ns == written
    explore(ExploreSettings(folder, what_if=False))  # asks for something else, so it begins again
    assert not (folder / ".explorer").exists()


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_reports_show_the_first_two_schedulers(folder, tmp_path, suffix):
    explore(ExploreSettings(folder, file=tmp_path / f"report.{suffix}"))
    assert (tmp_path / f"report.{suffix}").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schedulers": ("tetris",)}, "schedulers is 'tetris': must be one of spread, best-fit, expected-cost"),
        ({"loads": (0.9,)}, r"loads is 0\.9: must be one of 0\.3, 0\.5"),
        ({"sequences": 3}, r"sequences is 3: must be 1 to 2; the evaluation kept 2 of load 0\.3"),
        ({"sequences": 0}, "sequences is 0: must be at least 1"),
        ({"workers": 0}, "workers is 0: must be at least 1"),
        ({"format": "png", "sequences": 2}, "sequences is 2: a report shows one sequence"),
        ({"format": "png", "schedulers": NAMES}, "schedulers: a report shows one or two, not 3"),
        ({"format": "svg", "file": Path("x.png")}, r"file is x\.png: with --format svg its name must end in \.svg"),
        ({"file": Path("x.txt")}, r"file is x\.txt: its name must end in \.html or \.htm or \.png"),
    ],
)
def test_bad_options_are_refused_before_anything_is_played(folder, changes, message):
    with pytest.raises(InputError, match=message):
        explore(ExploreSettings(folder, **changes))
    assert not (folder / ".explorer").exists()


def test_a_first_look_says_where_it_is_and_how_to_get_more(folder):
    text = first_look(folder)
    assert f"file://{folder / PAGE}" in text
    assert f"tvwrl explore {folder}" in text
