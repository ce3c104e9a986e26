"""A file of lines that stays small, and in which every line is whole, whatever ends the process or fills the disk."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tvwrl.serve import record as rotation
from tvwrl.serve.record import PARTS, RotatingLines, read_lines


def write(file, numbers, size=10**6, failed=str):
    """Lines of 10 bytes, such as {"i": 001}."""
    lines = RotatingLines(file, size, failed)
    for i in numbers:
        lines.write(b'{"i":%4d}' % i)
    lines.close()


def numbers(file):
    return [json.loads(line)["i"] for _, _, line in read_lines(file)]


def test_by_hand(tmp_path):
    """Three lines fit in a part; of ten parts, the last eight are kept."""
    file = tmp_path / "new" / "decisions.jsonl"
    write(file, range(29), size=PARTS * 35)
    assert sorted(path.name for path in file.parent.iterdir()) == [
        "decisions.jsonl", *(f"decisions.jsonl.{i}" for i in range(3, 10))
    ]  # fmt: skip
    assert numbers(file) == list(range(6, 29))
    assert [part.name for part, _, _ in read_lines(file)][:4] == ["decisions.jsonl.3"] * 3 + ["decisions.jsonl.4"]


def test_from_nine_to_ten(tmp_path):
    """Parts are in the order of their numbers, not of their names."""
    write(tmp_path / "d", range(40), size=PARTS * 35)
    assert numbers(tmp_path / "d") == list(range(18, 40))


@given(st.lists(st.integers(0, 30), min_size=1, max_size=6), st.integers(1, 400))
def test_what_is_left_is_the_newest_whatever_restarts(tmp_path_factory, runs, size):
    file = tmp_path_factory.mktemp("rotation") / "d"
    begin = 0
    for count in runs:
        write(file, range(begin, begin + count), size)
        begin += count
    found = numbers(file)
    assert found == list(range(begin - len(found), begin))
    kept = sum(path.stat().st_size for path in file.parent.iterdir())
    assert kept <= max(size, PARTS * 11)
    if begin * 11 <= size // PARTS:
        assert len(found) == begin


@pytest.mark.parametrize("torn", [b'{"i"', b"{", b'{"i":   7}'], ids=["half", "a byte", "all but its end"])
def test_a_torn_line_is_mended_at_the_next_start(tmp_path, torn):
    file = tmp_path / "d"
    write(file, [1, 2])
    with file.open("ab") as stream:
        stream.write(torn)
    before = [1, 2, 7] if b"7" in torn else [1, 2]
    assert numbers(file) == before
    write(file, [3])
    assert numbers(file) == [*before, 3]


def test_what_is_not_ours_is_not_cut(tmp_path):
    (tmp_path / "d").write_bytes(b"notes")
    write(tmp_path / "d", [1])
    assert (tmp_path / "d").read_bytes() == b'notes\n{"i":   1}\n'


@pytest.mark.parametrize("name", ["d.1", "5", "d.txt", "d.1.gz", "xd.7"])
def test_neighbours_are_left_alone(tmp_path, name):
    (tmp_path / name).mkdir() if name == "d.1" else (tmp_path / name).write_text("mine")
    write(tmp_path / "d", range(100), size=PARTS * 35)
    assert (tmp_path / name).exists()
    assert numbers(tmp_path / "d")[-1] == 99
    assert len(numbers(tmp_path / "d")) in (19, 22)  # a folder counts as a part


def test_glob_characters_in_the_name(tmp_path):
    write(tmp_path / "d[1]*", range(100), size=PARTS * 35)
    assert len(numbers(tmp_path / "d[1]*")) == 22


def test_rotated_while_it_is_read(tmp_path):
    file = tmp_path / "d"
    write(file, range(10))
    reading = read_lines(file)
    first = next(reading)
    file.rename(tmp_path / "d.1")
    write(file, [10])
    assert [json.loads(line)["i"] for _, _, line in [first, *reading]] == list(range(10))


def test_a_line_that_is_being_written_is_not_read(tmp_path):
    write(tmp_path / "d", [1])
    with (tmp_path / "d").open("ab") as stream:
        stream.write(b'{"i')
    assert numbers(tmp_path / "d") == [1]


CODE = """
import sys
from pathlib import Path
from tvwrl.serve.record import RotatingLines
lines = RotatingLines(Path(sys.argv[1]), 20_000, print)
i = int(sys.argv[2])
while True:
    lines.write(b'{"i":%6d}' % i)
    i += 1
    if i % 1000 == 0:
        print("on", flush=True)
"""


def test_killed_in_the_middle(tmp_path):
    file, begin = tmp_path / "d", 0
    for _ in range(3):
        command = [sys.executable, "-c", CODE, str(file), str(begin)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(rotation.__file__).parents[2]) as process:
            for _ in range(5):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            process.wait()
        found = numbers(file)
        assert found == list(range(found[0], found[-1] + 1))
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 20_000
        begin = found[-1] + 1


FULL = """
import resource, signal, sys
from pathlib import Path
from tvwrl.serve.record import RotatingLines
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (105, resource.RLIM_INFINITY))
lines = RotatingLines(Path(sys.argv[1]), 10**6, print)
for i in range(12):
    lines.write(b'{"i":%4d}' % i)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
lines.write(b'{"i":  99}')
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs a limit on the size of files")
def test_a_disk_that_is_full_and_then_is_not(tmp_path):
    """105 bytes are nine lines of 11 and a half: the half is taken back, and said."""
    command = [sys.executable, "-c", FULL, str(tmp_path / "d")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(rotation.__file__).parents[2])
    assert done.returncode == 0, done.stderr
    assert numbers(tmp_path / "d") == [*range(9), 99]
    assert len(done.stdout.splitlines()) == 3
    assert str(tmp_path / "d") in done.stdout


def test_a_folder_in_which_nothing_can_be_renamed(tmp_path, monkeypatch):
    said = []

    def refuse(self, target):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    write(tmp_path / "d", range(6), size=PARTS * 35, failed=said.append)
    assert numbers(tmp_path / "d") == list(range(6))
    assert said == [f"{tmp_path / 'd'}: it cannot be rotated: Permission denied"] * 3


def test_taken_away(tmp_path):
    file = tmp_path / "d"
    lines = RotatingLines(file, PARTS * 25)
    lines.write(b'{"i":1}')
    file.rename(tmp_path / "mine")
    for i in range(5):
        lines.write(b'{"i":%d}' % i)
    lines.close()
    assert numbers(file)


def test_pipes_are_only_written_to(tmp_path):
    reader, writer = os.pipe()
    write(Path(f"/dev/fd/{writer}"), range(5), size=1)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        assert stream.read() == b"".join(b'{"i":%4d}\n' % i for i in range(5))
