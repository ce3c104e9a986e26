"""What several tests of the scripts need: a small trace, a finished training run, a check of refusals."""

import pytest

from tvwrl.traces import open_trace, write_trace

TINY = [
    "--preset", "smoke", "--workloads", "12", "--history", "6", "--eval-every", "2", "--eval-sequences", "2",
    "--sequences-per-iteration", "2", "--trajectories", "2", "--train-sequences", "4", "--save-every", "2",
    "--comparison-sequences", "2",
]  # fmt: skip


@pytest.fixture(scope="session")
def tiny():
    """Options of a training run of seconds; --iterations is still to be given."""
    return TINY


@pytest.fixture(autouse=True)
def few_plots(monkeypatch):
    """Comparisons draw no plots but in `run`: that takes longer than to play them."""
    monkeypatch.setattr("tvwrl.experiments.evaluation.plot_comparison", lambda rows, folder, **options: None)


@pytest.fixture
def refused(call, tmp_path):
    """Checks exit code 2, one clear message with every text of `message`, no traceback, nothing half-written."""

    def check(script, *arguments, message):
        out = tmp_path / "out"
        written = "--file" if script == "interference" else "--out"
        done = call(script, *arguments, *(() if "--resume" in arguments else (written, out)))
        assert done.returncode == 2, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        for text in message:
            assert text in done.stderr
        assert not out.exists()
        assert not list(tmp_path.glob(".*partial*"))

    return check


@pytest.fixture(scope="session")
def trace(tmp_path_factory):
    """A small canonical trace on disk."""
    folder = tmp_path_factory.mktemp("trace") / "small"
    write_trace(open_trace("google").select(range(24)), folder)
    return folder


@pytest.fixture(scope="session")
def run(call, tiny, trace, tmp_path_factory):
    """A finished training run."""
    out = tmp_path_factory.mktemp("runs") / "whole"
    done = call("train", "--trace", trace, "--out", out, *tiny, "--iterations", 6)
    assert done.returncode == 0, done.stderr
    return out, done.stdout
