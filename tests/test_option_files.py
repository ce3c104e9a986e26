"""Options in YAML files: what they ask for, by hand; that writing and reading are inverse; and what is refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from tvwrl.cli.dispatch import line_of, with_file
from tvwrl.experiments.train_command import LEFT_OUT, TrainingSettings
from tvwrl.option_files import read_options, write_options
from tvwrl.types import InputError

pytest.importorskip("yaml")


def asked(*words):
    """The settings of `tvwrl train` with these words."""
    return with_file(line_of(["train", *map(str, words)])).parsed()


def test_a_file_as_words(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "# a comment\niterations: 100\ntrain-loads: [0.3, .5]\nlearning_rate: 1e-3\ndeeprm: no\nhold_action: true\n"
        "teacher: ''\nhorizon: null\nalso: []\nout: runs/a b\n"
    )
    assert read_options(file) == [
        "--iterations=100", "--train-loads=0.3,.5", "--learning-rate=1e-3", "--no-deeprm", "--hold-action",
        "--teacher=", "--horizon=None", "--also=", "--out=runs/a b",
    ]  # fmt: skip


def test_words_count_more_than_the_file_and_the_file_more_than_the_preset(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("preset: smoke\niterations: 3\nhidden: 7\n")
    found = asked("--config", file, "--hidden", 9)
    assert (found.config.iterations, found.config.hidden, found.config.train_sequences) == (3, 9, 8)
    assert (asked(f"--config={file}", "--preset", "medium").config.train_sequences) == 300


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--preset", "paper", "--load", 0.8, "--seeds", 5, "--no-deeprm"],
        ["--train-loads", "0.3,0.5", "--machine-types", "6x8,8,4x16,8", "--capacity", "8,16", "--ec", "none"],
        ["--algo", "reinforce", "--out", "elsewhere", "--K-w", 1e-05, "--gamma", 1, "--also", "bitbrains"],
        ["--policy", "flat", "--max-slots", 7, "--workloads", 30, "--start-from", "runs/: strange, #name"],
    ],
)
def test_what_is_written_asks_for_the_same(tmp_path, words):
    file, first = tmp_path / "config.yaml", asked(*words)
    file.write_text(write_options(first, "train", LEFT_OUT), encoding="utf-8")
    again = asked("--config", file)
    assert again == replace(first, out=None, config_file=file, preset="counterfactual")
    assert isinstance(first, TrainingSettings)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("iterations: abc", "--iterations is 'abc': must be a whole number"),
        ("itterations: 3", "did you mean --iterations"),
        ("iterations: 3\nseed: 1\niterations: 4", "line 3: iterations is there already, in line 1"),
        ("train_loads: [0.3]\ntrain-loads: [0.5]", "line 2: train-loads is there already"),
        ("- 3", "must have a line for each option"),
        ("just words", "must have a line for each option"),
        ("a: b: c", "line 1: is not YAML"),
        ("a: [1", "is not YAML"),
        ("scenario: {load: 3}", "line 1: scenario must be a number, a word"),
        ("train_loads: [[1]]", "line 1: train_loads must be a number, a word"),
        ("train_loads: [true]", "line 1: train_loads must be"),
        ("config: other.yaml", "cannot name another one"),
        ("help: true", "line 1: help is no option of a file"),
        ("<<: {a: 1}", "must begin with the name of an option"),
        ("? [1, 2]\n: 3", "must begin with the name of an option"),
        ("iterations: 0", "iterations is 0: must be at least 1"),
        ("iterations: null", "--iterations is 'None'"),
        ("deeprm: 3", "has no argument '3'"),
        ("a: &a [*a]", "must be a number, a word"),
        ("a: !!python/object/apply:os.system [true]", "a must be"),
    ],
)
def test_files_that_are_refused_by_name_and_line(tmp_path, text, message):
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as refused:
        asked("--config", file)
    assert str(refused.value).startswith(f"--config {file}")
    assert message in str(refused.value)


def test_what_is_no_file_is_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for file in (tmp_path / "missing.yaml", tmp_path, tmp_path / "binary", ""):
        with pytest.raises(InputError, match="--config"):
            asked("--config", file)
    (tmp_path / "empty.yaml").write_text("\n# nothing\n")
    assert asked("--config", tmp_path / "empty.yaml").config == asked().config


def test_a_wrong_word_beside_a_good_file_is_not_the_files_fault(tmp_path):
    file = tmp_path / "good.yaml"
    file.write_text("iterations: 3")
    with pytest.raises(InputError) as refused:
        asked("--config", file, "--hidden", "many")
    assert not str(refused.value).startswith("--config")
    assert Path(file).is_file()
