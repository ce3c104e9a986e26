"""The commands that readers are told to type: found in all pages, and in what examples and measurements say of
themselves."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GENERATED = ("_build", "api")  # folders below docs/ that `make docs` writes
PAGES = ("README.md", "CONTRIBUTING.md", "e2e/README.md", "docs")
SCRIPTS = ("benchmarks", "examples", "scripts")
FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.M | re.S)
SHELLS = ("", "bash", "sh", "console")
INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
BEGIN = re.compile(r"(?:^|&& |\bdo )(?:\$ )?(?:[A-Z_0-9]+=\S+ )*((?:tvwrl|python|make) .*?)(?= &&|; done|$)")
LOOP = re.compile(r"\bfor (\w+) in ([^;\n]+);")
SAID = re.compile(r"(python (?:benchmarks|examples|scripts)/\w+\.py(?: (?!\()[^\s;]+)*)")  # in a docstring
FILLED_IN = (  # what stands for any such thing -> one of them, in this order
    (r"\$\(date [^)]*\)", "2026-01-01T00:00:00Z"),
    (r"\b(?:reproduce) (?:NAME|FIGURE)\b", "reproduce fig4"),
    (r"\bprepare NAME\b", "prepare google2011"),
    (r"\bFF,NAME\b", "FF,WFD-AvgExp"),
    (r"--margin M\b", "--margin 0.02"),
    (r"--seed SEED\b", "--seed 0"),
    (r"\b(?:TRACE|NAME)\b", "google2011"),
    (r"\.\.\.,", ""),
    (r"https://\.\.\.", "https://host/folder"),
)


@dataclass(frozen=True)
class Command:
    """A command line of a page."""

    page: str
    text: str
    in_sentence: bool  # where it may be a name without all that the command needs, as in "`tvwrl train --ec`"

    @property
    def words(self) -> tuple[str, ...]:
        """What a shell makes of it, with an example for everything that the reader fills in."""
        text = self.text
        for pattern, example in FILLED_IN:
            text = re.sub(pattern, example, text)
        return tuple(word for word in shlex.split(text, comments=True) if word != "...")

    @property
    def whole(self) -> bool:
        """Whether all is there that a reader would type: a sentence may only name a command, or one of its options."""
        given = [word for before, word in pairwise(self.words) if before.startswith("--") and not word.startswith("--")]
        return not self.in_sentence or bool(given)

    def __str__(self) -> str:
        return f"{self.page}: {self.text}"


def documented() -> list[Command]:
    """All commands, each where it stands."""
    pages = [
        page
        for name in PAGES
        for page in sorted((ROOT / name).rglob("*.md") if (ROOT / name).is_dir() else [ROOT / name])
    ]
    written = [page for page in pages if not set(GENERATED) & set(page.parts)]
    found = [Command(str(page.relative_to(ROOT)), *one) for page in written for one in of_page(page.read_text("utf-8"))]
    for folder in SCRIPTS:
        for file in sorted((ROOT / folder).glob("*.py")):
            found += [Command(str(file.relative_to(ROOT)), one, False) for one in of_code(file.read_text("utf-8"))]
    return found


def of_page(text: str) -> Iterator[tuple[str, bool]]:
    """Commands of a page of Markdown, and whether each stands in a sentence."""
    for language, block in FENCE.findall(text):
        if language in SHELLS:
            yield from ((one, False) for one in of_block(block))
    for code in INLINE.findall(FENCE.sub("", text)):
        one = " ".join(code.split())
        if re.match(r"(tvwrl|python|make) [\w-]", one):
            yield one, True


def of_block(block: str) -> Iterator[str]:
    """Commands of a block of code, with the first value of each loop."""
    joined = re.sub(r"\\\n\s*", "", block)
    loops = {name: values.split()[0] for name, values in LOOP.findall(joined)}
    for line in joined.splitlines():
        for found in BEGIN.findall(line.strip()):
            one = re.sub(r"\$(\w+)", lambda name: loops.get(name[1], name[0]), found)
            yield one.partition("  #")[0].strip()


def of_code(text: str) -> Iterator[str]:
    """Commands that the docstrings of a file name."""
    for docstring in re.findall(r'"""(.*?)"""', text, re.S):
        for found in SAID.findall(docstring):
            yield found.rstrip(".")
