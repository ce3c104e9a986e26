"""Scripts of completion, in the shells that are on this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Literal

import pytest

from tvwrl.commands.completion import CompletionOptions, print_completion

CASES = {
    "tvwrl tra": ["train"],
    "tvwrl train --preset sm": ["smoke"],
    "tvwrl train --out x --see": ["--seed"],
    "tvwrl reproduce pism-n": ["pism-nginx"],
    "tvwrl reproduce fig4 --preset me": ["medium"],
    "tvwrl evaluate --no-bounds --loa": ["--load", "--loads"],
    "tvwrl completion z": ["zsh"],
}


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    """Shell -> its script."""
    import contextlib
    import io

    made = {}
    shells: tuple[Literal["bash", "zsh", "fish"], ...] = ("bash", "zsh", "fish")
    for shell in shells:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            print_completion(CompletionOptions(shell))
        made[shell] = printed.getvalue()
    return made


@pytest.mark.parametrize("line", CASES)
def test_bash(line: str, scripts: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    words = line.split(" ")
    ask = f'\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _tvwrl; printf "%s\\n" "${{COMPREPLY[@]}}"\n'
    (tmp_path / "script").write_text(scripts["bash"] + ask)
    done = subprocess.run(["bash", tmp_path / "script"], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= set(CASES[line])
    assert done.stdout.split()


def test_bash_leaves_files_to_itself(scripts: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("bash") is None:
        pytest.skip("no bash")
    ask = "\nCOMP_WORDS=(tvwrl train --out ''); COMP_CWORD=3; _tvwrl; echo ${#COMPREPLY[@]}\n"
    (tmp_path / "script").write_text(scripts["bash"] + ask)
    assert subprocess.run(["bash", tmp_path / "script"], capture_output=True, text=True, check=True).stdout == "0\n"


@pytest.mark.parametrize("line", CASES)
def test_fish(line: str, scripts: dict[str, str], tmp_path: Path) -> None:
    if shutil.which("fish") is None:
        pytest.skip("no fish")
    (tmp_path / "script").write_text(f"{scripts['fish']}\ncomplete -C '{line}'\n")
    done = subprocess.run(["fish", "--no-config", tmp_path / "script"], capture_output=True, text=True, check=True)
    found = {text.partition("\t")[0] for text in done.stdout.splitlines()}
    assert found
    assert found <= set(CASES[line])


def test_the_script_of_zsh_is_that_of_bash_behind_its_own_head(scripts: dict[str, str]) -> None:
    assert scripts["zsh"].endswith(scripts["bash"])
    if shutil.which("zsh") is not None:
        subprocess.run(["zsh", "-n"], input=scripts["zsh"], text=True, check=True)
