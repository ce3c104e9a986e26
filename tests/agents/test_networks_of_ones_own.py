"""A network of one's own, by its dotted path: it trains, is loaded only where its user allows it, and what it cannot do
is refused."""

import sys
from dataclasses import replace

import pytest

from tvwrl.agents import PRESETS, Checkpoint, allow_network, load_policy
from tvwrl.agents.export import export_policy
from tvwrl.agents.networks import ALLOWED
from tvwrl.agents.training import Trainer
from tvwrl.types import InputError

from .test_online import same
from .test_training import FEW

SOURCE = """
from pathlib import Path

from torch import nn

from tvwrl.agents import Policy

Path(__file__).with_name("imported").touch()


class Mine(Policy):
    def __init__(self, shapes, hidden):
        super().__init__()
        places, features = shapes["queue"]
        self.first = nn.Linear(places * features, hidden)
        self.last = nn.Linear(hidden, shapes["actions"])

    def forward(self, encoded):
        return self.last(self.first(encoded["queue"].flatten(1)).tanh())


def function(shapes, hidden):
    return None


class OneLogit(Mine):
    def forward(self, encoded):
        return super().forward(encoded)[:, :1]


class NoBatch(Mine):
    def forward(self, encoded):
        return super().forward(encoded)[0]


class Broken(Mine):
    def forward(self, encoded):
        return encoded["nothing"]


class NoArguments(Policy):
    def __init__(self):
        super().__init__()

    def forward(self, encoded):
        return encoded["mask"]


class Frozen(Mine):
    def __init__(self, shapes, hidden):
        super().__init__(shapes, hidden)
        self.requires_grad_(False)


class WithDropout(Mine):
    def __init__(self, shapes, hidden):
        super().__init__(shapes, hidden)
        self.dropout = nn.Dropout(0.5)

    def forward(self, encoded):
        return self.dropout(super().forward(encoded))
"""
MINE = "my_networks:Mine"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with a module of its user's, which nobody has imported."""
    (tmp_path / "my_networks.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])  # before what other tests have left there
    monkeypatch.setenv(ALLOWED, "")
    monkeypatch.delitem(sys.modules, "my_networks", raising=False)
    yield tmp_path
    sys.modules.pop("my_networks", None)


def run_of(problem, folder, algo="reinforce", network=MINE):
    config = replace(PRESETS["medium"], **FEW, algo=algo, network=network, scenario=problem.scenario)
    return Trainer(problem, config, folder, {"hash": ""}, lambda text: None)


@pytest.mark.parametrize("algo", ["reinforce", "counterfactual"])
def test_it_trains_and_plays(problem, folder, algo):
    allow_network(MINE)
    run = run_of(problem, folder / "run", algo)
    before = {name: value.clone() for name, value in run.policy.state_dict().items()}
    assert type(run.policy).__name__ == "Mine"
    assert run.run() == "finished"
    assert not same(before, run.policy.state_dict())
    saved = Checkpoint.load(folder / "run/checkpoints/last.pt")
    assert same(saved.make_policy().state_dict(), run.policy.state_dict())
    assert load_policy(folder / "run", saved).name == "run"
    with pytest.raises(InputError, match="cannot be exported"):
        export_policy(saved, "run")


def test_a_checkpoint_does_not_say_which_code_runs(problem, folder, monkeypatch):
    allow_network(MINE)
    run_of(problem, folder / "run").run()
    (folder / "imported").unlink()
    del sys.modules["my_networks"]
    monkeypatch.setenv(ALLOWED, "")
    with pytest.raises(InputError, match=f"{ALLOWED}={MINE}"):
        load_policy(folder / "run")
    assert not (folder / "imported").exists()
    monkeypatch.setenv(ALLOWED, f"others:Theirs,{MINE}")
    assert load_policy(folder / "run").name == "run"
    assert (folder / "imported").exists()


@pytest.mark.parametrize(
    ("network", "message"),
    [
        ("my_networks:Other", "must be a subclass of tvwrl.agents.Policy"),
        ("my_networks:function", "must be a subclass"),
        ("os:system", "must be a subclass"),
        ("no_such_module:Mine", "No module named"),
    ],
)
def test_what_is_no_network_is_refused(folder, network, message):
    with pytest.raises(InputError, match=message):
        allow_network(network)


@pytest.mark.parametrize("name", ["Mine", "my_networks.Mine", "my_networks:", "a b:C", "../x:Y"])
def test_names_are_module_and_class(problem, name):
    with pytest.raises(InputError, match="must be MODULE:NAME"):
        replace(PRESETS["medium"], network=name)


def test_algorithms_that_need_our_networks_say_so(problem, folder):
    allow_network(MINE)
    with pytest.raises(InputError, match="algo ppo needs a network that extends"):
        run_of(problem, folder / "run", "ppo")
    with pytest.raises(InputError, match="must be empty for policy deeprm"):
        replace(PRESETS["deeprm"], network=MINE)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("OneLogit", "returns logits .*, 1\\): must be"),
        ("NoBatch", "returns logits"),
        ("Broken", "KeyError: 'nothing'"),
        ("NoArguments", "TypeError"),
        ("Frozen", "does not require grad"),
    ],
)
def test_networks_that_cannot_be_trained_are_refused_before_there_is_a_folder(problem, folder, name, message):
    allow_network(f"my_networks:{name}")
    with pytest.raises(InputError, match=message):
        run_of(problem, folder / "run", network=f"my_networks:{name}")
    assert not (folder / "run").exists()


def test_dropout_is_off_so_that_the_policy_that_learns_is_the_one_that_plays(problem, folder):
    allow_network("my_networks:WithDropout")
    run = run_of(problem, folder / "run", network="my_networks:WithDropout")
    assert not run.policy.training
    assert run.evaluate() == run.evaluate()
    run.run()
    assert run.progress[1]["approx_kl"] < 1
