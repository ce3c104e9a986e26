"""The page for papers: what stands on it, in which file formats, for every kind of recording."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.explorer.hand_made import LOADS, MACHINES, empty, later, on_many, on_one_resource, recording
from tvwrl.explorer import report
from tvwrl.explorer.report import SMALL, draw_report, load_shares
from tvwrl.types import InputError, Machines

NAMESPACE = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def coarse(monkeypatch: pytest.MonkeyPatch):
    """PNGs small enough for tests."""
    monkeypatch.setattr(report, "DPI", 40)


def texts(file: Path, *recordings, machines=MACHINES) -> list[str]:
    """Every text of a report drawn as an SVG."""
    draw_report(recordings, machines, file)
    return ["".join(text.itertext()) for text in ElementTree.parse(file).iter(f"{NAMESPACE}text")]


def test_one_recording_names_its_cost_and_its_costliest_decision(tmp_path: Path):
    found = texts(tmp_path / "a.svg", recording())
    assert "by-hand, penalty 60,260" in found
    row = ["1", "1", "b", "machine 0", "machine 1", "59,925", "60,000 overshoot"]
    assert any(found[at : at + 7] == row for at in range(len(found)))
    assert {"slot", "machine", "waiting", "contention", "under-utilisation"} <= set(found)


def test_two_recordings_say_where_they_part_and_which_costs_more(tmp_path: Path):
    found = texts(tmp_path / "a.svg", recording(), later())
    assert {"A: by-hand, penalty 60,260", "B: later, penalty 511"} <= set(found)
    assert "First different placement: slot 1 (dashed line); B costs 59,749 less in total" in found
    assert "All placements are the same; they cost the same" in texts(tmp_path / "b.svg", recording(), recording())


def test_letters_are_large_enough_to_print(tmp_path: Path):
    draw_report([recording(), later()], MACHINES, tmp_path / "a.svg")
    sizes = re.findall(r"font(?:-size)?: (?:\w+ )*([\d.]+)px", (tmp_path / "a.svg").read_text())
    assert sizes
    assert min(map(float, sizes)) >= SMALL
    assert re.search(r'<svg[^>]* width="504pt"', (tmp_path / "a.svg").read_text())  # 7 inches


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf", ".SVG"])
def test_the_same_recording_gives_the_same_bytes(tmp_path: Path, suffix):
    for name in "ab":
        draw_report([recording()], MACHINES, tmp_path / f"{name}{suffix}")
    assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
    assert len(list(tmp_path.iterdir())) == 2


def test_no_alternative_known_and_none_cheaper_are_said(tmp_path: Path):
    plain = recording()
    unknown = replace(plain, costs=np.full_like(plain.costs, np.nan))
    assert "no alternative was simulated" in texts(tmp_path / "a.svg", unknown)
    assert "nothing was decided" in texts(tmp_path / "c.svg", empty())
    best = replace(plain, costs=np.zeros_like(plain.costs))
    assert "no decision had a cheaper alternative" in texts(tmp_path / "b.svg", best)


@pytest.mark.filterwarnings("error")
def test_names_of_any_kind_stay_text(tmp_path: Path):
    found = texts(tmp_path / "a.svg", recording(("a", "<script>$x_1$\n\x00日本" + "x" * 1_000_000, "c")))
    assert "<script>$x_1$  日本xxxxxxxx…" in found
    draw_report([recording(("a", "<script>$x_1$\n日本", "c"))], MACHINES, tmp_path / "a.png")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "made",
    [(empty(), MACHINES), on_one_resource(), on_many(200)],
    ids=["empty", "one resource", "200 machines"],
)
def test_every_kind_of_recording_is_drawn(tmp_path: Path, made):
    one, machines = made
    draw_report([one], machines, tmp_path / "one.png")
    draw_report([one, one], machines, tmp_path / "two.png")
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in tmp_path.iterdir())


def test_what_cannot_be_drawn_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"a.jpg: a report is one of .png, .svg, .pdf"):
        draw_report([recording()], MACHINES, tmp_path / "a.jpg")
    with pytest.raises(InputError, match="3 recordings"):
        draw_report([recording()] * 3, MACHINES, tmp_path / "a.png")
    with pytest.raises(InputError, match="different arrivals"):
        draw_report([recording(), empty()], MACHINES, tmp_path / "a.png")


def test_shares_of_the_fuller_resource():
    shares = load_shares(LOADS, MACHINES)
    np.testing.assert_allclose(shares, [[0.5, 1.25, 1.25, 0], [0, 0, 0.25, 0.25]])
    full = load_shares(np.full((1, 2, 2), 4.0 + 1e-12), MACHINES)
    assert (full <= 1).all()
    off = Machines(np.array([[4.0, 4.0], [0.0, 0.0]]), ("cpu", "mem"))
    assert np.isnan(load_shares(LOADS, off)[1]).all()
