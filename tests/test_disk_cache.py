"""What is kept on disk: read again for the same content, made anew for any other, and never in the way."""

import os
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from tvwrl import disk_cache
from tvwrl.disk_cache import cache_folder, cached, cached_json, digest


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TVWRL_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


class Made:
    """Counts how often it was made."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, parts: object, kind: str = "list") -> list[int]:
        def make() -> list[int]:
            self.times += 1
            return [1, 2]

        return cached_json(kind, parts, make, list, list)


def test_the_same_content_is_made_once():
    made = Made()
    assert made({"load": 0.5, "a": np.zeros(3)}) == made({"a": np.zeros(3), "load": 0.5}) == [1, 2]
    assert made.times == 1


@dataclass(frozen=True)
class Part:
    load: float = 0.5
    names: tuple[str, ...] = ("a", "b")
    demand: np.ndarray = field(default_factory=lambda: np.array([1.0, 2.0]))


@pytest.mark.parametrize(
    "other",
    [
        Part(0.6),
        Part(names=("ab",)),
        Part(names=("a", "b", "")),
        Part(demand=np.array([1, 2])),
        Part(demand=np.array([[1.0, 2.0]])),
        Part(demand=np.array(["a", "b"], object)),
        {"load": 0.5, "names": ("a", "b"), "demand": np.array([1.0, 2.0])},
    ],
)
def test_other_content_is_another_thing(other):
    assert digest(Part()) == digest(replace(Part())) != digest(other)


def test_order_and_nesting_tell_apart():
    assert len({digest(one) for one in (["a", "b"], ["b", "a"], [["a"], "b"], ["a", ["b"]], "ab", b"ab", 1, 1.0)}) == 8
    with pytest.raises(TypeError, match="has no digest"):
        digest({1})


def test_what_other_code_made_is_not_used(monkeypatch):
    made = Made()
    made(1)
    monkeypatch.setattr(disk_cache, "_code", lambda: "another version")
    made(1)
    assert made.times == 2


@pytest.mark.parametrize("damage", [b"", b"{", b"[3, 4]", bytes(16) + b"[1, 2]", b"\xff" * 40])
def test_a_damaged_file_is_made_anew(folder, damage):
    made = Made()
    made(1)
    (file,) = folder.glob("*.kept")
    file.write_bytes(damage)
    assert made(1) == [1, 2]
    assert made(1) == [1, 2]
    assert made.times == 2


def test_it_does_without_a_folder(monkeypatch, tmp_path):
    made = Made()
    monkeypatch.setenv("TVWRL_CACHE", "off")
    assert cache_folder() is None
    made(1)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TVWRL_CACHE", str(tmp_path / "file" / "below"))  # nothing can be written there
    assert made(1) == [1, 2]
    assert made.times == 2


def test_who_wants_it_at_the_same_time_waits_for_who_makes_it():
    times, found = [], []

    def make() -> str:
        times.append(1)
        time.sleep(0.2)
        return "made"

    def ask() -> None:
        write, read = (lambda text, file: file.write(text.encode())), (lambda file: file.read().decode())
        found.append(cached("text", 1, make, write, read))

    several = [threading.Thread(target=ask) for _ in range(4)]
    for one in several:
        one.start()
    for one in several:
        one.join()
    assert found == ["made"] * 4
    assert times == [1]


def test_what_was_used_longest_ago_makes_room(folder, monkeypatch):
    made = Made()
    made(1, "old")
    made(2, "used")
    for name, age in (("old", 200), ("used", 300)):
        (file,) = folder.glob(f"{name}-*")
        os.utime(file, (time.time() - age,) * 2)
    made(2, "used")  # reading is use
    (folder / "thesis").write_bytes(bytes(1000))  # somebody else's
    os.utime(folder / "thesis", (0, 0))
    monkeypatch.setattr(disk_cache, "MOST_BYTES", 2 * (16 + len("[1, 2]")))
    made(3, "new")
    assert sorted(one.name.partition("-")[0] for one in folder.iterdir() if one.name[0] != ".") == [
        "new",
        "thesis",
        "used",
    ]
    assert len(list(folder.glob(".*.lock"))) == 2


def test_one_changed_bit_is_noticed(folder):
    made = Made()
    made(1)
    (file,) = folder.glob("*.kept")
    content = bytearray(file.read_bytes())
    content[-2] ^= 1  # [1, 3] would be read without complaint
    file.write_bytes(content)
    assert made(1) == [1, 2]
    assert made.times == 2
