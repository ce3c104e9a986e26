"""`tvwrl export`: its files, what the card says, and what bad input gets to hear; evaluations of the file."""

import contextlib
import io
import json
import re

import pytest

from tests.agents.exporting import checkpoint_of
from tvwrl.agents import Checkpoint, Export, load_exported
from tvwrl.agents.policy_scheduler import load_policy
from tvwrl.benchmark.entries import Setting, entry_of
from tvwrl.cli.dispatch import line_of
from tvwrl.experiments.episode_rows import read_rows
from tvwrl.experiments.evaluate_command import ComparisonSettings, compare_schedulers
from tvwrl.experiments.evaluation import EvaluationSetup, evaluate
from tvwrl.experiments.export_command import ExportSettings, export
from tvwrl.experiments.model_card import model_card
from tvwrl.experiments.scheduler_names import scheduler_of
from tvwrl.experiments.statistics import mean_with_interval
from tvwrl.schedulers import make_scheduler
from tvwrl.types import InputError


@pytest.fixture(scope="module")
def run(problem, tmp_path_factory):
    """The folder of a training run whose best policy was evaluated, and its last one was not."""
    folder = tmp_path_factory.mktemp("runs") / "mine"
    checkpoint, _ = checkpoint_of(problem, "flat that sees all")
    for name in ("best.pt", "last.pt"):
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        checkpoint.save(folder / "checkpoints" / name)
    about = {"trace": {"workloads": 60}, "versions": {"tvwrl": "0.1.0"}}
    (folder / "run.json").write_text(json.dumps(about))
    policy = load_policy(folder)
    facts = {"checkpoint": {"run": "mine", "iteration": 1}, "policies": {"mine": "../checkpoints/best.pt"}}
    played = [policy, make_scheduler("spread")]
    evaluate(
        EvaluationSetup(checkpoint.problem(problem.trace), (0.5,), 3), played, folder / "evaluation", facts, plots=False
    )
    return folder


@pytest.fixture(scope="module")
def exporting(run):
    """The file that `tvwrl export` made of it, and what the command said. The exporter takes seconds."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        export(ExportSettings(run))
    return run / "mine.onnx", said.getvalue()


@pytest.fixture(scope="module")
def exported(exporting):
    """The file alone."""
    return exporting[0]


def test_words_become_settings():
    parsed = line_of(["export", "runs/a", "--license", "mit"]).parsed()
    assert (str(parsed.run), parsed.file, parsed.license) == ("runs/a", None, "mit")


def test_both_files_appear_and_are_named(run, exporting):
    file, said = exporting
    assert {path.name for path in run.iterdir() if path.is_file()} == {"mine.onnx", "mine.md", "run.json"}
    assert re.search(r"logits differ from the policy's own by \d\.\de-\d\d at most, in 64 random states\n", said)
    assert f"written to {file}" in said


def test_the_card_says_what_the_run_measured(run, exported):
    card = exported.with_suffix(".md").read_text()
    assert card.startswith('---\nlicense: "other"\nlibrary_name: onnx\n')
    rows = read_rows(run / "evaluation")
    for name, shown in (("mine", "**mine** (this policy)"), ("spread", "spread")):
        rewards = rows.filter(rows["scheduler"] == name)["reward"].to_numpy()
        line = next(line for line in card.splitlines() if line.startswith(f"| {shown} "))
        assert mean_with_interval(rewards / 1000, 2) in line
    assert "Load 0.5, 3 test sequences" in card
    assert "(synthetic, 60 workloads)" in card
    assert "(B, 4, 2, 6, 12)" in card
    assert "(B, 4 + 1)" in card
    assert f"Group: {load_policy(run).knowledge.group}." in card
    assert "load_exported('mine.onnx')" in card
    assert "tvwrl serve --policy mine.onnx" in card


def test_a_checkpoint_that_nobody_evaluated_has_no_results(run, exported):
    facts, source = load_exported(exported).facts, run / "checkpoints" / "last.pt"
    card = model_card(Export(b"", facts, 0.0, 64), Checkpoint.load(source), exported, source, "mit")
    assert "This checkpoint was not evaluated." in card
    assert "spread" not in card


@pytest.mark.parametrize("name", ["it's.onnx", 'a "b".onnx', "$file {x}|y.onnx", "back\\slash.onnx"])
def test_the_example_of_the_card_is_python_whatever_the_file_is_called(run, exported, name):
    facts, source = load_exported(exported).facts, run / "checkpoints" / "last.pt"
    card = model_card(Export(b"", facts, 0.0, 64), Checkpoint.load(source), exported.with_name(name), source, "mit")
    line = next(line for line in card.splitlines() if "load_exported(" in line)
    given = []
    exec(line, {"load_exported": given.append})
    assert given == [name]


def test_nothing_is_left_of_an_export_that_fails(run, tmp_path, monkeypatch):
    from tvwrl.agents import export as export_module

    monkeypatch.setattr(export_module, "MOST_DIFFERENCE", -1.0)
    with pytest.raises(InputError, match="logits differ by"):
        export(ExportSettings(run, file=tmp_path / "it.onnx"))
    assert not list(tmp_path.iterdir())


def test_bad_input_is_named(run, tmp_path):
    with pytest.raises(InputError, match=r"its name must end in \.onnx"):
        export(ExportSettings(run, file=tmp_path / "it.pb"))
    with pytest.raises(InputError, match="no such run folder or checkpoint"):
        export(ExportSettings(tmp_path / "nothing"))


def test_evaluate_plays_the_file_as_it_plays_the_run(run, exported, tmp_path, google, monkeypatch):
    from tvwrl.experiments import evaluate_command

    monkeypatch.setattr(evaluate_command, "open_and_describe", lambda *_: google)
    for name, checkpoint in (("file", exported), ("run", run)):
        compare_schedulers(
            ComparisonSettings(
                out=tmp_path / name,
                checkpoint=checkpoint,
                schedulers=("spread",),
                trace="google",
                sequences=2,
                bounds=False,
            )
        )
    mine, theirs = (read_rows(tmp_path / name).drop("decision_ms") for name in ("file", "run"))
    assert mine.equals(theirs)
    with pytest.raises(InputError, match="does not say where its trace, 'google', is: give it as --trace"):
        compare_schedulers(ComparisonSettings(checkpoint=exported))


def test_a_rollout_may_use_the_file(exported):
    assert scheduler_of(f"rollout(spread+policy)={exported}", "cpu").name


def test_compare_takes_the_file_with_what_it_observes(exported, run, problem):
    setting = Setting.of_problem(problem)
    entry, other = entry_of("file", exported, setting), entry_of("run", run, setting)
    assert entry.problem.scenario == other.problem.scenario
    assert entry.problem.scenario.observe_forecast
    assert entry.scheduler.knowledge == other.scheduler.knowledge
    assert entry.origin == "training run mine.onnx"
    assert entry_of("loaded", load_exported(exported), setting).problem.scenario == other.problem.scenario
