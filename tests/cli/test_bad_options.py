"""Options that are refused leave nothing behind, whichever command they are of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.reader_folder import Began, reader_in
from tvwrl.cli.dispatch import dispatch, line_of
from tvwrl.cli.help import type_of
from tvwrl.envs.problem import Problem
from tvwrl.types import InputError

NUMBERS = ("INT", "FLOAT", "INT,...", "FLOAT,...")
COMMANDS = (  # every command that writes, with the least that it needs
    "train --trace google2011",
    "tune --trace google2011",
    "learn-online --checkpoint RUN",
    "classes --trace google2011",
    "forecast --trace google2011",
    "evaluate --trace google2011",
    "explore runs/compared",
    "compare spread",
    "benchmark --named-tasks google-0.5-v0",
    "reproduce fig4",
    "reproduce table1 --google google2011",
    "reproduce lrasched-table2",
    "reproduce lrasched-fig6",
    "reproduce lrasched-fig8",
    "reproduce lrasched-gap",
    "reproduce lrasched-fig11",
    "reproduce provisioning-fig3",
    "reproduce pism-table1 --data FOLDER",
    "reproduce pism-fig10 --data FOLDER",
    "reproduce pism-fig12 --data FOLDER",
    "reproduce pism-table4 --data FOLDER",
    "reproduce pism-schedulers --trace google2011",
    "reproduce aladdin-fig10",
    "reproduce aladdin-repack",
    "reproduce results --traces google2011",
    "what-if --prometheus http://prometheus:9090",
    "provision --instance applications.csv --machine 32 64",
    "place --machines 20",
    "size",
    "interference --trace google2011",
    "prepare csv --source my-usage.csv",
    "prepare prometheus --source http://prometheus:9090 --name new",
)
LATER = {  # what is only refused when the long work has begun, and still before anything is written
    "--capacity": "needs the resources of the trace",
    "--slot-seconds": "is for traces, and these are applications",
}


@pytest.fixture(scope="module", autouse=True)
def folder(problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with reader_in(tmp_path_factory.mktemp("reader"), problem) as here:
        yield here


@pytest.mark.parametrize("command", COMMANDS)
def test_a_number_below_its_limit_is_refused_before_anything_is_written(command: str, folder: Path) -> None:
    words, before = command.split(), everything_in(folder)
    line = line_of(words)
    actions = [one for one in line.parser()._actions if one.option_strings]
    where = next(name for name in ("--out", "--file") if any(name in one.option_strings for one in actions))
    accepted = []
    for option in (one.option_strings[0] for one in actions if type_of(one) in NUMBERS):
        with suppress(InputError):
            with suppress(Began):
                dispatch([*words, where, "new", f"{option}=-1"])
            accepted.append(option)
        assert everything_in(folder) == before, option
    assert set(accepted) <= LATER.keys()


def everything_in(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))
